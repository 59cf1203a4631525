// The whole panel: header, tabs, and the tab that is open.
import { useEffect, useMemo, useReducer } from "preact/hooks";
import { linked } from "../index/links";
import type { PlaceGraph } from "../layout/client";
import type { Report, Span } from "../protocol";
import { current, reduce, START, type State, type Tab } from "../selection";
import { label } from "../text";
import { Announced } from "./alerts";
import { Guard } from "./guard";
import { Header, stateWord } from "./header";
import { Output } from "./output";
import { Overview } from "./overview";
import type { Shown } from "./shown";
import { Tabs } from "./tabs";
import { Transfer } from "./transfer";
import { Transform } from "./transform";

interface Props {
  readonly report: Report;
  /** Whether a kernel stands behind it: without one "running" is history. */
  readonly live: boolean;
  readonly place: PlaceGraph;
  readonly start?: Partial<State>;
  /** Told of whatever the person chooses. */
  readonly chosen?: (state: State) => void;
}

export function Panel({ report, live, place, start, chosen }: Props) {
  const [state, act] = useReducer(reduce, { ...START, ...start });
  useEffect(() => chosen?.(state), [state]);
  const on = useMemo(() => current(report, state), [report, state.compiled, state.trace]);
  const lit = useMemo(() => linked(state.focus, on?.trace), [state.focus, on]);
  const where = useMemo(() => spelling(report), [report]);
  const shown: Shown = { report, state, act, current: on, linked: lit, place, where };
  return (
    <section class="panel" aria-label={`${report.mode}, ${stateWord(report, live)}`}>
      <Header report={report} live={live} />
      <Announced report={report} />
      <Tabs tabs={tabsOf(report)} tab={state.tab} choose={tab => act({ type: "tab", tab })}>
        <Guard key={state.tab}>
          <Opened shown={shown} />
        </Guard>
      </Tabs>
    </section>
  );
}

function Opened({ shown }: { shown: Shown }) {
  switch (shown.state.tab) {
    case "transform":
      return <Transform shown={shown} />;
    case "transfer":
      return <Transfer shown={shown} />;
    case "output":
      return <Output shown={shown} />;
    default:
      return <Overview shown={shown} />;
  }
}

function tabsOf(report: Report): readonly { tab: Tab; title: string; count: number }[] {
  const output = report.printed.length + report.results.length + (report.comparison?.differences.length ?? 0);
  const all: { tab: Tab; title: string; count: number }[] = [
    { tab: "overview", title: "Overview", count: 0 },
    { tab: "transform", title: "Transform", count: 0 },
    { tab: "transfer", title: "Transfer", count: report.taps.length },
    { tab: "output", title: "Output", count: output },
  ];
  const empty = (tab: Tab): boolean =>
    (tab === "transfer" && report.taps.length === 0 && report.mode !== "jaxtap") ||
    (tab === "transform" && report.mode === "jaxtap");
  return all.filter(({ tab }) => !empty(tab));
}

function spelling(report: Report): (span: Span) => string {
  const labels = new Map(report.sources.map(source => [source.file, source.label]));
  return span => `${label(labels.get(span.file) ?? nameOf(span.file), 28)}:${span.line}`;
}

/** What to call a file whose text has not come. The kernel's names for cells are numbers that mean nothing. */
function nameOf(file: string): string {
  if (/ipykernel_\d+[/\\]\d+\.py$/.test(file)) return "cell";
  return file.split("/").pop() || file;
}
