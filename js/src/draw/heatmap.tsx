// A value as a picture, one pixel an element, enlarged without smoothing.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Grid } from "../index/series";
import { number } from "../text";
import { colourOf, gradient, SPECIAL, scaleOf } from "./colours";

/** More pixels than this are thinned out: no screen shows them. */
const MOST = 512;

export function HeatMap({ grid, label }: { grid: Grid; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scale = scaleOf(grid.data);
  const [rows, columns] = [Math.min(MOST, grid.rows), Math.min(MOST, grid.columns)];
  useLayoutEffect(() => paint(canvas.current, grid, rows, columns), [grid]);
  const odd = oddOnes(grid.data);
  return (
    <figure class="heatmap">
      <canvas
        ref={canvas}
        width={columns}
        height={rows}
        role="img"
        aria-label={`${label}, from ${number(scale.low)} to ${number(scale.high)}`}
        style={{ aspectRatio: `${columns} / ${rows}` }}
      />
      <figcaption>
        {number(scale.low)} <i class="scale" style={{ background: gradient(scale) }} /> {number(scale.high)}
        {odd.map(name => (
          <span key={name}>
            <i class="swatch" style={{ background: `rgb(${SPECIAL[name].join(" ")})` }} /> {WORDS[name]}
          </span>
        ))}
        {(rows < grid.rows || columns < grid.columns) && <span>thinned out</span>}
      </figcaption>
    </figure>
  );
}

type Odd = keyof typeof SPECIAL;

const WORDS: Record<Odd, string> = { nan: "NaN", posinf: "+∞", neginf: "−∞" };

function oddOnes(data: Float64Array): Odd[] {
  return (Object.keys(SPECIAL) as Odd[]).filter(name => data.some(value => kindOf(value) === name));
}

function kindOf(value: number): Odd | null {
  if (Number.isNaN(value)) return "nan";
  return Number.isFinite(value) ? null : value > 0 ? "posinf" : "neginf";
}

function paint(canvas: HTMLCanvasElement | null, grid: Grid, rows: number, columns: number): void {
  const context = canvas?.getContext("2d");
  if (!context) return;
  const scale = scaleOf(grid.data);
  const image = context.createImageData(columns, rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const from = Math.floor((row * grid.rows) / rows) * grid.columns + Math.floor((column * grid.columns) / columns);
      const colour = colourOf(grid.data[from] ?? Number.NaN, scale);
      image.data.set([...colour, 255], (row * columns + column) * 4);
    }
  }
  context.putImageData(image, 0, 0);
}
