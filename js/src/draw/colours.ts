// Colours of numbers: viridis for what has one sign, a diverging scale around zero for what has two.
type Colour = readonly [number, number, number];

const VIRIDIS: readonly Colour[] = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [109, 205, 89],
  [180, 222, 44],
  [253, 231, 37],
];

const DIVERGING: readonly Colour[] = [
  [33, 102, 172],
  [103, 169, 207],
  [209, 229, 240],
  [247, 247, 247],
  [253, 219, 199],
  [239, 138, 98],
  [178, 24, 43],
];

/** Not on either scale, and told apart in the legend by words. */
export const SPECIAL = { nan: [255, 0, 200], posinf: [0, 0, 0], neginf: [120, 120, 120] } as const;

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly diverging: boolean;
}

/** The range of the finite numbers; symmetric where they have both signs. */
export function scaleOf(data: Iterable<number>): Scale {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of data) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return { low: 0, high: 0, diverging: false };
  const most = Math.max(-low, high);
  return low < 0 && high > 0 ? { low: -most, high: most, diverging: true } : { low, high, diverging: false };
}

export function colourOf(value: number, { low, high, diverging }: Scale): Colour {
  if (Number.isNaN(value)) return SPECIAL.nan;
  if (!Number.isFinite(value)) return value > 0 ? SPECIAL.posinf : SPECIAL.neginf;
  return between(diverging ? DIVERGING : VIRIDIS, high > low ? (value - low) / (high - low) : 0.5);
}

function between(table: readonly Colour[], at: number): Colour {
  const place = Math.min(1, Math.max(0, at)) * (table.length - 1);
  const below = table[Math.floor(place)] as Colour;
  const above = table[Math.ceil(place)] as Colour;
  const part = place % 1;
  return [0, 1, 2].map(at => Math.round(mix(below[at as 0], above[at as 0], part))) as unknown as Colour;
}

function mix(a: number, b: number, part: number): number {
  return a + (b - a) * part;
}

/** For a legend. */
export function gradient({ diverging }: Scale): string {
  const stops = (diverging ? DIVERGING : VIRIDIS).map(colour => `rgb(${colour.join(" ")})`);
  return `linear-gradient(to right, ${stops.join(", ")})`;
}
