// The exception, explained: the failing expression, what its operands were, and where those came from.
import { within } from "../draw/segments";
import type { Failure, Hint, Operand, Report, Span } from "../protocol";
import { aval, label, leaves, visible } from "../text";
import { Findings } from "./findings";
import { Fold, Name, Prose, Where } from "./parts";
import type { Shown } from "./shown";

const PHASES: Record<Failure["phase"], string> = {
  tracing: "while tracing",
  compiling: "while compiling",
  running: "while running on the device",
  python: "in Python",
};

export function FailureView({ failure, shown }: { failure: Failure; shown: Shown }) {
  // Who pressed stop knows that it was no error.
  const stopped = shown.report.state === "interrupted";
  return (
    <section class={`failure${stopped ? " stopped" : ""}`} aria-label={stopped ? "Interrupted" : "Failure"}>
      <h3>
        <span aria-hidden="true">{stopped ? "■" : "✕"}</span>{" "}
        {stopped ? "Interrupted" : label(failure.type.replace(/^builtins\./, ""), 100)}{" "}
        <span class="quiet">{PHASES[failure.phase]}</span>
        <span class="grow" />
        <Where span={failure.span} shown={shown} />
      </h3>
      {failure.message && (
        <p class="message">
          <Prose text={label(failure.message, 600)} />
        </p>
      )}
      {failure.span && <Failing span={failure.span} report={shown.report} />}
      {failure.operands.length > 0 && <Operands operands={failure.operands} shown={shown} />}
      {failure.findings.length > 0 && <Findings findings={failure.findings} shown={shown} />}
      {failure.frames.length > 1 && (
        <Fold title={`Called from (${failure.frames.length - 1})`}>
          <ol class="stack">
            {failure.frames.slice(0, 40).map((frame, at) => (
              <li key={at}>
                <Name text={frame.function} /> <Where span={frame.span} shown={shown} />
              </li>
            ))}
          </ol>
        </Fold>
      )}
    </section>
  );
}

/** The failing line with the expression underlined. */
function Failing({ span, report }: { span: Span; report: Report }) {
  const source = report.sources.find(each => each.file === span.file);
  const text = source?.text.split("\n")[span.line - source.first_line];
  if (text === undefined) return null;
  const { start, end } = within(span, text, span.line);
  return (
    <pre class="failing-line">
      {visible(text.slice(0, start).trimStart())}
      <span class="mark failing">{visible(text.slice(start, end))}</span>
      {visible(text.slice(end))}
    </pre>
  );
}

function Operands({ operands, shown }: { operands: readonly Operand[]; shown: Shown }) {
  return (
    <table class="operands">
      <thead>
        <tr>
          <th scope="col">Operand</th>
          <th scope="col">Value</th>
          <th scope="col">Came from</th>
        </tr>
      </thead>
      <tbody>
        {operands.map(operand => (
          <tr key={operand.name}>
            <th scope="row">
              <code>
                <Name text={operand.name} most={60} />
              </code>
            </th>
            <td>
              <code class="aval">{operand.aval ? aval(operand.aval) : "–"}</code>
            </td>
            <td>
              {operand.provenance.slice(0, 5).map((hint, at) => (
                <Origin key={`${hint.span.line} ${hint.name}`} hint={hint} first={at === 0} shown={shown} />
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Origin({ hint, first, shown }: { hint: Hint; first: boolean; shown: Shown }) {
  const role = hint.role === "argument" ? `argument of ${label(hint.function, 40)}` : hint.role;
  return (
    <div class="origin">
      <span aria-hidden="true">{first ? "" : "← "}</span>
      <Name text={hint.name} most={40} /> <code class="aval">{label(leaves(hint, 3), 80)}</code>{" "}
      <span class="quiet">{role}</span> <Where span={hint.span} shown={shown} />
    </div>
  );
}
