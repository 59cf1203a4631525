// What belongs together: line ↔ variable ↔ equation ↔ kernel, within one trace.
import type { Frame, Listing, Span, Trace } from "../protocol";
import { lineKey } from "../text";
import { type ProgramIndex, programIndex } from "./program";

/** The one thing that is selected. */
export type Focus =
  | { readonly kind: "line"; readonly file: string; readonly line: number }
  | { readonly kind: "variable"; readonly id: number }
  | { readonly kind: "equation"; readonly at: number }
  | { readonly kind: "instruction"; readonly stage: Listing["stage"]; readonly line: number };

/** All that lights up with it. */
export interface Linked {
  readonly lines: ReadonlySet<string>;
  readonly equations: ReadonlySet<number>;
  readonly variables: ReadonlySet<number>;
  readonly instructions: Readonly<Record<Listing["stage"], ReadonlySet<number>>>;
  /** Source text of the selected thing itself. */
  readonly spans: readonly Span[];
}

const NOTHING: Linked = {
  lines: new Set(),
  equations: new Set(),
  variables: new Set(),
  instructions: { stablehlo: new Set(), hlo: new Set() },
  spans: [],
};

export function linked(focus: Focus | null, trace: Trace | undefined): Linked {
  if (!focus) return NOTHING;
  const spans = focus.kind === "line" ? [] : spansOf(focus, trace);
  const lines = focus.kind === "line" ? [lineKey(focus.file, focus.line)] : spans.map(s => lineKey(s.file, s.line));
  return {
    lines: new Set(lines),
    equations: new Set(equationsOf(focus, trace, spans)),
    variables: new Set(focus.kind === "variable" ? [focus.id] : []),
    instructions: {
      stablehlo: new Set(instructionsOf(focus, trace?.stablehlo, "stablehlo", lines, spans)),
      hlo: new Set(instructionsOf(focus, trace?.hlo, "hlo", lines, spans)),
    },
    spans,
  };
}

/** Innermost source text of what is selected. */
function spansOf(focus: Focus, trace: Trace | undefined): Span[] {
  if (focus.kind === "instruction") {
    const listing = trace?.[focus.stage];
    const instruction = listing?.instructions.find(each => each.line === focus.line);
    return (instruction?.frames ?? []).flatMap(at => listing?.frames[at]?.span ?? []);
  }
  if (!trace?.program) return [];
  const index = programIndex(trace.program);
  const at =
    focus.kind === "equation" ? focus.at : focus.kind === "variable" ? index.definedBy.get(focus.id) : undefined;
  const frame = trace.program.frames[(at === undefined ? undefined : index.equations[at]?.frame) ?? -1];
  return frame ? [frame.span] : [];
}

function equationsOf(focus: Focus, trace: Trace | undefined, spans: readonly Span[]): Iterable<number> {
  if (!trace?.program) return [];
  const index = programIndex(trace.program);
  switch (focus.kind) {
    case "equation":
      return [focus.at];
    case "variable":
      return [...[index.definedBy.get(focus.id) ?? []].flat(), ...(index.usedBy.get(focus.id) ?? [])];
    case "line":
      return equationsByLine(index).get(lineKey(focus.file, focus.line)) ?? [];
    case "instruction":
      return equationsWithin(index, spans);
  }
}

/** Equations whose innermost source text is one of `spans`; on the same line where none is exactly that. */
function equationsWithin(index: ProgramIndex, spans: readonly Span[]): number[] {
  const exact: number[] = [];
  const near: number[] = [];
  index.equations.forEach((equation, at) => {
    const own = index.program.frames[equation.frame]?.span;
    if (!own) return;
    if (spans.some(span => sameSpan(span, own))) exact.push(at);
    else if (spans.some(span => span.file === own.file && span.line === own.line)) near.push(at);
  });
  return exact.length ? exact : near;
}

function instructionsOf(
  focus: Focus,
  listing: Listing | null | undefined,
  stage: Listing["stage"],
  lines: readonly string[],
  spans: readonly Span[],
): number[] {
  if (focus.kind === "instruction" && focus.stage === stage) return [focus.line];
  if (!listing || !lines.length) return [];
  const exact = listing.instructions.filter(each =>
    each.frames.some(at => spans.some(span => sameSpan(span, listing.frames[at]?.span))),
  );
  const wanted = new Set(lines);
  const found = exact.length ? exact : listing.instructions.filter(each => onLines(listing, each.frames, wanted));
  return found.map(each => each.line);
}

function onLines(listing: Listing, frames: readonly number[], wanted: ReadonlySet<string>): boolean {
  return frames.some(at =>
    chain(listing.frames, at).some(frame => wanted.has(lineKey(frame.span.file, frame.span.line))),
  );
}

function sameSpan(a: Span, b: Span | undefined): boolean {
  return (
    a.file === b?.file &&
    a.line === b.line &&
    a.column === b.column &&
    a.end_line === b.end_line &&
    a.end_column === b.end_column
  );
}

/** A frame and its callers, innermost first. */
export function chain(frames: readonly Frame[], at: number): Frame[] {
  const found: Frame[] = [];
  for (let next = at; next >= 0 && found.length < 100; ) {
    const frame = frames[next];
    if (!frame) break;
    found.push(frame);
    next = frame.parent;
  }
  return found;
}

const lineIndexes = new WeakMap<ProgramIndex, Map<string, number[]>>();

/** Equations by each source line on their stack: a call's line owns what the call did. */
export function equationsByLine(index: ProgramIndex): ReadonlyMap<string, readonly number[]> {
  let lines = lineIndexes.get(index);
  if (!lines) {
    lines = makeLineIndex(index);
    lineIndexes.set(index, lines);
  }
  return lines;
}

function makeLineIndex(index: ProgramIndex): Map<string, number[]> {
  const { frames } = index.program;
  const keysOf = frames.map((_, at) => [...new Set(chain(frames, at).map(f => lineKey(f.span.file, f.span.line)))]);
  const lines = new Map<string, number[]>();
  index.equations.forEach((equation, at) => {
    for (const key of keysOf[equation.frame] ?? []) {
      const list = lines.get(key);
      if (list) list.push(at);
      else lines.set(key, [at]);
    }
  });
  return lines;
}
