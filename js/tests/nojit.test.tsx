import { describe, expect, test } from "vitest";
import { overRuns, valuesByLine, valueText } from "../src/index/values";
import type { Comparison, LineValue, Report } from "../src/protocol";
import { lineKey } from "../src/text";
import { lineOf, recorded } from "./records";
import { click, renderPanel, texts } from "./render";

const report = recorded("nojit");

function valuesAt(text: string) {
  const file = report.sources[0]?.file ?? "";
  return valuesByLine(report.nojit).get(lineKey(file, lineOf(report, text))) ?? [];
}

function lineWith(root: Element, text: string): Element {
  const found = [...root.querySelectorAll(".line")].find(each => each.textContent?.includes(text));
  if (!found) throw new Error(`no line has ${text}`);
  return found;
}

function value(run: number, kept: LineValue["kept"], text: string): LineValue {
  const [any] = report.nojit?.values ?? [];
  if (!any) throw new Error("the sample has values");
  return { ...any, run, kept, text };
}

describe("values over the runs of a line", () => {
  test("are the first three, those of another branch, and the last three", () => {
    const runs = [0, 1, 2].map(run => value(run, "first", `${run}.`));
    runs.push(value(6, "branch", "-1."), value(17, "last", "17."), value(18, "last", "18."));
    expect(overRuns({ name: "c", runs }, 60)).toBe("0., 1., 2. … (run 7) -1. … 17., 18.");
  });

  test("that are all the same are one", () => {
    expect(overRuns({ name: "x", runs: [value(0, "first", "1."), value(1, "first", "1.")] }, 60)).toBe("1.");
  });

  test("too large to be shown are a range, with NaN counted", () => {
    const summary = { ...recorded("taps").taps[0]?.events[0]?.summary, min: -1, max: 2.5, nan: 3 };
    expect(valueText({ ...value(0, "first", ""), summary } as LineValue)).toMatch(/^-1 to 2\.5 and 3 NaN/);
  });
});

describe("a run without jit", () => {
  test("has real values beside its lines", async () => {
    const root = await renderPanel(report);
    expect(texts(lineWith(root, "if k > 2"), ".value")).toEqual([]);
    expect(texts(lineWith(root, "def body"), ".value").join()).toContain("k = 0., 1., 2., (run 4) 3.");
  });

  test("opens a line to its values run by run", async () => {
    const root = await renderPanel(report);
    await click(root.querySelectorAll(".line .number")[lineOf(report, "c = c + k * x") - 1]);
    const [variable] = valuesAt("c = c + k * x");
    expect(texts(root, ".runs tbody tr")).toHaveLength(variable?.runs.length ?? 0);
    expect(root.querySelector(".runs")?.textContent).toContain("other branch");
  });

  test("says in the header where jit was off", async () => {
    const root = await renderPanel(report);
    expect(root.querySelector("header")?.textContent).toContain("jit off everywhere");
  });

  test("lists what ran in Python, what stayed traced, and where the time went", async () => {
    const root = await renderPanel(report);
    const section = root.querySelector("[aria-label='Without jit']");
    expect(section?.textContent).toContain("settle ran in Python 1 time");
    expect(section?.textContent).toMatch(/still traced by vmap ×3: <lambda>/);
    expect(texts(section as Element, "tbody tr").length).toBeGreaterThan(3);
  });

  test("beside a run with jit says what it cost", async () => {
    const comparison = { left: "jit", right: "no jit", left_s: 0.001, right_s: 0.5, right_operations: 64 };
    const both = { ...recorded("comparison").comparison, ...comparison } as Comparison;
    const root = await renderPanel({ ...report, comparison: both } as Report);
    expect(root.querySelector(".nojit .facts")?.textContent).toContain("no jit 500 ms, 64 programs sent");
  });
});
