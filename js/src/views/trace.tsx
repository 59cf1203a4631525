// One tracing of one function: why, from what, to what, at what cost.
import type { Argument, Change, Compiled, Cost, Trace } from "../protocol";
import { hasProgram } from "../selection";
import { aval, bytes, count, label, plural, seconds, visible } from "../text";
import { Fold, Name, Prose, Where } from "./parts";
import type { Shown } from "./shown";

interface Props {
  readonly compiled: Compiled;
  readonly trace: Trace;
  readonly at: number;
  readonly shown: Shown;
}

export function TraceView({ compiled, trace, at, shown }: Props) {
  const open = { type: "program", compiled: compiled.id, trace: at, focus: null } as const;
  return (
    <div class="traced">
      <h4>
        {compiled.traces.length > 1 && <span>Trace {at + 1}</span>}
        <span class="reason">
          <Prose text={label(trace.reason.text || trace.reason.kind, 300)} />
        </span>
        <Where span={trace.span} shown={shown} />
        <span class="grow" />
        {hasProgram(trace) && (
          <button type="button" class="small" onClick={() => shown.act(open)}>
            Open program →
          </button>
        )}
      </h4>
      <Changes changes={trace.reason.changes.filter(change => !saysAlready(trace.reason.text, change))} />
      <Facts trace={trace} />
      <Ends trace={trace} open={compiled.traces.length === 1} />
    </div>
  );
}

/** What goes in, comes out and is baked in; folded where several traces say nearly the same. */
function Ends({ trace, open }: { trace: Trace; open: boolean }) {
  const baked = trace.constants.length;
  const title = [
    plural(trace.inputs.length, "input"),
    plural(trace.outputs.length, "output"),
    baked && plural(baked, "constant"),
  ];
  return (
    <Fold title={title.filter(Boolean).join(", ")} open={open}>
      <div class="ends-of">
        <Arguments title="Inputs" all={trace.inputs} />
        <Arguments title="Outputs" all={trace.outputs} />
        {baked > 0 && <Constants trace={trace} />}
      </div>
    </Fold>
  );
}

function saysAlready(text: string, change: Change): boolean {
  return [change.name, change.before, change.after].every(part => text.includes(part));
}

function Changes({ changes }: { changes: readonly Change[] }) {
  if (!changes.length) return null;
  return (
    <ul class="changes">
      {changes.map(change => (
        <li key={`${change.what} ${change.name}`}>
          <span class="quiet">{change.what} of</span> <Name text={change.name} />{" "}
          <code class="aval">{label(change.before, 80)}</code> → <code class="aval">{label(change.after, 80)}</code>
        </li>
      ))}
    </ul>
  );
}

function Facts({ trace }: { trace: Trace }) {
  const facts: [string, string][] = [
    ["calls", `${trace.calls_exact ? "" : "about "}${trace.calls}`],
    ["trace", seconds(trace.trace_s)],
    ["lower", seconds(trace.lower_s)],
    ["compile", seconds(trace.compile_s)],
    ...(trace.run_s ? ([["run", seconds(trace.run_s)]] as [string, string][]) : []),
    ...costFacts(trace.cost),
  ];
  const said = [
    trace.cached ? "traced before this cell; the seconds are those of looking again" : "",
    trace.persistent_cache ? "executable from the persistent compilation cache" : "",
  ].filter(Boolean);
  return (
    <p class="facts">
      {facts.map(([name, value]) => (
        <span key={name}>
          <span class="quiet">{name}</span> {value}
        </span>
      ))}
      {said.map(text => (
        <span key={text} class="quiet">
          {text}
        </span>
      ))}
    </p>
  );
}

function costFacts(cost: Cost | null): [string, string][] {
  const facts: [string, number | null | undefined, (value: number) => string][] = [
    ["FLOPs", cost?.flops, count],
    ["read and written", cost?.bytes_accessed, bytes],
    ["arguments", cost?.argument_bytes, bytes],
    ["outputs", cost?.output_bytes, bytes],
    ["temporaries", cost?.temporary_bytes, bytes],
    ["peak", cost?.peak_bytes, bytes],
  ];
  return facts.flatMap(([name, value, spell]) => (value == null ? [] : [[name, spell(value)] as [string, string]]));
}

/** Long lists of arguments are cut here, and open on demand. */
const MOST = 12;

function Arguments({ title, all }: { title: string; all: readonly Argument[] }) {
  if (!all.length) return null;
  const rest = all.slice(MOST);
  return (
    <div>
      <h5>
        {title} <span class="quiet">{all.length}</span>
      </h5>
      <ArgumentTable title={title} all={all.slice(0, MOST)} />
      {rest.length > 0 && (
        <Fold title={`${rest.length} more`}>
          <ArgumentTable title={title} all={rest} />
        </Fold>
      )}
    </div>
  );
}

function ArgumentTable({ title, all }: { title: string; all: readonly Argument[] }) {
  return (
    <table class="arguments" aria-label={title}>
      <tbody>
        {all.map(each => (
          <tr key={each.name}>
            <th scope="row">
              <Name text={each.name} most={40} />
            </th>
            <td>
              <code class="aval">{each.aval ? aval(each.aval) : `static ${label(each.static, 60)}`}</code>
            </td>
            <td>{each.donated && <span class="tag">donated</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Constants({ trace }: { trace: Trace }) {
  return (
    <div>
      <h5>
        Constants <span class="quiet">baked into the program</span>
      </h5>
      <table class="arguments" aria-label="Constants">
        <tbody>
          {trace.constants.slice(0, 40).map((constant, at) => (
            <tr key={at}>
              <th scope="row">
                <Name text={visible(constant.name) || "–"} most={40} />
              </th>
              <td>
                <code class="aval">{aval(constant.aval)}</code>
              </td>
              <td class="num">{bytes(constant.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
