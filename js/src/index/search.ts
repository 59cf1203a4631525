// Search in a program, over what its list shows.
import { aval } from "../text";
import { type NamedProgram, operandLabel } from "./program";

/** Flat numbers of the equations that contain the text: primitive, names, avals, parameters, name stack. */
export function searchEquations(index: NamedProgram, text: string): number[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found: number[] = [];
  index.equations.forEach((equation, at) => {
    const hit =
      equation.primitive.toLowerCase().includes(wanted) ||
      equation.params.toLowerCase().includes(wanted) ||
      equation.name_stack.toLowerCase().includes(wanted) ||
      equation.outs.some(out => `${operandLabel(index, out.id)}:${aval(out.aval)}`.toLowerCase().includes(wanted)) ||
      equation.ins.some(operand => operandLabel(index, operand).toLowerCase() === wanted);
    if (hit) found.push(at);
  });
  return found;
}

/** Lines, from 1, that contain the text. */
export function searchLines(lines: readonly string[], text: string): number[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  return lines.flatMap((line, at) => (line.toLowerCase().includes(wanted) ? [at + 1] : []));
}

/** The hit after (or before) a place, around the end to the beginning; null where there is none. */
export function nextHit(hits: readonly number[], from: number | null, by: 1 | -1): number | null {
  if (!hits.length) return null;
  const start = from ?? (by > 0 ? -1 : Number.POSITIVE_INFINITY);
  const next = by > 0 ? hits.find(hit => hit > start) : hits.filter(hit => hit < start).pop();
  return next ?? (by > 0 ? hits[0] : hits[hits.length - 1]) ?? null;
}
