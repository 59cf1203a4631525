import { describe, expect, test } from "vitest";
import { fromBytes, toBytes } from "../src/index/columns";
import { stretches } from "../src/index/folds";
import { nameAt, namesIn } from "../src/index/hints";
import { equationsByLine, linked } from "../src/index/links";
import { named } from "../src/index/names";
import { indexProgram } from "../src/index/program";
import { nextHit, searchEquations, searchLines } from "../src/index/search";
import { gridOf, toNumber } from "../src/index/series";
import { expressionAt, indexExpressions } from "../src/index/spans";
import type { Program, Report, TapEvent } from "../src/protocol";
import { chosenCalls, current, START } from "../src/selection";
import { lineKey } from "../src/text";
import { equation, F32, lineOf, nested, program, recorded, region, span, variable } from "./records";

test("columns count UTF-8 bytes on one side and UTF-16 units on the other", () => {
  const line = "é𝛼 = x";
  expect(toBytes(line, line.indexOf("x"))).toBe(9);
  expect(fromBytes(line, 9)).toBe(line.indexOf("x"));
});

function namedProgram(of: Program) {
  return named(indexProgram(of), { hints: [], sources: [] } as unknown as Report);
}

describe("a program laid out flat", () => {
  const index = namedProgram(nested());

  test("numbers the equations in program order, inner ones after their owner", () => {
    expect(index.equations.map(each => each.primitive)).toEqual(["exp", "scan", "mul", "add"]);
    expect(index.regionOf).toEqual([0, 0, 1, 0]);
  });

  test("knows who defines and who uses a variable", () => {
    expect(index.definedBy.get(2)).toBe(1);
    expect(index.usedBy.get(0)).toEqual([0, 3]);
    expect(index.inputOf.get(10)).toBe(1);
    expect(index.outputOf.get(11)).toBe(1);
  });

  test("calls a variable what the user does, else by a letter nobody uses", () => {
    expect(index.names.get(0)).toBe("x");
    expect(new Set(index.names.values()).size).toBe(index.variables.size);
  });

  test("numbers a name that repeats", () => {
    const twice = namedProgram(program(region([equation("a", [], 1), equation("b", [], 2)])));
    const alike = namedProgram(program(region([], { inputs: [variable(1, "h"), variable(2, "h"), variable(3)] })));
    expect([...twice.names.values()]).toEqual(["a", "b"]);
    expect([...alike.names.values()]).toEqual(["h", "h₂", "a"]);
  });

  test("takes the names of plain assignments from the lines", () => {
    const report = recorded("mlp");
    const traced = current(report, START)?.trace.program as Program;
    const index = named(indexProgram(traced), report);
    const makers = new Map(
      index.equations.flatMap(each => each.outs.map(out => [index.names.get(out.id), each.primitive])),
    );
    expect(makers.get("h")).toBe("custom_jvp_call"); // not the zeros that its derivative needs
    expect(makers.get("error")).toBe("sub");
  });

  test("is searched over everything its rows show", () => {
    expect(searchEquations(index, "SCAN")).toEqual([1]);
    expect(searchEquations(index, "2.0")).toEqual([2]);
    expect(searchEquations(index, " ")).toEqual([]);
  });
});

test("search goes around the end", () => {
  expect([nextHit([2, 5], 5, 1), nextHit([2, 5], 2, -1), nextHit([2, 5], null, 1), nextHit([], 1, 1)]).toEqual([
    2,
    5,
    2,
    null,
  ]);
  expect(searchLines(["one", "two", "tone"], "ONE")).toEqual([1, 3]);
});

