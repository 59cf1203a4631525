// A running report and the news of its tapped values → the report as it stands now.
import type { Live, Report, TapEvent, TapSeries } from "./protocol";

/** Events of one series that are drawn while the cell runs; beyond it every second old one goes. */
const MOST_EVENTS = 4_000;

export function withNews(report: Report, news: Live): Report {
  const known = new Map(report.taps.map(series => [key(series), series]));
  for (const series of news.taps) {
    const before = known.get(key(series));
    known.set(key(series), before ? joined(before, series) : series);
  }
  const files = new Set(report.sources.map(source => source.file));
  const sources = [...report.sources, ...news.sources.filter(source => !files.has(source.file))];
  return { ...report, sources, taps: [...known.values()], seconds: { ...report.seconds, total: news.seconds } };
}

function joined(before: TapSeries, news: TapSeries): TapSeries {
  let events: readonly TapEvent[] = [...before.events, ...news.events];
  while (events.length > MOST_EVENTS) events = events.filter((_, at) => at % 2 === 0 || at >= events.length - 200);
  return { ...news, events, dropped: news.total - events.length };
}

function key({ name, function: owner, gradient, span }: TapSeries): string {
  return [owner, name, gradient, span?.file, span?.line, span?.column].join("\u0000");
}
