import { describe, expect, test } from "vitest";
import { Sparkline, thinned } from "../src/draw/chart";
import { colourOf, scaleOf } from "../src/draw/colours";
import { Histogram } from "../src/draw/histogram";
import { tokenize } from "../src/draw/python";
import { segments } from "../src/draw/segments";
import { span } from "./records";
import { render } from "./render";

describe("Python text", () => {
  const kinds = (line: string) =>
    (tokenize([line])[0] ?? []).map(token => `${token.kind} ${line.slice(token.start, token.end)}`);

  test("is cut into what has a colour of its own", () => {
    expect(kinds("def f(x):  # why")).toEqual(["keyword def", "definition f", "name x", "comment # why"]);
    expect(kinds("y = g(1e-3, 'a#b')")).toEqual(["name y", "call g", "number 1e", "number 3", "string 'a#b'"]);
    expect(kinds("@jax.jit")).toEqual(["decorator @jax.jit"]);
  });

  test("knows that a triple-quoted string runs on", () => {
    const tokens = tokenize(['x = """one', "two # no comment", 'three""" + y']);
    expect(tokens[1]).toEqual([{ start: 0, end: 16, kind: "string" }]);
    expect(tokens[2]?.map(token => token.kind)).toEqual(["string", "name"]);
  });
});

describe("a line of source", () => {
  test("breaks where marks and expressions begin and end", () => {
    const pieces = segments("y = x @ w", 3, [], [{ span: span(3, 4, 9), style: "mark" }], [span(3, 4, 5)]);
    expect(pieces.map(piece => piece.text)).toEqual(["y = ", "x", " @ w"]);
    expect(pieces.map(piece => piece.styles.includes("mark"))).toEqual([false, true, true]);
  });

  test("of ten thousand characters is cut, and says so", () => {
    const text = segments("x".repeat(10_000), 1, [], [], [])
      .map(piece => piece.text)
      .join("");
    expect(text).toHaveLength(501);
    expect(text.endsWith("…")).toBe(true);
  });
});

describe("colours", () => {
  test("of both signs are centred at zero", () => {
    expect(scaleOf([-1, 4])).toEqual({ low: -4, high: 4, diverging: true });
    expect(colourOf(0, scaleOf([-1, 4]))).toEqual([247, 247, 247]);
  });

  test("of NaN and infinities are on no scale", () => {
    const scale = scaleOf([0, 1, Number.NaN, Number.POSITIVE_INFINITY]);
    expect(scale).toEqual({ low: 0, high: 1, diverging: false });
    expect(colourOf(Number.NaN, scale)).not.toEqual(colourOf(Number.POSITIVE_INFINITY, scale));
  });

  test("of nothing but one number are that of the middle", () => {
    expect(colourOf(5, scaleOf([5, 5]))).toEqual(colourOf(0.5, scaleOf([0, 1])));
  });
});

describe("curves", () => {
  test("of a million points keep the extremes", () => {
    const values = Array.from({ length: 1_000_000 }, (_, at) => (at === 777_777 ? 9 : 0));
    const points = thinned(values, 200);
    expect(points.length).toBeLessThanOrEqual(200);
    expect(Math.max(...points.map(point => point.value ?? 0))).toBe(9);
  });

  test("break where there is no number", async () => {
    const root = await render(<Sparkline values={[1, 2, null, 4]} />);
    expect(root.querySelector(".curve")?.getAttribute("d")?.match(/M/g)).toHaveLength(2);
    expect(root.querySelectorAll(".gap")).toHaveLength(1);
  });
});

test("a histogram tells its counts to who cannot see it", async () => {
  const root = await render(<Histogram counts={[1, 2, 3]} low={0} high={1} />);
  expect(root.querySelector("svg")?.getAttribute("aria-label")).toBe("Histogram from 0 to 1: 1, 2, 3");
});
