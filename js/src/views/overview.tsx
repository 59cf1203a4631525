// The first tab: what happened, beside the code.
import { bySeverity } from "../findings";
import type { Report } from "../protocol";
import { label, plural } from "../text";
import { Alerts } from "./alerts";
import { FailureView } from "./failure";
import { Findings } from "./findings";
import { Ledger } from "./ledger";
import { NoJitView } from "./nojit";
import { Empty, Prose } from "./parts";
import type { Shown } from "./shown";
import { Sources } from "./source";

export function Overview({ shown }: { shown: Shown }) {
  const { report } = shown;
  const findings = bySeverity(report.findings);
  const beside = findings.length > 0;
  return (
    <div class="overview">
      <Alerts shown={shown} />
      {report.failure && <FailureView failure={report.failure} shown={shown} />}
      <div class={`columns${beside ? " two" : ""}`}>
        <section aria-label="Source" class="scrolls">
          {hasText(report) && <Sources shown={shown} peek={true} />}
          {nothing(report) && <Empty>{nothing(report)}</Empty>}
        </section>
        {beside && (
          <section aria-label="Findings" class="scrolls">
            <h3>{plural(findings.length, "finding")}</h3>
            <Findings findings={findings} shown={shown} />
          </section>
        )}
      </div>
      {report.nojit && <NoJitView nojit={report.nojit} shown={shown} />}
      {report.compiled.length > 0 && <Ledger shown={shown} />}
      {report.limits.length > 0 && <Limits limits={report.limits} />}
    </div>
  );
}

/** Whether the cell has more in it than our own line. */
function hasText(report: Report): boolean {
  return report.sources.some(source => source.text.replace(/^\s*%%.*/, "").trim() !== "");
}

/** Why there is nothing to see, where there is not. */
function nothing(report: Report): string {
  if (report.compiled.length || report.hints.length || report.taps.length || report.nojit || report.failure) return "";
  if (report.state === "running") return "Waiting for the first line to finish…";
  if (!hasText(report)) return "The cell is empty: nothing ran.";
  return "No JAX in this cell: it made no array and compiled nothing.";
}

/** What was not observed, and why. */
function Limits({ limits }: { limits: readonly string[] }) {
  return (
    <section aria-label="Not observed" class="limits">
      <h3>Not observed</h3>
      <ul>
        {limits.map(text => (
          <li key={text}>
            <Prose text={label(text, 400)} />
          </li>
        ))}
      </ul>
    </section>
  );
}
