// Two runs of the same cell, name by name.
import { csv, save } from "../export";
import type { Comparison, Difference } from "../protocol";
import { aval, label, number, plural, seconds } from "../text";
import { Fold, Name, Prose, Where } from "./parts";
import type { Shown } from "./shown";

/** What differs comes first; of the rest, so many rows before they fold away. */
const ROWS = 12;

export function ComparisonView({ comparison, shown }: { comparison: Comparison; shown: Shown }) {
  const { left, right, differences } = comparison;
  const differing = differences.filter(each => each.verdict !== "equal");
  const equal = differences.filter(each => each.verdict === "equal");
  const open = [...differing, ...equal.slice(0, Math.max(0, ROWS - differing.length))];
  const folded = equal.slice(open.length - differing.length);
  return (
    <section aria-label="Comparison" class="comparison">
      <h3>
        {label(left, 60)} against {label(right, 60)} <span class="grow" />
        <button type="button" class="small" onClick={() => save("comparison.csv", "text/csv", table(comparison))}>
          CSV
        </button>
      </h3>
      <p class="said">
        <Prose text={label(comparison.verdict, 400)} /> <Where span={comparison.first} shown={shown} />
      </p>
      <p class="facts">
        <span>
          <span class="quiet">{label(left, 40)}</span> {seconds(comparison.left_s)}
        </span>
        <span>
          <span class="quiet">{label(right, 40)}</span> {seconds(comparison.right_s)}
        </span>
      </p>
      {open.length > 0 && <Differences comparison={comparison} differences={open} />}
      {folded.length > 0 && (
        <Fold title={`${plural(folded.length, "more name")}, equal`}>
          <Differences comparison={comparison} differences={folded} />
        </Fold>
      )}
    </section>
  );
}

interface Some {
  readonly comparison: Comparison;
  readonly differences: readonly Difference[];
}

function Differences({ comparison: { left, right }, differences }: Some) {
  const numbers = ["Max abs", "Max rel", "Max ulp"];
  return (
    <div class="sideways">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Verdict</th>
            {numbers.map(name => (
              <th key={name} scope="col" class="num">
                {name}
              </th>
            ))}
            <th scope="col">{label(left, 24)}</th>
            <th scope="col">{label(right, 24)}</th>
          </tr>
        </thead>
        <tbody>
          {differences.map(each => (
            <Row key={each.name} difference={each} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ difference }: { difference: Difference }) {
  return (
    <tr>
      <th scope="row">
        <Name text={difference.name} most={48} />
      </th>
      <td>{label(difference.verdict, 60)}</td>
      <td class="num">{number(difference.max_abs)}</td>
      <td class="num">{number(difference.max_rel)}</td>
      <td class="num">{number(difference.max_ulp)}</td>
      <td>{difference.left && <code class="aval">{aval(difference.left)}</code>}</td>
      <td>{difference.right && <code class="aval">{aval(difference.right)}</code>}</td>
    </tr>
  );
}

function table({ differences }: Comparison): string {
  const rows = differences.map(each => [each.name, each.verdict, each.max_abs, each.max_rel, each.max_ulp]);
  return csv([["name", "verdict", "max_abs", "max_rel", "max_ulp"], ...rows]);
}
