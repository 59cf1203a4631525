// The first tab: what happened, beside the code.
import { bySeverity } from "../findings";
import { label, plural } from "../text";
import { FailureView } from "./failure";
import { Findings } from "./findings";
import { Ledger } from "./ledger";
import { Empty, Prose } from "./parts";
import type { Shown } from "./shown";
import { Sources } from "./source";

export function Overview({ shown }: { shown: Shown }) {
  const { report } = shown;
  const findings = bySeverity(report.findings);
  const beside = findings.length > 0;
  return (
    <div class="overview">
      {report.failure && <FailureView failure={report.failure} shown={shown} />}
      <div class={`columns${beside ? " two" : ""}`}>
        <section aria-label="Source" class="scrolls">
          {report.sources.length ? <Sources shown={shown} peek={true} /> : <Empty>{emptyText(shown)}</Empty>}
        </section>
        {beside && (
          <section aria-label="Findings" class="scrolls">
            <h3>{plural(findings.length, "finding")}</h3>
            <Findings findings={findings} shown={shown} />
          </section>
        )}
      </div>
      {(report.compiled.length > 0 || report.sources.length > 0) && <Ledger shown={shown} />}
      {report.limits.length > 0 && <Limits limits={report.limits} />}
    </div>
  );
}

function emptyText({ report }: Shown): string {
  if (report.state === "running") return "Waiting for the first line to finish…";
  return "The cell is empty: nothing ran.";
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
