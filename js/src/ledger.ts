// What the table of compiled functions adds up.
import type { Compiled, Trace } from "./protocol";

export interface Row {
  readonly compiled: Compiled;
  /** How many functions it was traced inside of. */
  readonly depth: number;
  readonly calls: number;
  /** Whether there were neither more nor fewer calls. */
  readonly exact: boolean;
  readonly traces: number;
  readonly trace_s: number;
  readonly lower_s: number;
  readonly compile_s: number;
  readonly run_s: number;
  /** Of the most recent trace that has it; null where the backend does not say. */
  readonly flops: number | null;
  readonly bytes: number | null;
  readonly peak: number | null;
  readonly donated: number;
  readonly constants: number;
}

export type Column =
  | "order"
  | "name"
  | "calls"
  | "traces"
  | "seconds"
  | "flops"
  | "bytes"
  | "peak"
  | "donated"
  | "constants";

export function ledger(compiled: readonly Compiled[]): Row[] {
  const depths = depthsOf(compiled);
  return inTreeOrder(compiled).map(each => rowOf(each, depths.get(each.id) ?? 0));
}

function rowOf(compiled: Compiled, depth: number): Row {
  const { traces } = compiled;
  const sum = (of: (trace: Trace) => number): number => traces.reduce((total, trace) => total + of(trace), 0);
  const latest = (of: (trace: Trace) => number | null | undefined): number | null =>
    traces.reduce<number | null>((found, trace) => of(trace) ?? found, null);
  const last = traces[traces.length - 1];
  return {
    compiled,
    depth,
    calls: sum(trace => trace.calls),
    exact: traces.every(trace => trace.calls_exact),
    traces: traces.length,
    trace_s: sum(trace => trace.trace_s),
    lower_s: sum(trace => trace.lower_s),
    compile_s: sum(trace => trace.compile_s),
    run_s: sum(trace => trace.run_s),
    flops: latest(trace => trace.cost?.flops),
    bytes: latest(trace => trace.cost?.bytes_accessed),
    peak: latest(trace => trace.cost?.peak_bytes),
    donated: last?.inputs.filter(input => input.donated).length ?? 0,
    constants: last?.constants.reduce((total, constant) => total + constant.bytes, 0) ?? 0,
  };
}

function depthsOf(compiled: readonly Compiled[]): Map<number, number> {
  const parents = new Map(compiled.map(each => [each.id, each.parent]));
  const depth = (id: number | null, left: number): number =>
    id === null || left === 0 ? -1 : 1 + depth(parents.get(id) ?? null, left - 1);
  return new Map(compiled.map(each => [each.id, depth(each.id, 20)]));
}

/** Each function followed by those traced inside of it. */
function inTreeOrder(compiled: readonly Compiled[]): Compiled[] {
  const ids = new Set(compiled.map(each => each.id));
  const children = new Map<number | null, Compiled[]>();
  for (const each of compiled) {
    const parent = each.parent !== null && ids.has(each.parent) ? each.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), each]);
  }
  const walk = (parent: number | null): Compiled[] =>
    (children.get(parent) ?? []).flatMap(each => [each, ...walk(each.id)]);
  return walk(null);
}

export function secondsOf(row: Row): number {
  return row.trace_s + row.lower_s + row.compile_s;
}

const KEYS: Record<Exclude<Column, "order">, (row: Row) => number | string> = {
  name: row => row.compiled.name,
  calls: row => row.calls,
  traces: row => row.traces,
  seconds: secondsOf,
  flops: row => row.flops ?? -1,
  bytes: row => row.bytes ?? -1,
  peak: row => row.peak ?? -1,
  donated: row => row.donated,
  constants: row => row.constants,
};

/** Largest first, names from A; `order` is the order of the program. */
export function sorted(rows: readonly Row[], column: Column): Row[] {
  if (column === "order") return [...rows];
  const key = KEYS[column];
  return [...rows].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    return typeof left === "string" ? left.localeCompare(String(right)) : Number(right) - left;
  });
}
