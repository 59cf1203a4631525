// A run without jit: what ran in Python, what stayed traced, and where the time went.
import type { Comparison, LineCost, NoJit, RanInPython, StillTraced } from "../protocol";
import { label, plural, seconds } from "../text";
import { Fold, Name, Prose, Where } from "./parts";
import type { Shown } from "./shown";

interface Props {
  readonly nojit: NoJit;
  readonly shown: Shown;
}

/** Functions listed before the others fold away. */
const FUNCTIONS = 8;
const DEAREST = 8;

export function NoJitView({ nojit, shown }: Props) {
  const { functions, unreached, traced, costs } = nojit;
  return (
    <section aria-label="Without jit" class="nojit">
      <h3>Without jit</h3>
      <Head nojit={nojit} />
      <Against comparison={shown.report.comparison} />
      <div class="sides">
        <ul>
          {unreached.map(reason => (
            <li key={reason}>
              <span class="sick">▲ not reached:</span> <Prose text={label(reason, 400)} />
            </li>
          ))}
          <Ran functions={functions.slice(0, FUNCTIONS)} shown={shown} />
          {traced.map((each, at) => (
            <Traced key={at} traced={each} shown={shown} />
          ))}
        </ul>
        {costs.length > 0 && <Costs costs={costs.slice(0, DEAREST)} shown={shown} />}
      </div>
      {functions.length > FUNCTIONS && (
        <Fold title={`${plural(functions.length - FUNCTIONS, "more function")}`}>
          <ul>
            <Ran functions={functions.slice(FUNCTIONS)} shown={shown} />
          </ul>
        </Fold>
      )}
    </section>
  );
}

function Head({ nojit: { scope, lasting, operations, stopped } }: { nojit: NoJit }) {
  return (
    <p class="said">
      Jit was off {label(scope, 200)}
      {lasting && (
        <>
          {" "}
          and stays off for later cells, until <code>%jaxnojit off</code>
        </>
      )}
      ; {plural(operations, "operation")} ran one by one.
      {stopped && <span class="sick"> ▲ The budget ended it {label(stopped, 200)}.</span>}
    </p>
  );
}

/** What it cost, where the same cell ran with jit too. */
function Against({ comparison }: { comparison: Comparison | null }) {
  if (!comparison) return null;
  const sides = [
    [comparison.left, comparison.left_s, comparison.left_operations],
    [comparison.right, comparison.right_s, comparison.right_operations],
  ] as const;
  return (
    <p class="facts">
      {sides.map(([name, spent, operations]) => (
        <span key={name}>
          <span class="quiet">{label(name, 40)}</span> {seconds(spent)}
          {operations > 0 && `, ${plural(operations, "program")} sent`}
        </span>
      ))}
    </p>
  );
}

function Ran({ functions, shown }: { functions: readonly RanInPython[]; shown: Shown }) {
  return (
    <>
      {functions.map((each, at) => (
        <li key={at}>
          <code>
            <Name text={each.name} />
          </code>{" "}
          ran in Python {plural(each.calls, "time")}
          {each.carrier && ", because it contains a function asked for"} <Where span={each.span} shown={shown} />
        </li>
      ))}
    </>
  );
}

function Traced({ traced, shown }: { traced: StillTraced; shown: Shown }) {
  const oneByOne = /^[vp]map/.test(traced.transforms[0] ?? "");
  return (
    <li>
      <span class="tag">still traced</span> by <strong>{label(traced.transforms.join(" in "), 80)}</strong>:{" "}
      <code>
        <Name text={traced.function} />
      </code>{" "}
      <Where span={traced.call ?? traced.span} shown={shown} />
      {oneByOne && <span class="quiet">call it on one example to meet its values one by one</span>}
    </li>
  );
}

function Costs({ costs, shown }: { costs: readonly LineCost[]; shown: Shown }) {
  return (
    <div class="sideways">
      <table>
        <thead>
          <tr>
            <th scope="col">Where the time went</th>
            <th scope="col" class="num">
              Operations
            </th>
            <th scope="col" class="num">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {costs.map((cost, at) => (
            <tr key={at}>
              <th scope="row">
                <Where span={cost.span} shown={shown} />
                <code>{label(textAt(cost, shown), 48)}</code>
              </th>
              <td class="num">{cost.operations.toLocaleString("en")}</td>
              <td class="num">{seconds(cost.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function textAt({ span }: LineCost, { report }: Shown): string {
  const source = report.sources.find(each => each.file === span.file);
  return source?.text.split("\n")[span.line - source.first_line]?.trim() ?? "";
}
