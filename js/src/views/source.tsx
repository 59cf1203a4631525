// The source with what is known of it: hints at line ends, marks, and the value of any expression under the pointer.
import { useMemo, useRef, useState } from "preact/hooks";
import { tokenize } from "../draw/python";
import { type Mark, segments, within } from "../draw/segments";
import { allFindings } from "../findings";
import { toBytes } from "../index/columns";
import { stretches } from "../index/folds";
import { hintsByLine, type Meaning, type Names, nameAt, namesIn } from "../index/hints";
import { type Expression, expressionAt, indexExpressions } from "../index/spans";
import { type Over, valuesByLine } from "../index/values";
import type { Finding, Source, Span } from "../protocol";
import { chosenCalls } from "../selection";
import { lineKey, longest, visible } from "../text";
import { LineView } from "./line";
import type { Shown } from "./shown";
import { Tip, type Tipped } from "./tip";
import { callsByLine } from "./variants";

/** All files of the report, one under the other. */
export function Sources({ shown, peek }: { shown: Shown; peek: boolean }) {
  const { report, state } = shown;
  const expressions = useMemo(() => indexExpressions(report), [report]);
  const chosen = useMemo(() => chosenCalls(report, state), [report, state.calls]);
  const hints = useMemo(() => hintsByLine(report, chosen), [report, chosen]);
  const values = useMemo(() => valuesByLine(report.nojit), [report.nojit]);
  const names = useMemo(() => namesIn(report, chosen), [report, chosen]);
  const calls = useMemo(() => callsByLine(report), [report]);
  const findings = useMemo(() => allFindings(report), [report]);
  return (
    <div class="sources">
      {report.sources.map(source => (
        <File
          key={source.file}
          alone={report.sources.length === 1}
          {...{ shown, peek, source, hints, values, names, calls, findings, chosen }}
          expressions={expressions.get(source.file) ?? []}
        />
      ))}
    </div>
  );
}

export interface FileProps {
  readonly shown: Shown;
  /** Whether a selected line opens to show what is known of it. */
  readonly peek: boolean;
  readonly source: Source;
  readonly alone: boolean;
  readonly hints: ReturnType<typeof hintsByLine>;
  /** Real values over the runs of each line, where it ran without jit. */
  readonly values: ReadonlyMap<string, readonly Over[]>;
  readonly names: Names;
  readonly calls: ReturnType<typeof callsByLine>;
  readonly chosen: ReadonlySet<number>;
  readonly findings: readonly Finding[];
  readonly expressions: readonly Expression[];
}

function File(props: FileProps) {
  const { source } = props;
  const body = useRef<HTMLDivElement>(null);
  const [tip, setTip] = useState<Tipped | null>(null);
  const lines = useMemo(() => source.text.replace(/\n$/, "").split("\n"), [source.text]);
  const hover = (event: MouseEvent): void => {
    const piece = (event.target as HTMLElement).closest<HTMLElement>("[data-at]");
    const found = piece && meaningOf(props, lines, piece);
    if (!found) setTip(null);
    else if (found.key !== tip?.key) setTip({ ...found, ...placeUnder(piece, body.current) });
  };
  return (
    <section class="file" aria-label={visible(source.label)}>
      {!props.alone && <h3>{visible(source.label)}</h3>}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a selected line lists the same for the keyboard */}
      <div ref={body} class="code" onMouseMove={hover} onMouseLeave={() => setTip(null)}>
        <Lines {...props} lines={lines} hovered={tip?.span ?? null} />
        {tip && <Tip {...tip} />}
      </div>
    </section>
  );
}

interface Found {
  readonly key: string;
  readonly title: string;
  readonly values: readonly string[];
  readonly span: Span;
}

/** The smallest thing under the pointer that has a value: a name, else the expression around it. */
function meaningOf(props: FileProps, lines: readonly string[], piece: HTMLElement): Found | null {
  const number = Number(piece.dataset.line);
  const at = Number(piece.dataset.at);
  const { file, first_line } = props.source;
  const text = lines[number - first_line] ?? "";
  const name = nameAt(props.names, file, text, number, at);
  if (name) return foundName(name, file, text, number);
  const found = expressionAt(props.expressions, number, toBytes(text, at));
  if (!found) return null;
  return {
    key: keyOf(found.span),
    title: textOf(found.span, lines, first_line),
    values: found.values,
    span: found.span,
  };
}

