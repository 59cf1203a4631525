// Wires in the gutter of the list: from where a value is made to where it is last used. Linear in the rows.
import type { ProgramIndex } from "../index/program";
import type { Positions, Row } from "./rows";

export interface Wire {
  readonly variable: number;
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  /** Rows that use it. */
  readonly uses: readonly number[];
}

/** Lanes side by side; a wire that finds none free is drawn only when selected. Two more are kept for those. */
export const LANES = 6;

/** Longer wires would only clutter every page they cross. */
const LONGEST = 120;

/** All wires of moderate length, ordered by their first row. */
export function layWires(index: ProgramIndex, rows: readonly Row[], positions: Positions): Wire[] {
  const wires: Wire[] = [];
  const busyUntil = new Array<number>(LANES).fill(-1);
  rows.forEach((row, from) => {
    if (row.kind !== "equation") return;
    for (const out of index.equations[row.at]?.outs ?? []) {
      const wire = wireOf(index, positions, out.id);
      if (!wire || wire.to - from > LONGEST) continue;
      const lane = busyUntil.findIndex(until => until < from);
      if (lane < 0) continue;
      busyUntil[lane] = wire.to;
      wires.push({ ...wire, lane });
    }
  });
  return wires;
}

/** The wire of one variable, however long, in the lane nearest to the text; null where its ends have no rows. */
export function wireOf(index: ProgramIndex, positions: Positions, variable: number): Wire | null {
  const from = definitionRow(index, positions, variable);
  if (from === undefined) return null;
  const uses = (index.usedBy.get(variable) ?? []).flatMap(at => positions.equation.get(at) ?? []);
  const returned = positions.end.get(index.outputOf.get(variable) ?? -1);
  if (returned !== undefined) uses.push(returned);
  const to = uses.reduce((last, use) => Math.max(last, use), -1);
  return to < 0 ? null : { variable, lane: LANES, from, to, uses };
}

function definitionRow(index: ProgramIndex, positions: Positions, variable: number): number | undefined {
  const equation = index.definedBy.get(variable);
  if (equation !== undefined) return positions.equation.get(equation);
  return positions.region.get(index.inputOf.get(variable) ?? -1);
}

/** Wires that cross rows `first` to `last`. */
export function wiresBetween(wires: readonly Wire[], first: number, last: number): Wire[] {
  const found: Wire[] = [];
  for (let at = lowerBound(wires, first - LONGEST); at < wires.length; at++) {
    const wire = wires[at] as Wire;
    if (wire.from > last) break;
    if (wire.to >= first) found.push(wire);
  }
  return found;
}

function lowerBound(wires: readonly Wire[], from: number): number {
  let low = 0;
  let high = wires.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((wires[middle] as Wire).from < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
