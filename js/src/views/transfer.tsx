// The third tab: every tapped series, and one of them in full.
import { useState } from "preact/hooks";
import { Sparkline } from "../draw/chart";
import { isSick, seriesKey, statistic } from "../index/series";
import type { TapSeries } from "../protocol";
import { aval, bytes, label, plural, seconds } from "../text";
import { Alerts } from "./alerts";
import { Empty, Name, Where } from "./parts";
import { SeriesView } from "./series";
import type { Shown } from "./shown";

export function Transfer({ shown }: { shown: Shown }) {
  const [filter, setFilter] = useState("");
  // Held still, the series are those of the moment; the header goes on counting.
  const [held, setHeld] = useState<readonly TapSeries[] | null>(null);
  const taps = held ?? shown.report.taps;
  const chosen = taps.find(series => seriesKey(series) === shown.state.series) ?? taps[0];
  if (!chosen) return <Empty>{nothing(shown)}</Empty>;
  return (
    <div class="transfer">
      <Alerts shown={shown} />
      <div class="toolbar">
        <input
          type="search"
          placeholder="Filter names"
          aria-label="Filter names"
          value={filter}
          onInput={event => setFilter(event.currentTarget.value)}
        />
        <span class="quiet">{cost(taps, shown.report.state === "running")}</span>
        <span class="grow" />
        {shown.report.state === "running" && (
          <button type="button" class="small" aria-pressed={held !== null} onClick={() => setHeld(held ? null : taps)}>
            {held ? "Follow again" : "Hold the view"}
          </button>
        )}
      </div>
      <div class="halves">
        <section aria-label="Series" class="scrolls">
          <SeriesTable taps={taps} filter={filter} chosen={chosen} shown={shown} />
        </section>
        <SeriesView key={`${chosen.name} ${chosen.function} ${chosen.gradient}`} series={chosen} shown={shown} />
      </div>
    </div>
  );
}

function nothing({ report }: Shown): string {
  return report.state === "running" ? "No value has come ashore yet…" : "No value came ashore.";
}

interface TableProps {
  readonly taps: readonly TapSeries[];
  readonly filter: string;
  readonly chosen: TapSeries;
  readonly shown: Shown;
}

function SeriesTable({ taps, filter, chosen, shown }: TableProps) {
  const listed = taps.filter(series => matches(series, filter));
  if (!listed.length) return <Empty>No name contains “{label(filter, 40)}”.</Empty>;
  return (
    <table class="series">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Value</th>
          <th scope="col" class="num">
            Events
          </th>
          <th scope="col">Mean</th>
        </tr>
      </thead>
      <tbody>
        {listed.map(series => (
          <Row key={seriesKey(series)} series={series} chosen={series === chosen} shown={shown} />
        ))}
      </tbody>
    </table>
  );
}

function matches(series: TapSeries, filter: string): boolean {
  return `${series.function} ${series.name}`.toLowerCase().includes(filter.trim().toLowerCase());
}

function cost(taps: readonly TapSeries[], running: boolean): string {
  const sum = (of: (series: TapSeries) => number): number => taps.reduce((total, series) => total + of(series), 0);
  const [total, copied, spent, dropped] = (["total", "bytes", "host_s", "dropped"] as const).map(field =>
    sum(series => series[field]),
  ) as [number, number, number, number];
  return [
    plural(total, "event"),
    copied && `${bytes(copied)} to the host`,
    // Known only when the cell has ended.
    spent && `${seconds(spent)} on the host${total ? ` (${seconds(spent / total)} an event)` : ""}`,
    dropped && `${dropped.toLocaleString("en")} ${running ? "not drawn" : "dropped"}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function Row({ series, chosen, shown }: { series: TapSeries; chosen: boolean; shown: Shown }) {
  const sick = series.events.filter(isSick).length;
  return (
    <tr class={chosen ? "chosen" : ""}>
      <th scope="row">
        <button
          type="button"
          class="opener"
          aria-pressed={chosen}
          onClick={() => shown.act({ type: "series", series: seriesKey(series), event: null })}
        >
          {series.gradient && (
            <>
              <span aria-hidden="true">∂</span>
              <span class="unseen">gradient of </span>
            </>
          )}
          <Name text={series.name} most={40} />
        </button>{" "}
        <Where span={series.span} shown={shown} />
      </th>
      <td>
        <code class="aval">{label(aval(series.aval), 40)}</code>
      </td>
      <td class="num">{series.total.toLocaleString("en")}</td>
      <td>
        <Sparkline values={series.events.map(event => statistic(event, "mean"))} />
        {sick > 0 && <span class="sick">▲ {plural(sick, "event")} with NaN or ∞</span>}
      </td>
    </tr>
  );
}
