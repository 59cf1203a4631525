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

/** `h` for what the right side of `h = …` evaluated to, where the program says. */
function assignedNames(index: ProgramIndex, report: Report): Map<number, string> {
  const given = new Map(index.program.expressions.map(each => [spanKey(each.span), each.variables]));
  const sources = new Map(report.sources.map(source => [source.file, source]));
  const names = new Map<number, string>();
  for (const hint of report.hints) {
    const value = hint.role === "assigned" ? valueSpan(hint, sources.get(hint.span.file)) : null;
    const [variable, ...more] = given.get(value ?? "") ?? [];
    if (variable !== undefined && more.length === 0) names.set(variable, hint.name);
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
