import { expect, test } from "vitest";
import { csv, ledgerCsv, reportJson } from "../src/export";
import { ledger, sorted } from "../src/ledger";
import { recorded } from "./records";

test("cells with commas, quotes and line breaks are quoted", () => {
  expect(csv([["a,b", 'say "x"', 1, null]])).toBe('"a,b","say ""x""",1,\r\n');
});

test("a name that a spreadsheet would run is defused, a negative number is not", () => {
  expect(csv([["=HYPERLINK(1)", -1]])).toBe("'=HYPERLINK(1),-1\r\n");
});

test("the ledger has one line a trace", () => {
  const { compiled } = recorded("retraces");
  const traces = compiled.reduce((sum, each) => sum + each.traces.length, 0);
  expect(ledgerCsv(compiled).trimEnd().split("\r\n")).toHaveLength(1 + traces);
});

test("the report leaves as it came", () => {
  expect(JSON.parse(reportJson(recorded("mlp")))).toEqual(recorded("mlp"));
});

test("the ledger adds up what the traces cost, largest first on demand", () => {
  const rows = ledger(recorded("retraces").compiled);
  expect(rows[0]?.traces).toBe(5);
  const times = sorted(rows, "seconds").map(row => row.compile_s + row.trace_s + row.lower_s);
  expect(times).toEqual([...times].sort((a, b) => b - a));
  expect(sorted(rows, "order")).toEqual(rows);
});
