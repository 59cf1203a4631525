// Real values of lines that ran without jit: each variable over the runs of its line.
import type { LineValue, NoJit, Summary } from "../protocol";
import { aval, label, lineKey, number } from "../text";

/** A variable on one line, over the runs that were kept. */
export interface Over {
  readonly name: string;
  readonly runs: readonly LineValue[];
}

/** By `lineKey`, names in order. */
export function valuesByLine(nojit: NoJit | null): ReadonlyMap<string, readonly Over[]> {
  const lines = new Map<string, Map<string, LineValue[]>>();
  for (const value of nojit?.values ?? []) {
    const key = lineKey(value.span.file, value.span.line);
    const names = lines.get(key) ?? new Map<string, LineValue[]>();
    lines.set(key, names.set(value.name, [...(names.get(value.name) ?? []), value]));
  }
  return new Map([...lines].map(([key, names]) => [key, [...names].map(inOrder)]));
}

function inOrder([name, values]: readonly [string, readonly LineValue[]]): Over {
  return { name, runs: [...values].sort((a, b) => a.run - b.run) };
}

/** The value where it is small, else its range. */
export function valueText({ text, summary, aval: known }: LineValue): string {
  // NumPy fills up with spaces, so that columns of numbers stand below each other.
  if (text) return text.replaceAll(/\s+/g, " ").replaceAll(/ (?=[,\]])|(?<=\[) /g, "");
  return summary ? rangeText(summary) : aval(known);
}

function rangeText({ min, max, nan, posinf, neginf }: Summary): string {
  const range = min === max ? `all ${number(min)}` : `${number(min)} to ${number(max)}`;
  const odd = [
    [nan, "NaN"],
    [posinf, "+inf"],
    [neginf, "-inf"],
  ] as const;
  const counts = odd.flatMap(([count, name]) => (count ? [`${count.toLocaleString("en")} ${name}`] : []));
  return [...(min === null ? [] : [range]), ...counts].join(" and ");
}

/** `0., 3., 5., … (run 7) -1., … 15., 17., 19.`; one value where all were the same. */
export function overRuns({ runs }: Over, most: number): string {
  const texts = runs.map(value => label(valueText(value), most));
  if (new Set(texts).size === 1) return texts[0] ?? "";
  return runs.map((value, at) => between(runs[at - 1], value) + texts[at]).join("");
}

function between(before: LineValue | undefined, { run, kept }: LineValue): string {
  const named = kept === "branch" || (!before && run > 0) ? `(run ${run + 1}) ` : "";
  if (!before) return named;
  return `${run === before.run + 1 ? ", " : " … "}${named}`;
}