describe("expressions", () => {
  const sized = (size: number) => [{ ...F32, shape: [size] }];
  const expression = (column: number, end: number, size: number) => ({
    span: span(1, column, end),
    avals: sized(size),
  });
  const programs = [[expression(4, 9, 2), expression(4, 5, 1)], [expression(4, 9, 7)], [expression(4, 9, 2)]];
  const compiled = programs.map(expressions => ({ traces: [{ program: { ...nested(), expressions } }] }));
  const found = indexExpressions({ compiled } as unknown as Report).get("cell") ?? [];

  test("have each aval once that they had in some program", () => {
    expect(found.map(each => each.values)).toEqual([["f32[2]", "f32[7]"], ["f32[1]"]]);
  });

  test("are found from the inside out", () => {
    expect(expressionAt(found, 1, 4)?.values).toEqual(["f32[1]"]);
    expect(expressionAt(found, 1, 7)?.values).toEqual(["f32[2]", "f32[7]"]);
    expect(expressionAt(found, 1, 9)).toBeUndefined();
  });
});

describe("names in the source", () => {
  const report = recorded("mlp");
  const [source] = report.sources;
  const names = namesIn(report, chosenCalls(report, START));
  const line = lineOf(report, "h = jax.nn.relu");
  const code = source?.text.split("\n")[line - (source?.first_line ?? 1)] ?? "";
  const valueAt = (text: string) => nameAt(names, source?.file ?? "", code, line, code.indexOf(text))?.values;

  test("mean what they hold there", () => {
    expect(valueAt("x")).toEqual(["f32[32,784]"]);
    expect(valueAt("h")).toEqual(["f32[32,256]"]);
  });

  test("of a path into a pytree mean the leaf", () => {
    expect(valueAt('params["w1"]')).toEqual(["f32[784,256]"]);
  });

  test("after a dot are attributes, not variables", () => {
    expect(valueAt("relu")).toBeUndefined();
  });
});

describe("what belongs together", () => {
  const report = recorded("mlp");
  const trace = current(report, START)?.trace;
  if (!trace?.program) throw new Error("the sample has a program");
  const index = indexProgram(trace.program);
  const file = report.sources[0]?.file ?? "";

  test("a line lights its equations, and those of what it called", () => {
    const lit = linked({ kind: "line", file, line: lineOf(report, "error = mlp") }, trace);
    const called = linked({ kind: "line", file, line: lineOf(report, "return h @") }, trace);
    expect(lit.equations.size).toBeGreaterThan(called.equations.size);
    for (const at of called.equations) expect(lit.equations).toContain(at);
    expect(equationsByLine(index).size).toBeGreaterThan(3);
  });

  test("an equation lights its line and the kernels made of it", () => {
    const at = index.equations.findIndex(each => each.primitive === "dot_general");
    const lit = linked({ kind: "equation", at }, trace);
    expect([...lit.lines]).toEqual([lineKey(file, lineOf(report, "h = jax.nn.relu"))]);
    expect(lit.instructions.hlo.size).toBeGreaterThan(0);
  });

  test("a kernel leads back to the equation", () => {
    const at = index.equations.findIndex(each => each.primitive === "dot_general");
    const [line = 0] = linked({ kind: "equation", at }, trace).instructions.hlo;
    expect(linked({ kind: "instruction", stage: "hlo", line }, trace).equations).toContain(at);
  });

  test("a variable lights the equation that makes it and those that use it", () => {
    const at = index.equations.findIndex(each => each.primitive === "dot_general");
    const id = index.equations[at]?.outs[0]?.id ?? -1;
    expect(linked({ kind: "variable", id }, trace).equations).toEqual(new Set([at, ...(index.usedBy.get(id) ?? [])]));
  });
});

test("long files are folded where nothing is known", () => {
  expect(stretches(1, 40, [])).toEqual([{ first: 1, last: 40, folded: false }]);
  expect(stretches(1, 200, [100])).toEqual([
    { first: 1, last: 95, folded: true },
    { first: 96, last: 104, folded: false },
    { first: 105, last: 200, folded: true },
  ]);
});

test("what JSON has no number for comes as a word", () => {
  expect([toNumber("inf"), toNumber("-inf"), toNumber(true), toNumber("nan")]).toEqual([
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    1,
    Number.NaN,
  ]);
  const grid = gridOf({
    value: [
      [1, "nan"],
      [3, 4],
    ],
  } as unknown as TapEvent);
  expect([grid?.rows, grid?.columns, grid?.data.length]).toEqual([2, 2, 4]);
});
