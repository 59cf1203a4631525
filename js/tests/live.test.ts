import { expect, test } from "vitest";
import { withNews } from "../src/live";
import type { Live, Report, TapEvent, TapSeries } from "../src/protocol";
import { recorded } from "./records";

function event(step: number): TapEvent {
  const base = recorded("taps").taps[0]?.events[0];
  if (!base) throw new Error("the sample has taps");
  return { ...base, step, number: step };
}

function series(steps: readonly number[], name = "loss"): TapSeries {
  const base = recorded("taps").taps[0];
  if (!base) throw new Error("the sample has taps");
  return { ...base, name, events: steps.map(event), total: (steps.at(-1) ?? 0) + 1, dropped: 0 };
}

function running(): Report {
  return { ...recorded("running"), taps: [] };
}

function news(...taps: TapSeries[]): Live {
  return { taps, seconds: 1.5, sources: [] };
}

test("news of a name are put behind what was known of it", () => {
  const once = withNews(running(), news(series([0, 1])));
  const twice = withNews(once, news(series([2, 3]), series([0], "grads")));
  expect(twice.taps.map(one => [one.name, one.events.map(({ step }) => step)])).toEqual([
    ["loss", [0, 1, 2, 3]],
    ["grads", [0]],
  ]);
  expect(twice.seconds.total).toBe(1.5);
});

test("a million events leave a bounded number to draw, the newest among them, the rest counted", () => {
  let now = running();
  for (let at = 0; at < 200; at += 1) {
    now = withNews(now, news(series(Array.from({ length: 300 }, (_, n) => at * 5_000 + n))));
  }
  const [loss] = now.taps;
  expect(loss?.events.length).toBeLessThanOrEqual(4_000);
  expect(loss?.events.at(-1)?.step).toBe(199 * 5_000 + 299);
  expect((loss?.events.length ?? 0) + (loss?.dropped ?? 0)).toBe(loss?.total);
});
