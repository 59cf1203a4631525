// Values for which the condition of `--alert` held: said aloud as they come, and listed with the way to each.
import { alertsOf, placeOf, seriesKey } from "../index/series";
import type { Report, TapEvent, TapSeries } from "../protocol";
import { label, number, plural } from "../text";
import { Name, Where } from "./parts";
import type { Shown } from "./shown";

/** For those who don't see the list: the first alert of each name. */
export function Announced({ report }: { report: Report }) {
  const said = report.taps.flatMap(series => {
    const [first] = alertsOf(series);
    return first ? [`Alert: ${label(series.name, 40)} ${valueText(first)}, ${placeOf(first)}.`] : [];
  });
  return (
    <p class="unseen" role="status" aria-live="polite">
      {said.slice(0, 5).join(" ")}
    </p>
  );
}

export function Alerts({ shown }: { shown: Shown }) {
  const alarmed = shown.report.taps.filter(series => alertsOf(series).length > 0);
  if (!alarmed.length) return null;
  return (
    <section aria-label="Alerts" class="alerts">
      <ul>
        {alarmed.map(series => (
          <AlertsOf key={seriesKey(series)} series={series} shown={shown} />
        ))}
      </ul>
    </section>
  );
}

function AlertsOf({ series, shown }: { series: TapSeries; shown: Shown }) {
  const alerts = alertsOf(series);
  const open = (event: TapEvent): void => shown.act({ type: "series", series: seriesKey(series), event: event.step });
  return (
    <li>
      <span class="sick">▲ {plural(alerts.length, "alert")}</span> <Name text={series.name} most={40} />
      <Where span={series.span} shown={shown} />
      {ends(alerts).map(event => (
        <button type="button" class="link" key={event.number} onClick={() => open(event)}>
          {placeOf(event)}: {valueText(event)}
        </button>
      ))}
    </li>
  );
}

/** The first is the one to look at, the last says whether it is over. */
function ends(alerts: readonly TapEvent[]): readonly TapEvent[] {
  return alerts.length > 1 ? [...alerts.slice(0, 1), ...alerts.slice(-1)] : alerts;
}

function valueText({ value, summary }: TapEvent): string {
  if (typeof value === "number") return number(value);
  if (value !== null && !Array.isArray(value)) return label(String(value), 20);
  if (!summary) return "";
  const odd = summary.nan + summary.posinf + summary.neginf;
  return odd ? `${odd.toLocaleString("en")} NaN or ∞` : `${number(summary.min)} to ${number(summary.max)}`;
}
