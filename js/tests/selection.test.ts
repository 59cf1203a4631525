import { describe, expect, test } from "vitest";
import { callKey, chosenCalls, current, reduce, START, tracesOnLine } from "../src/selection";
import { lineOf, recorded } from "./records";

describe("the function on show", () => {
  test("is at first a user's one with a program", () => {
    expect(current(recorded("mlp"), START)?.compiled.name).toBe("step");
  });

  test("is none where nothing was compiled", () => {
    expect(current(recorded("plainPython"), START)).toBeUndefined();
  });

  test("stays within the traces there are", () => {
    const report = recorded("retraces");
    expect(current(report, { ...START, trace: 99 })?.at).toBe((report.compiled[0]?.traces.length ?? 0) - 1);
  });
});

describe("another program", () => {
  const equation = reduce(START, { type: "focus", focus: { kind: "equation", at: 3 } });
  const line = reduce(START, { type: "focus", focus: { kind: "line", file: "f", line: 3 } });
  const other = { type: "trace", compiled: 1, trace: 0 } as const;

  test("forgets the selected equation: its number means nothing there", () => {
    expect(reduce(equation, other).focus).toBeNull();
  });

  test("keeps the selected line", () => {
    expect(reduce(line, other).focus).toEqual({ kind: "line", file: "f", line: 3 });
  });
});

test("opening a program from a line goes to the Transform tab with that line", () => {
  const focus = { kind: "line", file: "f", line: 3 } as const;
  const state = reduce(START, { type: "program", compiled: 4, trace: 1, focus });
  expect(state).toMatchObject({ tab: "transform", compiled: 4, trace: 1, focus });
});

test("a link to a line goes where the source can be seen", () => {
  const link = { type: "line", file: "f", line: 3 } as const;
  expect(reduce({ ...START, tab: "output" }, link).tab).toBe("overview");
  expect(reduce({ ...START, tab: "transform", closed: ["source"] }, link)).toMatchObject({
    tab: "transform",
    closed: [],
  });
});

test("a pane closes and opens again", () => {
  const closed = reduce(START, { type: "pane", pane: "graph" });
  expect(closed.closed).toEqual(["graph"]);
  expect(reduce(closed, { type: "pane", pane: "graph" }).closed).toEqual([]);
});

describe("of a function that ran in several ways", () => {
  const report = recorded("retraces");
  const scale = report.calls.filter(call => call.function === "scale");

  test("the first traced call is shown", () => {
    const chosen = chosenCalls(report, START);
    expect(scale.filter(call => chosen.has(call.id))).toEqual([scale[0]]);
  });

  test("any other can be chosen", () => {
    const [, second] = scale;
    if (!second) throw new Error("the sample has two ways");
    const state = reduce(START, { type: "call", key: callKey(second), call: second.id });
    expect(chosenCalls(report, state)).toContain(second.id);
  });
});

test("all pieces of a cell are shown together: IPython runs its last expression on its own", () => {
  const report = recorded("mlp");
  const cell = { ...report.calls[0], function: "<module>" } as (typeof report.calls)[number];
  const pieces = [1, 2, 3].map(id => ({ ...cell, id: 100 + id }));
  const chosen = chosenCalls({ ...report, calls: pieces }, START);
  expect([...chosen]).toEqual([101, 102, 103]);
});

test("a line knows the traces that did something on it", () => {
  const report = recorded("mlp");
  const found = tracesOnLine(report, report.sources[0]?.file ?? "", lineOf(report, "h = jax.nn.relu"));
  expect(found.map(each => each.compiled.name)).toEqual(["step"]);
  expect(found[0]?.equations).toBeGreaterThan(0);
});
