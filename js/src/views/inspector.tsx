// Everything about the one thing that is selected, with real buttons to whatever it is connected to.
import type { ComponentChildren } from "preact";
import { chain, type Focus } from "../index/links";
import type { NamedProgram } from "../index/program";
import type { Listing, Trace, Variable } from "../protocol";
import { aval, label, plural, visible } from "../text";
import { Operand } from "./equation";
import { Empty, Name, Where } from "./parts";
import type { Shown } from "./shown";

interface Props {
  readonly index: NamedProgram | null;
  readonly trace: Trace;
  readonly shown: Shown;
}

export function Inspector({ index, trace, shown }: Props) {
  const { focus } = shown.state;
  return (
    <section class="inspector scrolls" aria-label="Selection">
      {focus ? (
        <>
          {index && (focus.kind === "equation" || focus.kind === "variable") && (
            <OfProgram {...{ index, focus, shown }} />
          )}
          {focus.kind === "instruction" && <OfListing {...{ focus, trace, shown }} />}
          {focus.kind === "line" && <OfLine {...{ focus, shown }} />}
          <Kernels trace={trace} shown={shown} />
        </>
      ) : (
        <Empty>Select a line, an equation, a variable or a kernel: what belongs to it lights up everywhere.</Empty>
      )}
    </section>
  );
}

type Of<K extends Focus["kind"]> = Extract<Focus, { kind: K }>;

interface ProgramProps {
  readonly index: NamedProgram;
  readonly focus: Of<"equation"> | Of<"variable">;
  readonly shown: Shown;
}

function OfProgram({ index, focus, shown }: ProgramProps) {
  const at = focus.kind === "equation" ? focus.at : index.definedBy.get(focus.id);
  if (at === undefined) return <OfInput id={(focus as Of<"variable">).id} index={index} shown={shown} />;
  const equation = index.equations[at];
  if (!equation) return null;
  const ins = [...new Set(equation.ins)];
  return (
    <>
      <h4>
        <span class="primitive">{label(equation.primitive, 80)}</span>
      </h4>
      <Facts>
        {equation.outs.slice(0, 12).map(out => (
          <Values key={out.id} what="makes" variable={out} index={index} shown={shown} />
        ))}
        {ins.slice(0, 24).map(operand =>
          typeof operand === "number" ? (
            <Values key={operand} what="from" variable={index.variables.get(operand)} index={index} shown={shown} />
          ) : (
            <Fact key={`literal ${operand}`} what="from">
              <span class="literal">{label(operand, 80)}</span>
            </Fact>
          ),
        )}
        {equation.params && (
          <Fact what="with">{<code class="params">{visible(equation.params.slice(0, 4000))}</code>}</Fact>
        )}
        {equation.name_stack && <Fact what="scope">{<code>{label(equation.name_stack, 300)}</code>}</Fact>}
        <Stack index={index} frame={equation.frame} shown={shown} />
      </Facts>
    </>
  );
}

function OfInput({ id, index, shown }: { id: number; index: NamedProgram; shown: Shown }) {
  const place = index.places[index.inputOf.get(id) ?? -1]?.region;
  return (
    <>
      <h4>
        Input <span class="quiet">of {label(place ? `${place.kind} ${place.name}` : "", 80)}</span>
      </h4>
      <Facts>
        <Values what="is" variable={index.variables.get(id)} index={index} shown={shown} />
      </Facts>
    </>
  );
}

function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

