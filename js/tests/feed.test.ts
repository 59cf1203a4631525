import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startFeed } from "../src/feed";
import { remember, remembered } from "../src/memory";
import { type Decoded, keyOf } from "../src/payload";
import { type Live, PROTOCOL, type Report } from "../src/protocol";
import { START } from "../src/selection";
import { recorded } from "./records";

function packed(report: Report) {
  return { protocol: PROTOCOL, version: "0.1.0", report: gzipSync(JSON.stringify(report)).toString("base64") };
}

function running(): Report {
  return { ...recorded("running"), taps: [] };
}

function news(seconds: number): Live {
  return { taps: recorded("taps").taps, seconds, sources: [] };
}

function totals(seen: readonly Decoded[]): readonly number[] {
  return seen.map(now => (now.kind === "report" ? now.report.seconds.total : Number.NaN));
}

const drawn = () => new Promise(done => requestAnimationFrame(done));

test("news that come while no view is there are shown to the next one", async () => {
  const feed = startFeed("0.1.0");
  const before: Decoded[] = [];
  await feed.show(packed(running()));
  feed.watch(now => before.push(now))();
  feed.add(news(7));
  const after: Decoded[] = [];
  feed.watch(now => after.push(now));
  expect(before).toHaveLength(1);
  expect(totals(after)).toEqual([7]);
});

test("news that come while the report is still being unpacked are not lost", async () => {
  const feed = startFeed("0.1.0");
  const unpacked = feed.show(packed(running()));
  feed.add(news(3));
  await unpacked;
  const seen: Decoded[] = [];
  feed.watch(now => seen.push(now));
  expect(totals(seen)).toEqual([3]);
});

test("news that come faster than they can be drawn are drawn together", async () => {
  const feed = startFeed("0.1.0");
  await feed.show(packed(running()));
  const seen: Decoded[] = [];
  feed.watch(now => seen.push(now));
  for (const second of [1, 2, 3]) feed.add(news(second));
  await drawn();
  expect(totals(seen).slice(1)).toEqual([3]);
});

test("a finished report takes no more news", async () => {
  const feed = startFeed("0.1.0");
  await feed.show(packed(recorded("taps")));
  feed.add(news(1e6));
  await drawn();
  const seen: Decoded[] = [];
  feed.watch(now => seen.push(now));
  expect(totals(seen)).toEqual([recorded("taps").seconds.total]);
});

test("the same report has the same key, another one has another", () => {
  expect(keyOf(packed(recorded("taps")))).toBe(keyOf(packed(recorded("taps"))));
  expect(keyOf(packed(recorded("taps")))).not.toBe(keyOf(packed(recorded("mlp"))));
});

test("what was chosen while the cell ran is known to the saved output as soon as the report has come", async () => {
  const feed = startFeed("0.1.0");
  await feed.show(packed(running()));
  remember(feed.key(), { ...START, tab: "transfer" });
  const unpacked = feed.show(packed(recorded("taps")));
  expect(remembered(keyOf(packed(recorded("taps"))))?.tab).toBe("transfer");
  await unpacked;
});

test("what was chosen is remembered for the panels touched last", () => {
  for (let at = 0; at <= 200; at += 1) remember(`panel ${at}`, { ...START, trace: at });
  expect(remembered("panel 0")).toBeUndefined();
  expect(remembered("panel 200")?.trace).toBe(200);
});
