import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { decode } from "../src/payload";
import { PROTOCOL } from "../src/protocol";
import { recorded } from "./records";

function packed(report: unknown, protocol = PROTOCOL, version = "0.1.0") {
  return { protocol, version, report: gzipSync(JSON.stringify(report)).toString("base64") };
}

test("a payload is unpacked to the report it was made of", async () => {
  const decoded = await decode(packed(recorded("mlp")), "0.1.0");
  expect(decoded).toMatchObject({ kind: "report", report: recorded("mlp") });
});

test("another protocol is a sentence that names both versions", async () => {
  const decoded = await decode(packed({}, PROTOCOL + 1, "9.9.9"), "0.1.0");
  expect(decoded.kind).toBe("unreadable");
  expect(JSON.stringify(decoded)).toContain("9.9.9");
  expect(JSON.stringify(decoded)).toContain("0.1.0");
  expect(JSON.stringify(decoded)).toContain("Install jaxmagic 9.9.9 or newer");
});

test("an older protocol asks for the cell to be run again", async () => {
  expect(JSON.stringify(await decode(packed({}, 0, "0.0.1"), "0.1.0"))).toContain("Run the cell again");
});

test.each([
  ["nothing", undefined],
  ["an empty payload, as before the first update", {}],
  ["base64 that is none", { protocol: PROTOCOL, version: "0", report: "%%%" }],
  ["a report that is not gzipped", { protocol: PROTOCOL, version: "0", report: "aGVsbG8=" }],
])("%s is said, not thrown", async (_, payload) => {
  expect((await decode(payload, "0.1.0")).kind).toBe("unreadable");
});