function foundName(name: Meaning, file: string, text: string, line: number): Found {
  const column = toBytes(text, name.start);
  const end_column = toBytes(text, name.start + name.length);
  const span = { file, line, column, end_line: line, end_column };
  return { key: keyOf(span), title: name.title, values: name.values, span };
}

function keyOf(span: Span): string {
  return `${span.line}:${span.column}-${span.end_line}:${span.end_column}`;
}

function textOf(span: Span, lines: readonly string[], firstLine: number): string {
  const text = lines[span.line - firstLine] ?? "";
  const { start, end } = within(span, text, span.line);
  return span.end_line > span.line ? `${text.slice(start)} …` : text.slice(start, end);
}

function placeUnder(piece: HTMLElement, body: HTMLElement | null): { left: number; top: number } {
  const at = piece.getBoundingClientRect();
  const from = body?.getBoundingClientRect();
  if (!from) return { left: 0, top: 0 };
  return { left: Math.min(at.left - from.left, Math.max(0, from.width - 260)), top: at.bottom - from.top + 2 };
}

function Lines(props: FileProps & { lines: readonly string[]; hovered: Span | null }) {
  const { source, lines, shown, hints, values, findings } = props;
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const tokens = useMemo(() => tokenize(lines), [lines]);
  const spots = useMemo(() => byLine(findings, source.file), [findings, source.file]);
  const known = useMemo(() => knownLines(props), [source, hints, values, spots, shown.report.taps, shown.linked]);
  const marks = marksOf(props);
  const width = Math.min(64, Math.max(longest(lines), 20));
  return (
    <div class="lines" style={{ "--code": `${width + 2}ch` }}>
      {stretches(source.first_line, lines.length, known).map(({ first, last, folded }) =>
        folded && !opened.has(first) ? (
          <button type="button" key={first} class="folded" onClick={() => setOpened(new Set([...opened, first]))}>
            ⋯ {last - first + 1} lines
          </button>
        ) : (
          range(first, last).map(number => {
            const text = lines[number - source.first_line] ?? "";
            const near = props.expressions.filter(({ span }) => span.line <= number && number <= span.end_line);
            const spans = near.map(each => each.span);
            return (
              <LineView
                key={number}
                {...props}
                number={number}
                hints={hints.get(lineKey(source.file, number)) ?? []}
                values={values.get(lineKey(source.file, number)) ?? []}
                findings={spots.get(number) ?? []}
                expressions={near}
                pieces={segments(text, number, tokens[number - source.first_line] ?? [], onLine(marks, number), spans)}
              />
            );
          })
        ),
      )}
    </div>
  );
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

function onLine(marks: readonly Mark[], line: number): Mark[] {
  return marks.filter(({ span }) => span.line <= line && line <= span.end_line);
}

function marksOf({ shown, source, findings, hovered }: FileProps & { hovered: Span | null }): Mark[] {
  const failed = shown.report.failure?.span;
  const stopped = shown.report.state === "interrupted";
  const marks: Mark[] = [
    ...findings.flatMap(each => (each.span ? [{ span: each.span, style: `mark ${each.severity}` }] : [])),
    ...(failed ? [{ span: failed, style: stopped ? "mark stopped" : "mark failing" }] : []),
    ...shown.linked.spans.map(span => ({ span, style: "linked" })),
    ...(hovered ? [{ span: hovered, style: "hovered" }] : []),
  ];
  return marks.filter(mark => mark.span.file === source.file);
}

function byLine(findings: readonly Finding[], file: string): ReadonlyMap<number, Finding[]> {
  const lines = new Map<number, Finding[]>();
  for (const finding of findings) {
    if (finding.span?.file !== file) continue;
    lines.set(finding.span.line, [...(lines.get(finding.span.line) ?? []), finding]);
  }
  return lines;
}

function knownLines({ source, hints, findings, shown }: FileProps): number[] {
  const { failure, taps, nojit } = shown.report;
  const told = [...findings, ...taps, ...(nojit?.values ?? [])].map(each => each.span);
  const spans = [...told, failure?.span, ...shown.linked.spans];
  const marked = spans.flatMap(span => (span?.file === source.file ? [span.line] : []));
  const focus = shown.state.focus;
  if (focus?.kind === "line" && focus.file === source.file) marked.push(focus.line);
  for (const list of hints.values()) if (list[0]?.span.file === source.file) marked.push(list[0].span.line);
  return marked;
}
