// Hints by line, and the meaning of a name at a place in the source.
import type { Call, Hint, Leaf, Report, Span } from "../protocol";
import { leaf, leaves, lineKey } from "../text";

/** Hints of the chosen calls by `lineKey`, in source order. */
export function hintsByLine(report: Report, chosen: ReadonlySet<number>): ReadonlyMap<string, readonly Hint[]> {
  const lines = new Map<string, Hint[]>();
  for (const hint of report.hints) {
    if (!chosen.has(hint.call)) continue;
    const key = lineKey(hint.span.file, hint.span.line);
    const list = lines.get(key);
    if (list) list.push(hint);
    else lines.set(key, [hint]);
  }
  return lines;
}

export interface Meaning {
  readonly title: string;
  readonly values: readonly string[];
  /** Where it begins and how long it is, in UTF-16 units of its line. */
  readonly start: number;
  readonly length: number;
}

/** Names visible at a line: hints of the chosen calls of the functions around it. */
export interface Names {
  readonly hints: readonly Hint[];
  readonly calls: ReadonlyMap<number, Call>;
}

export function namesIn(report: Report, chosen: ReadonlySet<number>): Names {
  return {
    hints: report.hints.filter(hint => chosen.has(hint.call)),
    calls: new Map(report.calls.map(call => [call.id, call])),
  };
}

const IDENTIFIER = /[\p{L}_][\p{L}\p{N}_]*/uy;

/** What the name at a position holds; of a path such as `params["w1"]` the leaf. */
export function nameAt(names: Names, file: string, text: string, line: number, position: number): Meaning | null {
  IDENTIFIER.lastIndex = position;
  const name = IDENTIFIER.exec(text)?.[0];
  if (!name || text[position - 1] === ".") return null;
  const hint = lookUp(names, file, name, line, isStored(text, position));
  if (!hint) return null;
  const found = longestPath(hint.leaves, text.slice(position + name.length));
  if (found?.leaf.path) {
    const length = name.length + found.length;
    return { title: text.slice(position, position + length), values: [leaf(found.leaf)], start: position, length };
  }
  return { title: name, values: valuesOf(hint), start: position, length: name.length };
}

function valuesOf(hint: Hint): string[] {
  const alone = hint.leaves.length === 1 && !hint.leaves[0]?.path;
  if (alone && !hint.hidden) return [leaves(hint)];
  const lines = hint.leaves.slice(0, 12).map(each => `${each.path}  ${leaf(each)}`);
  const more = hint.leaves.length - lines.length + hint.hidden;
  return more ? [...lines, `… ${more} more`] : lines;
}

/** Left of the `=` the name means what the line makes of it, right of it what was there before. */
function isStored(text: string, position: number): boolean {
  return !/(?<![=!<>])=(?!=)/.test(text.slice(0, position)) && !/^\s*(return|assert|if|while|print)\b/.test(text);
}

function lookUp(names: Names, file: string, name: string, line: number, stored: boolean): Hint | undefined {
  const here = names.hints.filter(hint => {
    const around = names.calls.get(hint.call)?.span;
    return hint.name === name && hint.span.file === file && around && around.line <= line && line <= around.end_line;
  });
  const before = here.filter(
    hint => hint.span.line < line || (hint.span.line === line && (stored || isArgument(hint))),
  );
  const candidates = before.length ? before : here;
  return candidates.reduce<Hint | undefined>(
    (best, hint) => (best && closer(names, best, hint) ? best : hint),
    undefined,
  );
}

function isArgument(hint: Hint): boolean {
  return hint.role === "argument";
}

/** Whether `a` is the better of two: in the inner function, then on the later line. */
function closer(names: Names, a: Hint, b: Hint): boolean {
  const [sizeA, sizeB] = [a, b].map(hint => height(names.calls.get(hint.call)?.span)) as [number, number];
  return sizeA < sizeB || (sizeA === sizeB && a.span.line > b.span.line);
}

function height(span: Span | undefined): number {
  return span
    ? (span.end_line - span.line) * 1e4 + Math.max(0, span.end_column - span.column)
    : Number.POSITIVE_INFINITY;
}

function longestPath(all: readonly Leaf[], rest: string): { leaf: Leaf; length: number } | undefined {
  const text = rest.replaceAll('"', "'");
  return all
    .filter(each => each.path && text.startsWith(each.path))
    .map(each => ({ leaf: each, length: each.path.length }))
    .sort((a, b) => b.length - a.length)[0];
}
