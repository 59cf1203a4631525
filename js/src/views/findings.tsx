// Diagnoses: the cause in one sentence, the way out to copy, the facts on demand.
import type { Finding } from "../protocol";
import { clip, label, visible } from "../text";
import { Copy, Fold, Prose, Sign, Where } from "./parts";
import type { Shown } from "./shown";

export function Findings({ findings, shown }: { findings: readonly Finding[]; shown: Shown }) {
  return (
    <ul class="findings">
      {findings.map(finding => (
        <li key={`${finding.rule} ${finding.title} ${finding.span?.line}`} class={`finding ${finding.severity}`}>
          <FindingView finding={finding} shown={shown} />
        </li>
      ))}
    </ul>
  );
}

function FindingView({ finding, shown }: { finding: Finding; shown: Shown }) {
  return (
    <>
      <h4>
        <Sign severity={finding.severity} />
        {!finding.sure && <span class="tag">possible</span>}
        {finding.times > 1 && <span class="tag">×{finding.times.toLocaleString("en")}</span>}
        <span class="grow" />
        <Where span={finding.span} shown={shown} />
      </h4>
      <p class="said">
        <Prose text={label(finding.title, 400)} />
      </p>
      {finding.explanation && (
        <p class="explanation">
          <Prose text={clip(finding.explanation, 2000)} />
        </p>
      )}
      {finding.fix && (
        <div class="fix">
          <Copy text={finding.fix} what="the fix" />
          <pre>{visible(finding.fix)}</pre>
        </div>
      )}
      {finding.evidence.length > 0 && (
        <Fold title={`Evidence (${finding.evidence.length})`}>
          <ul class="evidence">
            {finding.evidence.map(fact => (
              <li key={fact.text}>
                <Prose text={label(fact.text, 500)} /> <Where span={fact.span} shown={shown} />
              </li>
            ))}
          </ul>
        </Fold>
      )}
      <span class="rule">{finding.rule}</span>
    </>
  );
}
