// What is known of each piece of source text: which expression had which array.
import type { Aval, Report, Span } from "../protocol";
import { aval, spanKey } from "../text";

/** An expression and the avals it had, one a program that differs. */
export interface Expression {
  readonly span: Span;
  readonly values: readonly string[];
}

/** The expressions of a report, by file. */
export type Expressions = ReadonlyMap<string, readonly Expression[]>;

/** Every expression of every program in the report. */
export function indexExpressions(report: Report): Expressions {
  const found = new Map<string, { span: Span; values: Set<string> }>();
  for (const compiled of report.compiled) {
    for (const { program } of compiled.traces) {
      for (const { span, avals } of program?.expressions ?? []) note(found, span, text(avals));
    }
  }
  const files = new Map<string, Expression[]>();
  for (const { span, values } of found.values()) {
    const list = files.get(span.file) ?? [];
    list.push({ span, values: [...values] });
    files.set(span.file, list);
  }
  return files;
}

function note(found: Map<string, { span: Span; values: Set<string> }>, span: Span, text: string): void {
  const key = spanKey(span);
  const known = found.get(key);
  if (known) known.values.add(text);
  else found.set(key, { span, values: new Set([text]) });
}

function text(avals: readonly Aval[]): string {
  const [only] = avals;
  return only && avals.length === 1 ? aval(only) : `(${avals.map(aval).join(", ")})`;
}

/** The smallest expression around a position, columns in UTF-8 bytes. */
export function expressionAt(expressions: readonly Expression[], line: number, column: number): Expression | undefined {
  let best: Expression | undefined;
  for (const each of expressions) {
    if (contains(each.span, line, column) && (!best || isInside(each.span, best.span))) best = each;
  }
  return best;
}

function contains(span: Span, line: number, column: number): boolean {
  const afterStart = line > span.line || (line === span.line && column >= span.column);
  const beforeEnd = line < span.end_line || (line === span.end_line && column < span.end_column);
  return afterStart && beforeEnd;
}

function isInside(inner: Span, outer: Span): boolean {
  return contains(outer, inner.line, inner.column) && size(inner) <= size(outer);
}

function size(span: Span): number {
  return (span.end_line - span.line) * 1e6 + span.end_column - span.column;
}
