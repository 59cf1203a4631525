// A running report and the news of its tapped values → the report as it stands now.
import { seriesKey } from "./index/series";
import type { Live, Report, TapEvent, TapSeries } from "./protocol";

/** Events of one series that are drawn while the cell runs; beyond it every second old one goes. */
const MOST_EVENTS = 4_000;

/** The newest events and the first alerts stay, however many have come. */
const NEWEST = 200;
const ALERTS = 200;

export function withNews(report: Report, news: Live): Report {
  const known = new Map(report.taps.map(series => [seriesKey(series), series]));
  for (const series of news.taps) {
    const before = known.get(seriesKey(series));
    known.set(seriesKey(series), joined(before?.events ?? [], series));
  }
  const files = new Set(report.sources.map(source => source.file));
  const sources = [...report.sources, ...news.sources.filter(source => !files.has(source.file))];
  return { ...report, sources, taps: [...known.values()], seconds: { ...report.seconds, total: news.seconds } };
}

function joined(before: readonly TapEvent[], news: TapSeries): TapSeries {
  let events: readonly TapEvent[] = [...before, ...news.events];
  while (events.length > MOST_EVENTS) events = thinned(events);
  return { ...news, events, dropped: news.total - events.length };
}

function thinned(events: readonly TapEvent[]): TapEvent[] {
  let alerts = 0;
  return events.filter((event, at) => {
    if (event.alert) alerts += 1;
    return at % 2 === 0 || at >= events.length - NEWEST || (event.alert && alerts <= ALERTS);
  });
}