function Fact({ what, children }: { what: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{what}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A variable and the equations that use it. */
function Values(props: { what: string; variable: Variable | undefined; index: NamedProgram; shown: Shown }) {
  const { variable, index, shown } = props;
  if (!variable) return null;
  const uses = index.usedBy.get(variable.id) ?? [];
  const maker = index.definedBy.get(variable.id);
  return (
    <Fact what={props.what}>
      <Operand operand={variable.id} index={index} shown={shown} /> <code class="aval">{aval(variable.aval)}</code>
      {props.what === "from" && maker !== undefined && <To at={maker} index={index} shown={shown} before="← " />}
      {props.what !== "from" &&
        uses.slice(0, 8).map(at => <To key={at} at={at} index={index} shown={shown} before="→ " />)}
      {props.what !== "from" && uses.length > 8 && <span class="quiet"> … {uses.length - 8} more</span>}
      {index.outputOf.has(variable.id) && <span class="tag">returned</span>}
    </Fact>
  );
}

function To({ at, index, shown, before }: { at: number; index: NamedProgram; shown: Shown; before: string }) {
  return (
    <button type="button" class="link" onClick={() => shown.act({ type: "focus", focus: { kind: "equation", at } })}>
      <span aria-hidden="true">{before}</span>
      {label(index.equations[at]?.primitive ?? "", 32)}
    </button>
  );
}

function Stack({ index, frame, shown }: { index: NamedProgram; frame: number; shown: Shown }) {
  const frames = chain(index.program.frames, frame);
  if (!frames.length) return null;
  return (
    <Fact what="at">
      {frames.slice(0, 12).map((each, at) => (
        <div key={at}>
          <Where span={each.span} shown={shown} /> <Name text={each.function} most={48} />
        </div>
      ))}
    </Fact>
  );
}

function OfListing({ focus, trace, shown }: { focus: Of<"instruction">; trace: Trace; shown: Shown }) {
  const listing = trace[focus.stage];
  const found = listing?.instructions.find(each => each.line === focus.line);
  if (!listing || !found) return null;
  return (
    <>
      <h4>
        <span class="primitive">{label(found.opcode, 60)}</span> <Name text={found.name} />
        {found.fused > 0 && <span class="tag">fuses {plural(found.fused, "operation")}</span>}
      </h4>
      <Facts>
        <Fact what="from">
          {found.frames.length ? (
            found.frames.slice(0, 24).map(at => {
              const frame = listing.frames[at];
              return (
                frame && (
                  <div key={at}>
                    <Where span={frame.span} shown={shown} /> <Name text={frame.function} most={48} />
                  </div>
                )
              );
            })
          ) : (
            <span class="quiet">no source line: XLA made it</span>
          )}
        </Fact>
        {found.frames.length > 0 && (
          <Fact what="equations">{plural(shown.linked.equations.size, "equation")} of the jaxpr</Fact>
        )}
      </Facts>
    </>
  );
}

function OfLine({ focus, shown }: { focus: Of<"line">; shown: Shown }) {
  const span = { ...focus, column: 0, end_line: focus.line, end_column: 0 };
  return (
    <>
      <h4>
        <Where span={span} shown={shown} />
      </h4>
      <Facts>
        <Fact what="equations">{plural(shown.linked.equations.size, "equation")} of this program</Fact>
      </Facts>
    </>
  );
}

const STAGES = ["stablehlo", "hlo"] as const;

/** Operations further down that belong to the selection. */
function Kernels({ trace, shown }: { trace: Trace; shown: Shown }) {
  const { focus } = shown.state;
  return (
    <dl class="facts">
      {STAGES.filter(stage => !(focus?.kind === "instruction" && focus.stage === stage)).map(stage => {
        const found = instructionsOf(trace[stage], shown.linked.instructions[stage]);
        if (!found.length) return null;
        return (
          <Fact key={stage} what={stage === "hlo" ? "HLO" : "StableHLO"}>
            {found.slice(0, 8).map(each => (
              <button
                type="button"
                class="link"
                key={each.line}
                onClick={() => {
                  shown.act({ type: "stage", stage });
                  shown.act({ type: "focus", focus: { kind: "instruction", stage, line: each.line } });
                }}
              >
                {label(each.name || each.opcode, 40)}
                {each.fused > 0 && <span class="quiet"> fuses {each.fused}</span>}
              </button>
            ))}
            {found.length > 8 && <span class="quiet">… {found.length - 8} more</span>}
          </Fact>
        );
      })}
    </dl>
  );
}

function instructionsOf(listing: Listing | null, lines: ReadonlySet<number>) {
  return listing && lines.size ? listing.instructions.filter(each => lines.has(each.line)) : [];
}
