// Records as short text: the one spelling of avals, seconds and sizes for all views.
import type { Aval, Hint, Leaf, Span } from "./protocol";

const SHORT: readonly (readonly [string, string])[] = [
  ["float", "f"],
  ["bfloat", "bf"],
  ["complex", "c"],
  ["uint", "u"],
  ["int", "i"],
];

/** The dtype as a jaxpr prints it: `float32` is `f32`, `bool` stays `bool`. */
export function shortDtype(dtype: string): string {
  for (const [long, short] of SHORT) {
    const rest = dtype.slice(long.length);
    if (dtype.startsWith(long) && /^\d/.test(rest)) return short + rest;
  }
  return dtype;
}

export function aval(value: Aval): string {
  const text = `${shortDtype(value.dtype)}[${value.shape.join(",")}]${value.weak ? "*" : ""}`;
  return value.sharding ? `${text} ${value.sharding}` : text;
}

export function leaf(value: Leaf): string {
  const lanes = value.lanes.map(size => ` ×${size} (vmap)`).join("");
  return `${value.kind === "numpy" ? "np " : ""}${aval(value.aval)}${lanes}`;
}

/** A hint without its name; at most `most` leaves, the rest counted. */
export function leaves(hint: Hint, most = Number.POSITIVE_INFINITY): string {
  const [first] = hint.leaves;
  if (first && hint.leaves.length === 1 && !first.path && !hint.hidden) return leaf(first);
  const shown = hint.leaves.slice(0, most).map(each => `${each.path} ${leaf(each)}`);
  const more = hint.leaves.length - shown.length + hint.hidden;
  return `{${[...shown, ...(more ? [`+${more}`] : [])].join(", ")}}`;
}

export function seconds(value: number): string {
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${digits(value * 1e6)} µs`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  if (value < 120) return `${digits(value)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${digits(value / 3600)} h`;
}

export function bytes(value: number): string {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

/** A count of something, `26.6 M`. */
export function count(value: number): string {
  return scaled(value, 1000, ["", "k", "M", "G", "T", "P"]);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let unit = 0;
  let size = value;
  while (size >= base * 0.9995 && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  const number = unit === 0 ? String(Math.round(size)) : digits(size);
  return `${number} ${units[unit]}`.trimEnd();
}

/** Three significant digits, never in exponent form. */
function digits(value: number): string {
  if (value >= 1e6) return value.toExponential(1);
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/** A statistic, in at most `significant` digits. */
export function number(value: number | null, significant = 4): string {
  if (value === null) return "–";
  if (value === 0 || Number.isInteger(value)) return Math.abs(value) < 1e6 ? String(value) : value.toExponential(2);
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(significant));
  return size < 1e-3 || size >= 1e5 ? rounded.toExponential() : String(rounded);
}

/** At most `most` characters, the end replaced by an ellipsis. */
export function clip(text: string, most = 120): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

// Control and bidirectional characters: a name must not be able to reorder or hide the text around it.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]/g;

/** The text with characters that reorder or hide others written out, `⟨202E⟩`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, char => `⟨${char.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** For a label: visible, on one line, of bounded length. */
export function label(text: string, most = 120): string {
  return visible(clip(text, most).replaceAll(/\s*\n\s*/g, " "));
}

/** Length of the longest line. */
export function longest(lines: readonly string[]): number {
  return lines.reduce((most, line) => Math.max(most, line.length), 0);
}

export function spanKey(span: Span): string {
  return `${span.file}\0${span.line}:${span.column}-${span.end_line}:${span.end_column}`;
}

export function lineKey(file: string, line: number): string {
  return `${file}\0${line}`;
}
