// The first line of the panel: what ran, on what, how it ended, where the time went.
import { Bar } from "../draw/bar";
import { reportJson, save } from "../export";
import { allFindings } from "../findings";
import type { Report } from "../protocol";
import { label, plural, seconds } from "../text";

const STATES: Record<Report["state"], readonly [string, string]> = {
  running: ["◌", "running"],
  finished: ["✓", "finished"],
  failed: ["✕", "failed"],
  interrupted: ["■", "interrupted"],
};

/** `live` is false where there is no kernel behind the panel. */
export function stateWord(report: Report, live: boolean): string {
  return report.state === "running" && !live ? "was running when saved" : STATES[report.state][1];
}

export function Header({ report, live }: { report: Report; live: boolean }) {
  const [sign] = STATES[report.state];
  const word = stateWord(report, live);
  return (
    <header>
      <div class="head">
        <code class="title" title={label(report.title, 400)}>
          {label(report.title, 60)}
        </code>
        <span class={`state ${report.state}`} role="status" aria-live="polite">
          <span aria-hidden="true" class={report.state === "running" && live ? "turning" : ""}>
            {sign}
          </span>{" "}
          {word}
        </span>
        <span class="facts">{label(facts(report).join(" · "), 200)}</span>
        <button
          type="button"
          class="small"
          title="Save the whole report as JSON"
          onClick={() => save("report.json", "application/json", reportJson(report))}
        >
          JSON
        </button>
      </div>
      <Spent report={report} />
    </header>
  );
}

function facts(report: Report): string[] {
  const own = report.compiled.filter(each => !each.library).length;
  const values = report.taps.reduce((sum, series) => sum + series.total, 0);
  return [
    device(report),
    jitOff(report),
    report.compiled.length ? plural(own, "function") : "",
    allFindings(report).length ? plural(allFindings(report).length, "finding") : "",
    report.taps.length ? plural(values, "value") : "",
    `JAX ${report.versions.jax}`,
  ].filter(Boolean);
}

function jitOff({ nojit }: Report): string {
  if (!nojit) return "";
  return `jit off ${nojit.scope}${nojit.lasting ? ", for later cells too" : ""}`;
}

function device({ backend, devices }: Report): string {
  return devices.length > 1 ? `${backend} ×${devices.length}` : backend;
}

/** Seconds as words and as one bar. */
function Spent({ report: { seconds: spent } }: { report: Report }) {
  const run = Math.max(0, spent.total - spent.trace - spent.lower - spent.compile);
  const parts = [
    { name: "trace", value: spent.trace },
    { name: "lower", value: spent.lower },
    { name: "compile", value: spent.compile },
    { name: "run", value: run },
  ].filter(part => part.value > 0);
  return (
    <div class="spent">
      <strong>{seconds(spent.total)}</strong>
      <Bar parts={parts} of={spent.total} />
      {parts.map(part => (
        <span key={part.name} class="key">
          <i class={`swatch ${part.name}`} /> {part.name} {seconds(part.value)}
        </span>
      ))}
      {spent.tool > 0 && (
        <span class="key quiet" title="Spent by jaxmagic after the cell had ended; not part of the total">
          jaxmagic {seconds(spent.tool)}
        </span>
      )}
    </div>
  );
}
