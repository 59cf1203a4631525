import { expect, test } from "vitest";
import type { Hint } from "../src/protocol";
import { aval, bytes, clip, count, label, leaves, number, seconds, shortDtype, visible } from "../src/text";
import { F32, span } from "./records";

test.each([
  ["float32", "f32"],
  ["bfloat16", "bf16"],
  ["uint8", "u8"],
  ["bool", "bool"],
  ["float8_e4m3fn", "f8_e4m3fn"],
  ["key<fry>", "key<fry>"],
])("the dtype %s is printed as in a jaxpr: %s", (long, short) => {
  expect(shortDtype(long)).toBe(short);
});

test("an aval says whether it is weakly typed and how it is sharded", () => {
  expect(aval(F32)).toBe("f32[2,3]");
  expect(aval({ ...F32, shape: [], weak: true })).toBe("f32[]*");
  expect(aval({ ...F32, sharding: "P('x', None)" })).toBe("f32[2,3] P('x', None)");
});

test("a pytree is cut to so many leaves and the rest counted", () => {
  const leaf = (path: string) => ({ path, aval: F32, kind: "traced", lanes: [] }) as const;
  const hint = { span: span(1, 0, 1), leaves: ["['a']", "['b']", "['c']"].map(leaf), hidden: 2 } as unknown as Hint;
  expect(leaves(hint, 2)).toBe("{['a'] f32[2,3], ['b'] f32[2,3], +3}");
});

test("under vmap the batch size stands beside the shape of one example", () => {
  const hint = { leaves: [{ path: "", aval: F32, kind: "traced", lanes: [32] }], hidden: 0 } as unknown as Hint;
  expect(leaves(hint)).toBe("f32[2,3] ×32 (vmap)");
});

test.each([
  [0, "0 s"],
  [0.000193, "193 µs"],
  [0.0042, "4.2 ms"],
  [1.2555, "1.26 s"],
  [125, "2 min 5 s"],
])("%d seconds read %s", (value, text) => {
  expect(seconds(value)).toBe(text);
});

test("sizes get three digits and a unit", () => {
  expect([bytes(915752), bytes(0), bytes(1024)]).toEqual(["894 KiB", "0 B", "1 KiB"]);
  expect([count(26641738), count(12)]).toEqual(["26.6 M", "12"]);
});

test("statistics keep few digits, and a missing one is a dash", () => {
  expect([number(0.123456), number(1e-9), number(null), number(3)]).toEqual(["0.1235", "1e-9", "–", "3"]);
});

test("characters that reorder or hide text are written out", () => {
  expect(visible("a\u202eb\u0000c\ttab\n")).toBe("a⟨202E⟩b⟨0000⟩c\ttab\n");
});

test("a label is one line of bounded length", () => {
  expect(label("one\n   two")).toBe("one two");
  expect(label("x".repeat(10_000)).length).toBe(120);
  expect(clip("short")).toBe("short");
});
