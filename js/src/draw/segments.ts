// One line of source cut into pieces, so that each piece has one colour, one set of marks and one meaning.
import { fromBytes } from "../index/columns";
import type { Span } from "../protocol";
import type { Token } from "./python";

export interface Mark {
  readonly span: Span;
  readonly style: string;
}

export interface Segment {
  /** Position in the line, in UTF-16 units. */
  readonly start: number;
  readonly text: string;
  readonly styles: string;
}

/** Characters of a line that are shown; what is wrong with a longer one is not at its end. */
const LONGEST = 500;

/** Pieces of a line; they break wherever a token, a mark or one of the `boundaries` begins or ends. */
export function segments(
  line: string,
  number: number,
  tokens: readonly Token[],
  marks: readonly Mark[],
  boundaries: readonly Span[],
): Segment[] {
  const ranges = marks.map(mark => ({ ...within(mark.span, line, number), style: mark.style }));
  const last = Math.min(line.length, LONGEST);
  const cuts = new Set([0, last]);
  for (const { start, end } of [...tokens, ...ranges, ...boundaries.map(span => within(span, line, number))]) {
    cuts.add(start).add(end);
  }
  const sorted = [...cuts].filter(cut => cut <= last).sort((a, b) => a - b);
  return sorted.slice(0, -1).map((start, at) => {
    const token = tokens.find(each => each.start <= start && start < each.end);
    const styles = ranges.filter(each => each.start <= start && start < each.end).map(each => each.style);
    return {
      start,
      text: line.slice(start, sorted[at + 1]) + (last < line.length && sorted[at + 1] === last ? "…" : ""),
      styles: [`t-${token?.kind ?? "plain"}`, ...new Set(styles)].join(" "),
    };
  });
}

/** The part of a span on one line. */
export function within(span: Span, line: string, number: number): { start: number; end: number } {
  const start = span.line < number ? line.length - line.trimStart().length : fromBytes(line, span.column);
  const end = span.end_line > number ? line.length : fromBytes(line, span.end_column);
  return { start, end: Math.max(start, end) };
}
