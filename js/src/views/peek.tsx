// A selected line, opened: the value of each of its expressions, and where it went.
import { fromBytes } from "../index/columns";
import type { Expression } from "../index/spans";
import type { Over } from "../index/values";
import type { Finding, Source } from "../protocol";
import { tracesOnLine } from "../selection";
import { label, plural } from "../text";
import { Sign } from "./parts";
import type { FileProps } from "./source";
import { Runs } from "./values";

interface Props extends Pick<FileProps, "shown" | "source"> {
  readonly number: number;
  readonly findings: readonly Finding[];
  readonly expressions: readonly Expression[];
  readonly values: readonly Over[];
}

/** More expressions than this on one line are no help. */
const MOST = 12;

export function Peek({ shown, source, number, findings, expressions, values }: Props) {
  const here = expressions.filter(({ span }) => span.line === number).sort((a, b) => a.span.column - b.span.column);
  const traces = tracesOnLine(shown.report, source.file, number);
  const focus = { kind: "line", file: source.file, line: number } as const;
  return (
    <div class="peek">
      {findings.map(each => (
        <p key={each.rule + each.title}>
          <Sign severity={each.severity} /> {label(each.title, 300)}
        </p>
      ))}
      {here.length > 0 && <Values expressions={here.slice(0, MOST)} source={source} />}
      {values.length > 0 && <Runs values={values} />}
      {traces.slice(0, 6).map(({ compiled, at, equations }) => (
        <button
          type="button"
          class="small"
          key={`${compiled.id}/${at}`}
          onClick={() => shown.act({ type: "program", compiled: compiled.id, trace: at, focus })}
        >
          {label(compiled.name, 40)}
          {compiled.traces.length > 1 ? ` trace ${at + 1}` : ""}: {plural(equations, "equation")} →
        </button>
      ))}
      {!here.length && !traces.length && !findings.length && !values.length && (
        <p class="quiet">No array operation is known on this line.</p>
      )}
    </div>
  );
}

function Values({ expressions, source }: { expressions: readonly Expression[]; source: Source }) {
  return (
    <dl>
      {expressions.map(({ span, values }) => (
        <div key={`${span.column}-${span.end_line}-${span.end_column}`}>
          <dt>
            <code>{label(sourceOf(source.text, source.first_line, span), 70)}</code>
          </dt>
          <dd>
            <code class="aval">{label(values.join("  |  "), 160)}</code>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function sourceOf(text: string, firstLine: number, span: Expression["span"]): string {
  const line = text.split("\n")[span.line - firstLine] ?? "";
  const start = fromBytes(line, span.column);
  return span.end_line > span.line ? `${line.slice(start)} …` : line.slice(start, fromBytes(line, span.end_column));
}
