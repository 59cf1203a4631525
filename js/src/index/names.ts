// Labels for the variables of a program: short, readable, and no two alike.
import type { Variable } from "../protocol";
import { label } from "../text";

/** The user's name where one is known (`h`, then `h₂`), else letters as in a jaxpr. */
export function nameVariables(variables: Iterable<Variable>): Map<number, string> {
  const all = [...variables];
  const taken = new Set(all.map(variable => variable.name));
  const seen = new Map<string, number>();
  const names = new Map<number, string>();
  const letters = lettersNotIn(taken);
  for (const { id, name } of all) {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    names.set(id, name ? label(name, 40) + (times > 1 ? subscript(times) : "") : letters());
  }
  return names;
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
