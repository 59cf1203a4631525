// The program-order list: which rows there are, given which regions are open.
import type { ProgramIndex } from "../index/program";

export type Row =
  | { readonly kind: "region"; readonly region: number; readonly depth: number; readonly open: boolean }
  | { readonly kind: "equation"; readonly at: number; readonly depth: number }
  | { readonly kind: "hidden"; readonly region: number; readonly depth: number }
  | { readonly kind: "end"; readonly region: number; readonly depth: number };

/** Programs up to this size are shown with all their regions open. */
const OPEN_ALL = 150;

/** Regions that are open at first: all of a small program, the outermost of a large one. */
export function firstOpen(index: ProgramIndex): ReadonlySet<number> {
  return new Set(index.equations.length <= OPEN_ALL ? index.places.keys() : [0]);
}

/** Rows from top to bottom. Linear in what is open. */
export function rowsOf(index: ProgramIndex, open: ReadonlySet<number>): Row[] {
  const rows: Row[] = [];
  const add = (region: number): void => {
    const place = index.places[region];
    if (!place) return;
    const { depth } = place;
    rows.push({ kind: "region", region, depth, open: open.has(region) });
    if (!open.has(region)) return;
    for (const at of place.equations) {
      rows.push({ kind: "equation", at, depth: depth + 1 });
      index.inner.get(at)?.forEach(add);
    }
    if (place.region.hidden) rows.push({ kind: "hidden", region, depth: depth + 1 });
    rows.push({ kind: "end", region, depth: depth + 1 });
  };
  add(0);
  return rows;
}

/** `open`, and all regions around the given equations, so that they have rows. */
export function reveal(
  index: ProgramIndex,
  open: ReadonlySet<number>,
  equations: Iterable<number>,
): ReadonlySet<number> {
  const wider = new Set(open);
  for (const at of equations) {
    for (let region = index.regionOf[at] ?? -1; region >= 0; region = index.places[region]?.parent ?? -1) {
      wider.add(region);
    }
  }
  return wider.size === open.size ? open : wider;
}

export function toggled(open: ReadonlySet<number>, region: number): ReadonlySet<number> {
  const next = new Set(open);
  if (!next.delete(region)) next.add(region);
  return next;
}

/** Row numbers of what has a row. */
export interface Positions {
  readonly equation: ReadonlyMap<number, number>;
  readonly region: ReadonlyMap<number, number>;
  readonly end: ReadonlyMap<number, number>;
}

export function positionsOf(rows: readonly Row[]): Positions {
  const found = {
    equation: new Map<number, number>(),
    region: new Map<number, number>(),
    end: new Map<number, number>(),
  };
  rows.forEach((row, number) => {
    if (row.kind === "equation") found.equation.set(row.at, number);
    else if (row.kind !== "hidden") found[row.kind].set(row.region, number);
  });
  return found;
}
