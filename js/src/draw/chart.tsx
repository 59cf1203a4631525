// One statistic over the events: small without axes, large with a band and a place marked.
import { number } from "../text";

export type Values = readonly (number | null)[];

interface Box {
  readonly width: number;
  readonly height: number;
}

interface Range {
  readonly low: number;
  readonly high: number;
}

/** More points than pixels are drawn as the lowest and highest of each pixel's. */
export function thinned(values: Values, most: number): { at: number; value: number | null }[] {
  if (values.length <= most) return values.map((value, at) => ({ at, value }));
  const size = values.length / (most / 2);
  return Array.from({ length: Math.floor(most / 2) }, (_, bin) =>
    extremes(values, bin * size, (bin + 1) * size),
  ).flat();
}

function extremes(values: Values, from: number, to: number): { at: number; value: number | null }[] {
  let [low, high] = [Math.floor(from), Math.floor(from)];
  for (let at = low; at < Math.min(values.length, Math.floor(to)); at++) {
    const value = values[at];
    // A gap is news: it wins over any number.
    if (value === null || value === undefined) return [{ at, value: null }];
    if (value < (values[low] ?? value)) low = at;
    if (value > (values[high] ?? value)) high = at;
  }
  return [Math.min(low, high), Math.max(low, high)].map(at => ({ at, value: values[at] ?? null }));
}

export function Sparkline({ values, width = 120 }: { values: Values; width?: number }) {
  const box = { width, height: 18 };
  return (
    <svg class="spark" width={box.width} height={box.height} aria-hidden="true">
      <Lines values={values} box={box} range={rangeOf(values)} />
    </svg>
  );
}

interface ChartProps {
  readonly values: Values;
  /** Lowest and highest around the value. */
  readonly band: { readonly low: Values; readonly high: Values } | null;
  /** Curves in the background, one a lane. */
  readonly others?: readonly Values[];
  /** Event that is marked. */
  readonly at: number;
  readonly label: string;
  readonly choose: (at: number) => void;
}

const CHART = { width: 640, height: 150 };

/** A band so much wider than the curve would leave of it a straight line. */
const WIDEST = 12;

export function Chart({ values, band: around, others = [], at, label, choose }: ChartProps) {
  const band = around && fits(rangeOf(values), rangeOf([...around.low, ...around.high])) ? around : null;
  const range = rangeOf([...values, ...(band ? [...band.low, ...band.high] : []), ...others.flat()]);
  const x = xOf(at, values.length, CHART);
  const click = (event: MouseEvent): void => {
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const part = (event.clientX - frame.left) / frame.width;
    choose(Math.round(Math.min(1, Math.max(0, part)) * (values.length - 1)));
  };
  return (
    <figure class="chart">
      <figcaption>
        <span>{number(range.high)}</span>
        <span>{number(range.low)}</span>
      </figcaption>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the slider below is the keyboard's way */}
      <svg
        viewBox={`0 0 ${CHART.width} ${CHART.height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
        onClick={click}
      >
        {band && <Band {...band} range={range} />}
        {others.map((lane, number) => (
          <path key={number} class="lane" d={curveOf(thinned(lane, 200), lane.length, CHART, range)} />
        ))}
        <Lines values={values} box={CHART} range={range} />
        <path class="here" d={`M${x} 0V${CHART.height}`} />
      </svg>
    </figure>
  );
}

function fits(curve: Range, band: Range): boolean {
  return curve.high === curve.low || band.high - band.low <= WIDEST * (curve.high - curve.low);
}

function Lines({ values, box, range }: { values: Values; box: Box; range: Range }) {
  const points = thinned(values, box.width);
  const gaps = points.filter(point => point.value === null);
  return (
    <>
      <path class="curve" d={curveOf(points, values.length, box, range)} />
      {gaps.slice(0, 200).map(({ at }) => (
        <path key={at} class="gap" d={`M${xOf(at, values.length, box)} 0V${box.height}`} />
      ))}
    </>
  );
}

/** Broken where there is no value. */
function curveOf(points: ReturnType<typeof thinned>, count: number, box: Box, range: Range): string {
  let path = "";
  let pen = "M";
  for (const { at, value } of points) {
    if (value === null) pen = "M";
    else {
      path += `${pen}${xOf(at, count, box)} ${yOf(value, range, box)}`;
      pen = "L";
    }
  }
  return path;
}

function Band({ low, high, range }: { low: Values; high: Values; range: Range }) {
  const up = thinned(high, 320).filter(point => point.value !== null);
  const down = thinned(low, 320)
    .filter(point => point.value !== null)
    .reverse();
  const points = [...up, ...down].map(
    ({ at, value }) => `${xOf(at, high.length, CHART)},${yOf(value ?? 0, range, CHART)}`,
  );
  return <polygon class="band" points={points.join(" ")} />;
}

function xOf(at: number, count: number, { width }: Box): number {
  return round(count > 1 ? 2 + (at / (count - 1)) * (width - 4) : width / 2);
}

function yOf(value: number, { low, high }: Range, { height }: Box): number {
  return round(high > low ? height - 2 - ((value - low) / (high - low)) * (height - 4) : height / 2);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function rangeOf(values: Values): Range {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low > high ? { low: 0, high: 0 } : { low, high };
}
