// One line of source: number, text, hints, and opened when selected.
import { useEffect, useRef } from "preact/hooks";
import { Sparkline } from "../draw/chart";
import type { Segment } from "../draw/segments";
import { bySeverity } from "../findings";
import { isSick, seriesKey, statistic } from "../index/series";
import type { Expression } from "../index/spans";
import type { Over } from "../index/values";
import type { Finding, Hint, TapSeries } from "../protocol";
import { number as digits, label, leaves, lineKey, plural, visible } from "../text";
import { Sign } from "./parts";
import { Peek } from "./peek";
import type { Shown } from "./shown";
import type { FileProps } from "./source";
import { ValueView } from "./values";
import { Variants } from "./variants";

interface Props extends Omit<FileProps, "hints" | "values" | "findings" | "expressions"> {
  readonly number: number;
  readonly values: readonly Over[];
  readonly hints: readonly Hint[];
  readonly findings: readonly Finding[];
  readonly expressions: readonly Expression[];
  readonly pieces: readonly Segment[];
}

export function LineView(props: Props) {
  const { shown, source, number, findings } = props;
  const { focus } = shown.state;
  const selected = focus?.kind === "line" && focus.file === source.file && focus.line === number;
  const lit = shown.linked.lines.has(lineKey(source.file, number));
  const stopped = shown.report.state === "interrupted" ? " stopped" : "";
  const failed = shown.report.failure?.span?.file === source.file && shown.report.failure.span.line === number;
  const row = useInView(lit, selected && props.peek);
  const choose = (): void =>
    shown.act({ type: "focus", focus: selected ? null : { kind: "line", file: source.file, line: number } });
  return (
    <>
      <div
        ref={row}
        class={`line${selected ? " selected" : ""}${lit ? " lit" : ""}${failed ? ` failed${stopped}` : ""}`}
      >
        <Gutter {...{ number, failed, findings, selected, choose }} stopped={stopped !== ""} />
        <Text pieces={props.pieces} number={number} choose={choose} />
        <Ends {...props} />
      </div>
      {selected && props.peek && <Peek {...props} />}
    </>
  );
}

/** Brings a line into sight when it lights up: in its pane, and where a link led to it, on the page. */
function useInView(lit: boolean, onPage: boolean) {
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (lit) scrollIntoPane(row.current);
    if (onPage) row.current?.scrollIntoView({ block: "nearest" });
  }, [lit]);
  return row;
}

function Text({ pieces, number, choose }: { pieces: readonly Segment[]; number: number; choose: () => void }) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the number beside it is the button, this its larger target
    <code class="text" onClick={choose}>
      {pieces.map(piece => (
        <span key={piece.start} class={piece.styles} data-line={number} data-at={piece.start}>
          {visible(piece.text)}
        </span>
      ))}
    </code>
  );
}

function Gutter(props: {
  number: number;
  failed: boolean;
  stopped: boolean;
  findings: readonly Finding[];
  selected: boolean;
  choose: () => void;
}) {
  const [first] = bySeverity(props.findings);
  const title = props.findings.map(each => label(each.title, 200)).join("\n");
  return (
    <button
      type="button"
      class="number"
      aria-pressed={props.selected}
      title={title || undefined}
      onClick={props.choose}
    >
      {props.failed ? (
        <Sign severity={props.stopped ? "stopped" : "error"} word={false} />
      ) : (
        first && <Sign severity={first.severity} word={false} />
      )}
      <span class="unseen">line </span>
      {props.number}
    </button>
  );
}

/** Values of more variables than this are left for the opened line. */
const MOST_VALUES = 6;

function Ends({ shown, peek, source, number, hints, values, calls, chosen }: Props) {
  // Beside the program there is no room, and the program says the same.
  if (!peek) return null;
  const groups = calls.get(lineKey(source.file, number)) ?? [];
  const taps = shown.report.taps.filter(series => isOn(series, source.file, number));
  if (!groups.length && !hints.length && !taps.length && !values.length) return null;
  return (
    <span class="ends">
      {merge(hints).map(each => (
        <HintView key={`${each.role} ${each.name} ${each.ways[0]?.call}`} {...each} />
      ))}
      {values.slice(0, MOST_VALUES).map(each => (
        <ValueView key={each.name} variable={each} />
      ))}
      {values.length > MOST_VALUES && <span class="quiet">… {values.length - MOST_VALUES} more</span>}
      {taps.map(series => (
        <Tapped key={seriesKey(series)} series={series} shown={shown} />
      ))}
      {groups.map(group => (
        <Variants key={group[0]?.id} {...{ group, chosen, shown }} />
      ))}
    </span>
  );
}

function isOn({ span }: TapSeries, file: string, line: number): boolean {
  return span?.file === file && span.line === line;
}

/** A tapped series on its line: how it went, and the way to all of it. */
function Tapped({ series, shown }: { series: TapSeries; shown: Shown }) {
  const open = (): void => shown.act({ type: "series", series: seriesKey(series), event: null });
  const means = series.events.map(event => statistic(event, "mean"));
  return (
    <button
      type="button"
      class="tapped"
      title={`${label(series.name, 80)}: ${plural(series.total, "value")}; the curve and the number are of their means`}
      onClick={open}
    >
      <span class="unseen">values of</span>
      <bdi>
        {series.gradient && "∂"}
        {label(series.name, 32)}
      </bdi>
      <Sparkline values={means} width={72} />
      {digits(means[means.length - 1] ?? null)}
      {series.events.some(isSick) && <span class="sick">▲ NaN or ∞</span>}
    </button>
  );
}

interface Merged {
  readonly name: string;
  readonly role: Hint["role"];
  readonly ways: readonly Hint[];
}

/** A variable that a loop gave several shapes on the same line is one hint. */
function merge(hints: readonly Hint[]): Merged[] {
  const found = new Map<string, Merged & { ways: Hint[] }>();
  for (const hint of hints) {
    const key = `${hint.call} ${hint.role} ${hint.name}`;
    const known = found.get(key);
    if (known) known.ways.push(hint);
    else found.set(key, { name: hint.name, role: hint.role, ways: [hint] });
  }
  return [...found.values()];
}

function HintView({ name, role, ways }: Merged) {
  const text = ways.slice(0, 3).map(hint => leaves(hint, 2));
  if (ways.length > 3) text.push(`… ${ways.length - 3} more`);
  const title = ways.slice(0, 20).map(hint => `${leaves(hint, 40)}${hint.times > 1 ? `  ×${hint.times}` : ""}`);
  return (
    <span class={`hint ${role}`} title={label(title.join("  |  "), 1500)}>
      {role === "returned" ? (
        <span class="arrow">
          <span aria-hidden="true">→</span>
          <span class="unseen">returns</span>
        </span>
      ) : (
        <bdi class="of">{label(name, 32)}</bdi>
      )}{" "}
      <bdi class="aval">{label(text.join(" → "), 120)}</bdi>
    </span>
  );
}

/** Scrolls only the pane the line is in: selecting in the list must not move the page. */
function scrollIntoPane(row: HTMLElement | null): void {
  const pane = row?.closest<HTMLElement>(".scrolls");
  if (!row || !pane) return;
  const at = row.getBoundingClientRect();
  const view = pane.getBoundingClientRect();
  if (at.top < view.top || at.bottom > view.bottom) pane.scrollTop += at.top - view.top - view.height / 3;
}
