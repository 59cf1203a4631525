// Reports to test with: those recorded by the engine, and small ones made here.
import comparison from "../../tests/records/comparison.json";
import empty from "../../tests/records/empty.json";
import failed from "../../tests/records/failed.json";
import findings from "../../tests/records/findings.json";
import hostile from "../../tests/records/hostile.json";
import interrupted from "../../tests/records/interrupted.json";
import mlp from "../../tests/records/mlp.json";
import nojit from "../../tests/records/nojit.json";
import plainPython from "../../tests/records/plain_python.json";
import retraces from "../../tests/records/retraces.json";
import running from "../../tests/records/running.json";
import taps from "../../tests/records/taps.json";
import type { Aval, Equation, Program, Region, Report, Span, Variable } from "../src/protocol";

const RECORDED = {
  comparison,
  empty,
  failed,
  findings,
  hostile,
  interrupted,
  mlp,
  nojit,
  plainPython,
  retraces,
  running,
  taps,
};

export type Recorded = keyof typeof RECORDED;

export const ALL = Object.keys(RECORDED) as Recorded[];

/** A report as the engine recorded it. */
export function recorded(name: Recorded): Report {
  return RECORDED[name] as unknown as Report;
}

/** Number of the first line of a report's first source that contains the text. */
export function lineOf(report: Report, text: string): number {
  const [source] = report.sources;
  const at = source?.text.split("\n").findIndex(line => line.includes(text)) ?? -1;
  if (!source || at < 0) throw new Error(`no line has ${text}`);
  return source.first_line + at;
}

export const F32: Aval = { shape: [2, 3], dtype: "float32", weak: false, sharding: null };

export function variable(id: number, name = ""): Variable {
  return { id, name, aval: F32 };
}

export function equation(
  primitive: string,
  ins: readonly (number | string)[],
  out: number,
  more: Partial<Equation> = {},
): Equation {
  return { primitive, ins, outs: [variable(out)], params: "", frame: -1, name_stack: "", regions: [], ...more };
}

export function region(equations: readonly Equation[], more: Partial<Region> = {}): Region {
  return { kind: "jit", name: "f", inputs: [], constants: [], outputs: [], equations, hidden: 0, ...more };
}

export function program(root: Region, frames: Program["frames"] = []): Program {
  return { root, frames, equations: root.equations.length, expressions: [] };
}

export function span(line: number, column: number, end_column: number, file = "cell"): Span {
  return { file, line, column, end_line: line, end_column };
}

/** `y = x * 2` in a loop body, whose result is added to `x`. */
export function nested(): Program {
  const body = region([equation("mul", [10, "2.0"], 11)], { kind: "scan body", inputs: [variable(10)], outputs: [11] });
  const root = region(
    [equation("exp", [0], 1), equation("scan", [1], 2, { regions: [body] }), equation("add", [2, 0], 3)],
    { inputs: [variable(0, "x")], outputs: [3] },
  );
  return program(root);
}
