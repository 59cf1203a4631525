// Real values at a line that ran without jit: at its end in short, and run by run where the line is opened.
import { type Over, overRuns, valueText } from "../index/values";
import type { LineValue } from "../protocol";
import { aval, label } from "../text";

export function ValueView({ variable }: { variable: Over }) {
  return (
    <span class="hint value" title={label(overRuns(variable, 200), 1500)}>
      <VariableName name={variable.name} /> <bdi>{label(overRuns(variable, 36), 150)}</bdi>
    </span>
  );
}

function VariableName({ name }: { name: string }) {
  if (name !== "return") return <bdi class="of">{label(name, 32)} =</bdi>;
  return (
    <span class="arrow">
      <span aria-hidden="true">→</span>
      <span class="unseen">returns</span>
    </span>
  );
}

/** Runs of an opened line are the rows, its variables the columns. */
export function Runs({ values }: { values: readonly Over[] }) {
  const runs = new Map(values.flatMap(each => each.runs.map(value => [value.run, value] as const)));
  const rows = [...runs.values()].sort((a, b) => a.run - b.run);
  return (
    <div class="sideways">
      <table class="runs">
        <thead>
          <tr>
            <th scope="col">Run</th>
            {values.map(({ name, runs: [first] }) => (
              <th key={name} scope="col">
                <bdi class="name">{label(name, 40)}</bdi> {first && <code class="aval">{lanesText(first)}</code>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ run, kept }) => (
            <tr key={run}>
              <th scope="row">
                {run + 1} {kept === "branch" && <span class="tag">other branch</span>}
              </th>
              {values.map(({ name, runs: all }) => (
                <Value key={name} value={all.find(value => value.run === run)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Value({ value }: { value: LineValue | undefined }) {
  const text = value ? valueText(value) : "";
  return (
    <td title={text.length > 60 ? label(text, 1500) : undefined}>
      <code>{label(text, 60)}</code>
    </td>
  );
}

function lanesText({ aval: known, lanes }: LineValue): string {
  return `${aval(known)}${lanes.map(size => ` ×${size} (vmap)`).join("")}`;
}
