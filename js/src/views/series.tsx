// One tapped series: a statistic over the events, and one event with all that is known of it.
import { useMemo, useState } from "preact/hooks";
import { Chart } from "../draw/chart";
import { HeatMap } from "../draw/heatmap";
import { Histogram } from "../draw/histogram";
import { save, seriesCsv } from "../export";
import {
  eventAt,
  gridOf,
  isComplex,
  isSick,
  lanesOf,
  placeOf,
  type Statistic,
  seriesKey,
  statistic,
  statisticsOf,
  turnsOf,
} from "../index/series";
import type { TapEvent, TapSeries } from "../protocol";
import { label, number, plural, seconds } from "../text";
import { Choices, Name, Where } from "./parts";
import type { Shown } from "./shown";

export function SeriesView({ series, shown }: { series: TapSeries; shown: Shown }) {
  const { events } = series;
  const [which, setWhich] = useState<Statistic>("mean");
  const at = eventAt(series, shown.state.event);
  const event = events[at];
  const choose = (place: number | null): void => {
    const step = place === null ? null : (events[place]?.step ?? null);
    shown.act({ type: "series", series: seriesKey(series), event: step });
  };
  const remarks = [series.transport && label(series.transport, 80), kept(series)];
  return (
    <section class="one-series" aria-label={`Series ${label(series.name, 80)}`}>
      <h3>
        <Name text={series.name} /> {series.gradient && <span class="tag">gradient</span>}
        <Where span={series.span} shown={shown} />
        <span class="grow" />
        <button type="button" class="small" onClick={() => save("series.csv", "text/csv", seriesCsv(series))}>
          CSV
        </button>
        {events.length > 1 && <StatisticChoice series={series} which={which} choose={setWhich} />}
      </h3>
      {events.length > 1 && <Curve series={series} which={which} at={at} choose={choose} />}
      {events.length > 1 && <Scrubber events={events} at={at} choose={choose} />}
      <Turns series={series} at={at} choose={choose} />
      {event && <EventView event={event} series={series} />}
      <p class="facts quiet">{remarks.filter(Boolean).join(" · ")}</p>
    </section>
  );
}

function StatisticChoice({
  series,
  which,
  choose,
}: {
  series: TapSeries;
  which: Statistic;
  choose: (which: Statistic) => void;
}) {
  const offered = statisticsOf(series).map(value => ({ value, label: WORDS[value] }));
  return offered.length > 1 ? <Choices label="Statistic" choices={offered} value={which} choose={choose} /> : null;
}

function Curve(props: { series: TapSeries; which: Statistic; at: number; choose: (at: number) => void }) {
  const { series, which, at, choose } = props;
  const { events } = series;
  const lanes = useMemo(() => lanesOf(series), [series]);
  const withBand = which === "mean" && statisticsOf(series).includes("min");
  return (
    <Chart
      values={events.map(event => statistic(event, which))}
      band={withBand && !lanes ? bandOf(events) : null}
      others={which === "mean" ? (lanes ?? []) : []}
      at={at}
      choose={choose}
      label={`${WORDS[which]} of ${label(series.name, 80)}`}
    />
  );
}

const WORDS: Record<Statistic, string> = { mean: "Mean", min: "Min", max: "Max", std: "Std", nan: "NaN and ∞" };

function bandOf(events: readonly TapEvent[]) {
  return { low: events.map(event => statistic(event, "min")), high: events.map(event => statistic(event, "max")) };
}

function kept({ events, total }: TapSeries): string {
  if (events.length === total) return plural(total, "event");
  return `${events.length.toLocaleString("en")} of ${plural(total, "event")} kept`;
}

function Scrubber({
  events,
  at,
  choose,
}: {
  events: readonly TapEvent[];
  at: number;
  choose: (at: number | null) => void;
}) {
  const sick = events.findIndex(isSick);
  return (
    <div class="scrubber">
      <input
        type="range"
        min={0}
        max={events.length - 1}
        value={at}
        aria-label="Event"
        aria-valuetext={placeOf(events[at] as TapEvent)}
        onInput={event => choose(Number(event.currentTarget.value))}
      />
      {sick >= 0 && (
        <button type="button" class="small" onClick={() => choose(sick)}>
          First NaN or ∞
        </button>
      )}
      <button type="button" class="small" onClick={() => choose(null)}>
        Last
      </button>
    </div>
  );
}

/** Of nested loops the outermost has a slider of its own, which goes to the first event of a turn. */
function Turns({ series, at, choose }: { series: TapSeries; at: number; choose: (at: number | null) => void }) {
  const turns = useMemo(() => turnsOf(series), [series]);
  if (!turns.length) return null;
  const chosen = Math.max(0, turns.filter(turn => turn.at <= at).length - 1);
  return (
    <div class="scrubber">
      <input
        type="range"
        min={0}
        max={turns.length - 1}
        value={chosen}
        aria-label="Outer loop"
        aria-valuetext={`iteration ${turns[chosen]?.turn}`}
        onInput={event => choose(turns[Number(event.currentTarget.value)]?.at ?? null)}
      />
      <span class="quiet">outer loop: {turns[chosen]?.turn}</span>
    </div>
  );
}

function EventView({ event, series }: { event: TapEvent; series: TapSeries }) {
  const grid = useMemo(() => gridOf(event, isComplex(series)), [event, series]);
  const { name } = series;
  const { summary } = event;
  return (
    <div class="event">
      <p class="facts">
        <strong>{placeOf(event)}</strong>
        <span class="quiet">{seconds(event.time)}</span>
        {event.lanes.length > 0 && <span class="quiet">{event.lanes.join("×")} lanes (vmap)</span>}
        {event.active.includes(false) && (
          <span class="quiet">
            {event.active.filter(Boolean).length} of {plural(event.active.length, "lane")} running
          </span>
        )}
        {event.alert && <span class="sick">▲ alert</span>}
      </p>
      {series.events.length > 1 && !grid && event.value === null && summary && summary.count > 1 && (
        <p class="facts quiet">Only the statistics of this event were kept.</p>
      )}
      {event.value !== null && (!grid || grid.data.length === 1) && (
        <p class="scalar">
          <code title={String(event.value)}>{scalar(event.value)}</code>
        </p>
      )}
      {summary && summary.count > 1 && <Statistics event={event} />}
      <div class="pictures">
        {grid && grid.data.length > 1 && <HeatMap grid={grid} label={label(name, 80)} />}
        {summary && summary.count > 1 && summary.histogram.length > 0 && (
          <Histogram counts={summary.histogram} low={summary.min} high={summary.max} />
        )}
      </div>
    </div>
  );
}

function scalar(value: unknown): string {
  if (Array.isArray(value)) return label(value.flat(9).map(scalar).join(", "), 60);
  return typeof value === "number" ? number(value) : label(String(value), 60);
}

function Statistics({ event: { summary } }: { event: TapEvent }) {
  if (!summary) return null;
  const odd: [string, number][] = [
    ["NaN", summary.nan],
    ["+∞", summary.posinf],
    ["−∞", summary.neginf],
    ["zero", summary.zero],
  ];
  const moments: [string, number | null][] = [
    ["min", summary.min],
    ["mean", summary.mean],
    ["max", summary.max],
    ["std", summary.std],
  ];
  return (
    <p class="facts">
      {[...moments, ...odd.filter(([, count]) => count > 0)].map(([name, value]) => (
        <span key={name}>
          <span class="quiet">{name}</span> {number(value)}
        </span>
      ))}
      <span class="quiet">{plural(summary.count, "element")}</span>
    </p>
  );
}
