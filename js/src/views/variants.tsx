// A function that ran with different shapes or under different transformations: one of them is shown, this chooses.
import type { Call, Report } from "../protocol";
import { callKey, isModule } from "../selection";
import { label, lineKey } from "../text";
import type { Shown } from "./shown";

/** Calls by the line of their `def`, one list a function. */
export function callsByLine(report: Report): ReadonlyMap<string, readonly (readonly Call[])[]> {
  const groups = new Map<string, Call[]>();
  for (const call of report.calls.filter(each => !isModule(each)))
    groups.set(callKey(call), [...(groups.get(callKey(call)) ?? []), call]);
  const lines = new Map<string, Call[][]>();
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const key = lineKey(first.span.file, first.span.line);
    lines.set(key, [...(lines.get(key) ?? []), group]);
  }
  return lines;
}

export function Variants({
  group,
  chosen,
  shown,
}: {
  group: readonly Call[];
  chosen: ReadonlySet<number>;
  shown: Shown;
}) {
  const at = group.findIndex(call => chosen.has(call.id));
  const call = group[at];
  if (!call) return null;
  const step = (by: number): void => {
    const next = group[(at + by + group.length) % group.length] as Call;
    shown.act({ type: "call", key: callKey(next), call: next.id });
  };
  return (
    <span class="variants">
      {group.length > 1 && (
        <>
          <button type="button" aria-label={`previous call of ${label(call.function, 60)}`} onClick={() => step(-1)}>
            ‹
          </button>
          <span aria-live="polite" title={`${label(call.function, 200)} ran in ${group.length} ways`}>
            {at + 1}/{group.length}
          </span>
          <button type="button" aria-label={`next call of ${label(call.function, 60)}`} onClick={() => step(1)}>
            ›
          </button>
        </>
      )}
      <How call={call} />
    </span>
  );
}

function How({ call }: { call: Call }) {
  const under = call.transforms.map(each => label(each, 40)).join(" ‹ ");
  const times = call.times > 1 ? `×${call.times.toLocaleString("en")}` : "";
  return (
    <span class="how" title={under ? `innermost first: ${under}` : undefined}>
      {[under || (call.traced ? "traced" : "ran as Python"), times].filter(Boolean).join(" ")}
    </span>
  );
}
