// Labels for the variables of a program: short, readable, and no two alike.
import type { Hint, Report, Source, Variable } from "../protocol";
import { label, spanKey } from "../text";
import { toBytes } from "./columns";
import type { NamedProgram, ProgramIndex } from "./program";

/** The program with its variables called what the user calls them, as far as that is known. */
export function named(index: ProgramIndex, report: Report): NamedProgram {
  return { ...index, names: nameVariables(index.variables.values(), assignedNames(index, report)) };
}

/** The user's name where one is known (`h`, then `h₂`), else letters as in a jaxpr. */
export function nameVariables(
  variables: Iterable<Variable>,
  assigned: ReadonlyMap<number, string>,
): Map<number, string> {
  const all = [...variables].map(({ id, name }) => ({ id, name: assigned.get(id) ?? name }));
  const letters = lettersNotIn(new Set(all.map(variable => variable.name)));
  const seen = new Map<string, number>();
  const names = new Map<number, string>();
  for (const { id, name } of all) {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    names.set(id, name ? label(name, 40) + (times > 1 ? subscript(times) : "") : letters());
  }
  return names;
}

/** `h` for what the last equation of the right side of `h = …` makes. */
function assignedNames(index: ProgramIndex, report: Report): Map<number, string> {
  const makers = lastEquations(index);
  const sources = new Map(report.sources.map(source => [source.file, source]));
  const names = new Map<number, string>();
  for (const hint of report.hints) {
    const value = hint.role === "assigned" ? valueSpan(hint, sources.get(hint.span.file)) : null;
    const outs = index.equations[makers.get(value ?? "") ?? -1]?.outs ?? [];
    if (outs.length === 1 && outs[0]) names.set(outs[0].id, hint.name);
  }
  return names;
}

/** Key of the span right of the `=`, for a plain assignment to one name. */
function valueSpan({ span, name }: Hint, source: Source | undefined): string | null {
  const line = source?.text.split("\n")[span.line - source.first_line];
  const start = line?.search(/\S/) ?? -1;
  const head = line?.slice(start).match(/^(\S+)\s*=\s*(?=[^=\s])/);
  if (!line || !head || head[1] !== name) return null;
  return spanKey({ ...span, column: toBytes(line, start + head[0].length) });
}

/** The last forward equation of each span, in any of its frames. */
function lastEquations(index: ProgramIndex): ReadonlyMap<string, number> {
  const { frames } = index.program;
  const found = new Map<string, number>();
  const met = new Set([-1]);
  for (let at = index.equations.length - 1; at >= 0; at--) {
    const equation = index.equations[at];
    if (!equation || equation.name_stack.includes("transpose")) continue;
    for (let frame = equation.frame; !met.has(frame); frame = frames[frame]?.parent ?? -1) {
      met.add(frame);
      const span = frames[frame]?.span;
      if (span && !found.has(spanKey(span))) found.set(spanKey(span), outermost(index, at));
    }
  }
  return found;
}

/** The equation itself, or the one that holds it where both stand for the same call. */
function outermost(index: ProgramIndex, at: number): number {
  const owner = index.places[index.regionOf[at] ?? -1]?.owner ?? -1;
  const same = owner >= 0 && index.equations[owner]?.frame === index.equations[at]?.frame;
  return same ? outermost(index, owner) : at;
}

/** `a`, `b`, …, `z`, `ba`, `bb`, …, leaving out what the user already calls something else. */
function lettersNotIn(taken: ReadonlySet<string>): () => string {
  let number = 0;
  return () => {
    let text = inLetters(number++);
    while (taken.has(text)) text = inLetters(number++);
    return text;
  };
}

function inLetters(number: number): string {
  let text = "";
  let rest = number;
  do {
    text = String.fromCharCode(97 + (rest % 26)) + text;
    rest = Math.floor(rest / 26);
  } while (rest > 0);
  return text;
}

function subscript(number: number): string {
  return String(number).replaceAll(/\d/g, digit => String.fromCharCode(0x2080 + Number(digit)));
}
