import { describe, expect, test } from "vitest";
import { eventAt, gridOf, lanesOf, seriesKey, statisticsOf, turnsOf } from "../src/index/series";
import type { Report, TapEvent, TapSeries } from "../src/protocol";
import { recorded } from "./records";
import { button, click, renderPanel, texts, type } from "./render";

function seriesOf(name: string, values: readonly number[], alert: (value: number) => boolean): TapSeries {
  const [base] = recorded("taps").taps;
  const [event] = base?.events ?? [];
  if (!base || !event) throw new Error("the sample has taps");
  const events = values.map((value, at): TapEvent => {
    const summary = { ...event.summary, count: 1, min: value, max: value, mean: value };
    return { ...event, number: at, step: at, loop: [at], value, summary, alert: alert(value) } as TapEvent;
  });
  return { ...base, name, events, total: values.length, dropped: 0, gradient: false };
}

function tapped(...taps: TapSeries[]): Report {
  return { ...recorded("taps"), taps };
}

const loss = seriesOf("loss", [1, 0.5, 0.00007968398131197318], () => false);
const norm = seriesOf("norm", [1, 2000, 3], value => value > 1000);

describe("a scalar", () => {
  test("is shown in a few digits, and exactly under the pointer", async () => {
    const root = await renderPanel(tapped(loss), { tab: "transfer" });
    const shown = root.querySelector(".scalar code");
    expect(shown?.textContent).toBe("7.968e-5");
    expect(shown?.getAttribute("title")).toBe("0.00007968398131197318");
  });
});

describe("an alert", () => {
  test("is said aloud once a name, in whichever tab", async () => {
    const root = await renderPanel(tapped(loss, norm), { tab: "output" });
    const said = texts(root, "p[aria-live]").join();
    expect(said).toContain("Alert: norm 2000, event 1");
    expect(said).not.toContain("loss");
  });

  test("leads to its line and to its event", async () => {
    const root = await renderPanel(tapped(loss, norm));
    await click(button(root.querySelector(".alerts") as Element, "event 1"));
    expect(root.querySelector("[aria-selected=true][role=tab]")?.id).toBe("tab-transfer");
    expect(root.querySelector(".event")?.textContent).toContain("2000");
    await click(root.querySelector(".alerts .where"));
    expect(root.querySelector("[aria-selected=true][role=tab]")?.id).toBe("tab-overview");
  });
});

describe("the series", () => {
  test("chosen stays chosen when others come before it", async () => {
    const start = { tab: "transfer", series: seriesKey(norm) } as const;
    const root = await renderPanel(tapped(loss, norm), start);
    expect(root.querySelector(".chosen")?.textContent).toContain("norm");
  });

  test("are filtered by name, and a filter that fits none says so", async () => {
    const root = await renderPanel(tapped(loss, norm), { tab: "transfer" });
    await type(root.querySelector("input[type=search]"), "nor");
    expect(texts(root, ".series .opener")).toEqual(["norm"]);
    await type(root.querySelector("input[type=search]"), "xyz");
    expect(root.textContent).toContain("No name contains “xyz”");
  });

  test("have no cost on the host before it is known", async () => {
    const root = await renderPanel(tapped({ ...loss, host_s: 0 }), { tab: "transfer" });
    expect(root.querySelector(".toolbar")?.textContent).not.toContain("0 s on the host");
  });
});

test("an event that was dropped since gives way to the one before it", () => {
  const kept = { ...loss, events: loss.events.filter(event => event.step !== 1) };
  expect([null, 0, 1, 2].map(step => eventAt(kept, step))).toEqual([1, 0, 0, 1]);
});

describe("the lanes of a vmapped scalar", () => {
  const events = loss.events.map(event => ({ ...event, lanes: [3], value: [event.step, event.step * 2, "nan"] }));
  const lanes = { ...loss, aval: { ...loss.aval, shape: [] }, events };

  test("are curves behind that of the mean", async () => {
    const root = await renderPanel(tapped(lanes), { tab: "transfer" });
    expect(root.querySelectorAll(".chart .lane")).toHaveLength(3);
    expect(lanesOf(lanes)).toEqual([
      [0, 1, 2],
      [0, 2, 4],
      [null, null, null],
    ]);
  });

  test("are none where only some arrays were kept", () => {
    expect(lanesOf({ ...lanes, events: loss.events })).toBeNull();
  });
});

describe("nested loops", () => {
  const loops = [0, 1, 2].flatMap(outer => [0, 1].map(inner => [outer, inner]));
  const events = loops.map((loop, at) => ({ ...(loss.events[0] as TapEvent), number: at, step: at, loop }));
  const nested = { ...loss, events, total: events.length };

  test("have a slider of the outermost, which goes to the first event of a turn", async () => {
    const root = await renderPanel(tapped(nested), { tab: "transfer" });
    const slider = root.querySelector('input[aria-label="Outer loop"]') as HTMLInputElement;
    expect([slider.max, slider.value]).toEqual(["2", "2"]);
    await type(slider, "1");
    expect(root.querySelector(".event")?.textContent).toContain("event 2 · iteration 1, 0");
  });

  test("have none where there is one loop", () => {
    expect(turnsOf(loss)).toEqual([]);
    expect(turnsOf(nested)).toEqual([
      { turn: 0, at: 0 },
      { turn: 1, at: 2 },
      { turn: 2, at: 4 },
    ]);
  });
});

describe("complex numbers", () => {
  test("are pictured by their magnitude", () => {
    const event = { ...(loss.events[0] as TapEvent), value: [[[3, 4]], [["nan", 0]]] };
    expect(gridOf(event, true)).toEqual({ rows: 2, columns: 1, data: Float64Array.from([5, Number.NaN]) });
  });

  test("alone are spelled out", async () => {
    const complex = { ...loss, aval: { ...loss.aval, dtype: "complex64" } };
    const events = loss.events.map(event => ({ ...event, value: [1.5, -2] }));
    const root = await renderPanel(tapped({ ...complex, events }), { tab: "transfer" });
    expect(root.querySelector(".scalar code")?.textContent).toBe("1.5, -2");
  });
});

test("what no event has is not offered as a statistic", () => {
  expect(statisticsOf(loss)).toEqual(["mean"]);
  const sick = loss.events.map(event => ({ ...event, summary: { ...event.summary, nan: 1 } })) as TapEvent[];
  expect(statisticsOf({ ...loss, events: sick })).toEqual(["mean", "nan"]);
});
