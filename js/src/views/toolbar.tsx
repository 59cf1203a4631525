// Which function, which trace, which stage; search.
import type { Focus } from "../index/links";
import { nextHit } from "../index/search";
import type { Compiled, Trace } from "../protocol";
import { type Current, hasProgram, type Stage } from "../selection";
import { label } from "../text";
import { type Choice, Choices } from "./parts";
import type { Shown } from "./shown";

interface Props {
  readonly shown: Shown;
  readonly trace: Trace;
  readonly hits: readonly number[];
}

export function Toolbar({ shown, trace, hits }: Props) {
  const { state, act } = shown;
  const panes = [
    ["source", "Source"],
    ["graph", "Graph"],
  ] as const;
  return (
    <div class="toolbar">
      <Selectors shown={shown} />
      <Choices
        label="Stage"
        choices={stages(trace)}
        value={state.stage}
        choose={stage => act({ type: "stage", stage })}
      />
      <Search shown={shown} hits={hits} />
      <span class="grow" />
      <span class="choices">
        {panes.map(([pane, title]) => (
          <button
            type="button"
            key={pane}
            aria-pressed={!state.closed.includes(pane)}
            onClick={() => act({ type: "pane", pane })}
          >
            {title}
          </button>
        ))}
      </span>
    </div>
  );
}

function stages(trace: Trace): Choice<Stage>[] {
  const without = "not part of this report";
  return [
    { value: "jaxpr", label: "Jaxpr", ...(trace.program ? {} : { off: without }) },
    { value: "stablehlo", label: "StableHLO", ...(trace.stablehlo ? {} : { off: without }) },
    { value: "hlo", label: "HLO", ...(trace.hlo ? {} : { off: without }) },
  ];
}

function Selectors({ shown }: { shown: Shown }) {
  const { report, act } = shown;
  const current = shown.current as Current;
  const listed = report.compiled.filter(each => each === current.compiled || each.traces.some(hasProgram));
  const groups = [listed.filter(each => !each.library), listed.filter(each => each.library)] as const;
  return (
    <>
      <select
        aria-label="Function"
        value={String(current.compiled.id)}
        onChange={event => act({ type: "trace", compiled: Number(event.currentTarget.value), trace: 0 })}
      >
        <Options compiled={groups[0]} />
        {groups[1].length > 0 && (
          <optgroup label="Of libraries">
            <Options compiled={groups[1]} />
          </optgroup>
        )}
      </select>
      {current.compiled.traces.length > 1 && (
        <select
          aria-label="Trace"
          value={String(current.at)}
          onChange={event =>
            act({ type: "trace", compiled: current.compiled.id, trace: Number(event.currentTarget.value) })
          }
        >
          {current.compiled.traces.map((trace, at) => (
            <option key={at} value={String(at)}>
              {label(`${at + 1}: ${trace.reason.text || trace.reason.kind}`, 70)}
            </option>
          ))}
        </select>
      )}
    </>
  );
}

function Options({ compiled }: { compiled: readonly Compiled[] }) {
  return (
    <>
      {compiled.map(each => (
        <option key={each.id} value={String(each.id)}>
          {label(`${each.name} (${each.kind})`, 50)}
        </option>
      ))}
    </>
  );
}

function Search({ shown, hits }: { shown: Shown; hits: readonly number[] }) {
  const { state, act } = shown;
  const { focus } = state;
  const here = focus?.kind === "equation" ? focus.at : focus?.kind === "instruction" ? focus.line : null;
  const go = (by: 1 | -1): void => {
    const hit = nextHit(hits, here, by);
    if (hit !== null) act({ type: "focus", focus: hitFocus(state.stage, hit) });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") act({ type: "search", text: "" });
  };
  return (
    <span class="search">
      <input
        type="search"
        placeholder="Search"
        aria-label="Search in this program"
        value={state.search}
        onInput={event => act({ type: "search", text: event.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      {state.search && <Hits position={here === null ? 0 : hits.indexOf(here) + 1} count={hits.length} go={go} />}
    </span>
  );
}

function hitFocus(stage: Stage, hit: number): Focus {
  return stage === "jaxpr" ? { kind: "equation", at: hit } : { kind: "instruction", stage, line: hit };
}

function Hits({ position, count, go }: { position: number; count: number; go: (by: 1 | -1) => void }) {
  return (
    <>
      <span role="status">
        {position ? `${position.toLocaleString("en")} of ` : ""}
        {count.toLocaleString("en")}
      </span>
      <button type="button" aria-label="Previous match" onClick={() => go(-1)}>
        ↑
      </button>
      <button type="button" aria-label="Next match" onClick={() => go(1)}>
        ↓
      </button>
    </>
  );
}
