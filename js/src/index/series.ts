// Numbers out of the events of a tapped series.
import type { TapEvent, TapSeries } from "../protocol";

/** The same series, whatever became of it since. */
export function seriesKey({ name, function: owner, gradient, span }: TapSeries): string {
  return [owner, name, gradient, span?.file, span?.line, span?.column].join("\u0000");
}

export type Statistic = "mean" | "min" | "max" | "std" | "nan";

export const STATISTICS: readonly Statistic[] = ["mean", "min", "max", "std", "nan"];

/** A statistic of one event; null where it has none, as the mean of nothing but NaN. */
export function statistic({ summary }: TapEvent, which: Statistic): number | null {
  if (!summary) return null;
  return which === "nan" ? summary.nan + summary.posinf + summary.neginf : summary[which];
}

/** Whether the event holds a NaN or an infinity. */
export function isSick({ summary }: TapEvent): boolean {
  return !!summary && summary.nan + summary.posinf + summary.neginf > 0;
}

/** Events for which the condition given with `--alert` held. */
export function alertsOf(series: TapSeries): readonly TapEvent[] {
  return series.events.filter(event => event.alert);
}

/** Place of the event with a step, or of the last one before it that was kept; the newest for null. */
export function eventAt({ events }: TapSeries, step: number | null): number {
  if (step === null) return events.length - 1;
  return Math.max(0, events.filter(event => event.step <= step).length - 1);
}

/** A value of any rank as a picture has it: rows of columns, the leading axes on top of each other. */
export interface Grid {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float64Array;
}

/** Whether values are pairs of a real and an imaginary part, of which pictures show the magnitude. */
export function isComplex({ aval }: TapSeries): boolean {
  return aval.dtype.startsWith("complex");
}

/** The value of an event as a grid; null where it was not kept or is a scalar. */
export function gridOf({ value }: TapEvent, complex = false): Grid | null {
  if (!Array.isArray(value)) return null;
  const numbers: number[] = [];
  flatten(value, numbers);
  const data = complex ? magnitudes(numbers) : numbers;
  const columns = lastAxis(value, complex ? 1 : 0);
  if (!data.length || !columns) return null;
  return { rows: Math.ceil(data.length / columns), columns, data: Float64Array.from(data) };
}

function magnitudes(pairs: readonly number[]): number[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) =>
    Math.hypot(pairs[2 * at] ?? Number.NaN, pairs[2 * at + 1] ?? Number.NaN),
  );
}

function flatten(value: unknown, into: number[]): void {
  if (Array.isArray(value)) for (const part of value) flatten(part, into);
  else into.push(toNumber(value));
}

/** Length of the last axis but `inner` more; 1 where there is none left. */
function lastAxis(value: readonly unknown[], inner: number): number {
  const sizes: number[] = [];
  for (let part: unknown = value; Array.isArray(part); part = part[0]) sizes.push(part.length);
  return sizes.at(-1 - inner) ?? 1;
}

const SPELLED: Readonly<Record<string, number>> = {
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

/** JSON has no NaN and no infinity, so they come as words. */
export function toNumber(value: unknown): number {
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  return SPELLED[String(value)] ?? Number.NaN;
}

/** More lanes than this are a carpet, not curves. */
const MOST_LANES = 64;

/** What each lane of a vmapped scalar had over the events; null where the values were not kept, or are no scalars. */
export function lanesOf(series: TapSeries): readonly (readonly (number | null)[])[] | null {
  const { aval, events } = series;
  const count = Math.max(0, ...events.map(event => event.lanes.reduce((all, size) => all * size, 1)));
  const grids = events.map(event => gridOf(event, isComplex(series)));
  const known = grids.filter(Boolean).length;
  if (aval.shape.length || count < 2 || count > MOST_LANES || known * 2 < events.length) return null;
  // What a lane holds that is not running is not used.
  const runs = (event: TapEvent, lane: number): boolean => event.active[lane] ?? true;
  return Array.from({ length: count }, (_, lane) =>
    events.map((event, at) => (runs(event, lane) ? finite(grids[at]?.data[lane]) : null)),
  );
}

function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}

/** Which loop iteration an event came from, in words. */
export function placeOf(event: TapEvent): string {
  const loop = event.loop.length ? ` · iteration ${event.loop.join(", ")}` : "";
  const device = event.device === null ? "" : ` · device ${event.device}`;
  return `event ${event.step}${loop}${device}`;
}

/** Statistics worth offering: those that some event has. */
export function statisticsOf(series: TapSeries): readonly Statistic[] {
  const scalar = series.events.every(event => (event.summary?.count ?? 0) <= 1);
  const known = STATISTICS.filter(which => series.events.some(event => statistic(event, which) !== null));
  const sick = series.events.some(isSick);
  return known.filter(which => (which === "nan" ? sick : which === "mean" || !scalar));
}

/** The first event of each turn of the outermost of several loops; empty where there are not several, or one turn. */
export function turnsOf({ events }: TapSeries): readonly { readonly turn: number; readonly at: number }[] {
  const turns: { turn: number; at: number }[] = [];
  for (const [at, { loop }] of events.entries()) {
    const [turn] = loop;
    if (turn !== undefined && loop.length > 1 && turns.at(-1)?.turn !== turn) turns.push({ turn, at });
  }
  return turns.length > 1 ? turns : [];
}
