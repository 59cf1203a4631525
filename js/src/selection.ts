// What the person looking has chosen. Nothing of it is saved in the notebook, and Python never hears of it.
import type { Focus } from "./index/links";
import { equationsByLine } from "./index/links";
import { programIndex } from "./index/program";
import type { Call, Compiled, Report, Trace } from "./protocol";
import { lineKey } from "./text";

export type Tab = "overview" | "transform" | "transfer" | "output";
export type Stage = "jaxpr" | "stablehlo" | "hlo";
export type Pane = "source" | "graph";

export interface State {
  readonly tab: Tab;
  /** `Compiled.id` of the function shown; null: the first that has a program. */
  readonly compiled: number | null;
  readonly trace: number;
  readonly stage: Stage;
  readonly focus: Focus | null;
  /** Region in the graph; null: wherever the selection is. */
  readonly region: number | null;
  readonly search: string;
  /** Chosen call of each function that ran in several ways, by `callKey`. */
  readonly calls: Readonly<Record<string, number>>;
  readonly closed: readonly Pane[];
  /** Chosen tapped series, by `seriesKey`; null: the first. */
  readonly series: string | null;
  /** Step of the chosen event of it; null: the last, also while more arrive. */
  readonly event: number | null;
}

export type Action =
  | { readonly type: "tab"; readonly tab: Tab }
  | { readonly type: "trace"; readonly compiled: number; readonly trace: number }
  | { readonly type: "program"; readonly compiled: number; readonly trace: number; readonly focus: Focus | null }
  | { readonly type: "stage"; readonly stage: Stage }
  | { readonly type: "focus"; readonly focus: Focus | null }
  /** A link to a line: goes where the source can be seen. */
  | { readonly type: "line"; readonly file: string; readonly line: number }
  | { readonly type: "region"; readonly region: number }
  | { readonly type: "search"; readonly text: string }
  | { readonly type: "call"; readonly key: string; readonly call: number }
  | { readonly type: "pane"; readonly pane: Pane }
  | { readonly type: "series"; readonly series: string; readonly event: number | null };

export type Act = (action: Action) => void;

export const START: State = {
  tab: "overview",
  compiled: null,
  trace: 0,
  stage: "jaxpr",
  focus: null,
  region: null,
  search: "",
  calls: {},
  closed: [],
  series: null,
  event: null,
};

export function reduce(state: State, action: Action): State {
  switch (action.type) {
    case "tab":
      return { ...state, tab: action.tab };
    case "trace":
      // Numbers of equations and variables mean nothing in another program; lines do.
      return { ...state, compiled: action.compiled, trace: action.trace, region: null, focus: lineOnly(state.focus) };
    case "program":
      return {
        ...state,
        tab: "transform",
        compiled: action.compiled,
        trace: action.trace,
        region: null,
        focus: action.focus,
      };
    case "stage":
      return { ...state, stage: action.stage };
    case "focus":
      return { ...state, focus: action.focus, region: null };
    case "line":
      return toLine(state, { kind: "line", file: action.file, line: action.line });
    case "region":
      return { ...state, region: action.region };
    case "search":
      return { ...state, search: action.text };
    case "call":
      return { ...state, calls: { ...state.calls, [action.key]: action.call } };
    case "pane":
      return { ...state, closed: toggled(state.closed, action.pane) };
    case "series":
      return { ...state, tab: "transfer", series: action.series, event: action.event };
  }
}

function toLine(state: State, focus: Focus): State {
  const tab = state.tab === "transform" ? "transform" : "overview";
  return { ...state, tab, focus, region: null, closed: state.closed.filter(pane => pane !== "source") };
}

function lineOnly(focus: Focus | null): Focus | null {
  return focus?.kind === "line" ? focus : null;
}

function toggled(closed: readonly Pane[], pane: Pane): readonly Pane[] {
  return closed.includes(pane) ? closed.filter(each => each !== pane) : [...closed, pane];
}

export interface Current {
  readonly compiled: Compiled;
  readonly trace: Trace;
  readonly at: number;
}

/** The function and trace on show; a user's function with a program where none was chosen. */
export function current(report: Report, state: State): Current | undefined {
  const compiled = report.compiled.find(each => each.id === state.compiled) ?? firstShown(report);
  const at = Math.min(state.trace, (compiled?.traces.length ?? 0) - 1);
  const trace = compiled?.traces[at];
  return compiled && trace ? { compiled, trace, at } : undefined;
}

function firstShown(report: Report): Compiled | undefined {
  const traced = report.compiled.filter(each => each.traces.some(hasProgram));
  return traced.find(each => !each.library) ?? traced[0];
}

export function hasProgram(trace: Trace): boolean {
  return trace.program !== null || trace.stablehlo !== null || trace.hlo !== null;
}

/** Traces that did something on a line, with how many equations. */
export function tracesOnLine(report: Report, file: string, line: number): (Current & { readonly equations: number })[] {
  return report.compiled.flatMap(compiled =>
    compiled.traces.flatMap((trace, at) => {
      if (!trace.program) return [];
      const equations = equationsByLine(programIndex(trace.program)).get(lineKey(file, line))?.length ?? 0;
      return equations ? [{ compiled, trace, at, equations }] : [];
    }),
  );
}

/** One function in the source: its calls differ in avals and transformations. */
export function callKey(call: Call): string {
  return `${call.function}\0${lineKey(call.span.file, call.span.line)}\0${call.span.column}`;
}

/** Whether it is a cell or a module itself. IPython runs a cell in pieces, and each piece is a call. */
export function isModule(call: Call): boolean {
  return call.function === "<module>";
}

/** The chosen call of every function: while none was chosen, its first traced one. All pieces of a cell. */
export function chosenCalls(report: Report, state: State): ReadonlySet<number> {
  const chosen = new Map<string, Call>();
  for (const call of report.calls.filter(each => !isModule(each))) {
    const key = callKey(call);
    const before = chosen.get(key);
    if (!before || state.calls[key] === call.id) chosen.set(key, call);
    else if (state.calls[key] === undefined && call.traced && !before.traced) chosen.set(key, call);
  }
  return new Set([...report.calls.filter(isModule), ...chosen.values()].map(call => call.id));
}
