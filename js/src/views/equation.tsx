// The text of one row of the list.
import { type NamedProgram, operandLabel } from "../index/program";
import type { Region, Variable } from "../protocol";
import { aval, label } from "../text";
import type { Shown } from "./shown";

interface Props {
  readonly index: NamedProgram;
  readonly shown: Shown;
}

/** More names than this are counted instead: no row is wide enough for them. */
const MOST = 8;

export function EquationRow({ index, at, shown }: Props & { at: number }) {
  const equation = index.equations[at];
  if (!equation) return null;
  const frame = index.program.frames[equation.frame];
  return (
    <>
      <Defined outs={equation.outs} index={index} shown={shown} />
      <span class="equals">=</span>
      <span class="primitive">{label(equation.primitive, 60)}</span>
      {equation.ins.slice(0, MOST).map((operand, position) => (
        <Operand key={position} operand={operand} index={index} shown={shown} />
      ))}
      {equation.ins.length > MOST && <span class="quiet">… {equation.ins.length - MOST} more</span>}
      {equation.params && <span class="params">{label(equation.params, 160)}</span>}
      <span class="grow" />
      {frame && <span class="at">:{frame.span.line}</span>}
    </>
  );
}

function Defined({ outs, index, shown }: Props & { outs: readonly Variable[] }) {
  return (
    <>
      {outs.slice(0, 3).map(out => (
        <span key={out.id} class="defined">
          <Operand operand={out.id} index={index} shown={shown} />
          <span class="aval">{label(aval(out.aval), 48)}</span>
        </span>
      ))}
      {outs.length > 3 && <span class="quiet">… {outs.length - 3} more</span>}
      {outs.length === 0 && <span class="quiet">()</span>}
    </>
  );
}

export function Operand({ operand, index, shown }: Props & { operand: number | string }) {
  if (typeof operand === "string") return <Literal text={operand} />;
  const text = label(operandLabel(index, operand), 40);
  const lit = shown.linked.variables.has(operand);
  const choose = (event: MouseEvent): void => {
    event.stopPropagation();
    shown.act({ type: "focus", focus: { kind: "variable", id: operand } });
  };
  return (
    // The inspector has the same as real buttons; forty tab stops a page would help nobody.
    <button type="button" tabIndex={-1} class={`variable${lit ? " lit" : ""}`} onClick={choose}>
      <bdi>{text}</bdi>
    </button>
  );
}

/** `0.0:f32[]` reads `0.0`: the type of a literal is rarely what is looked for. */
function Literal({ text }: { text: string }) {
  return (
    <span class="literal" title={label(text, 200)}>
      {label(text.replace(/:[a-z]+\d*\w*\[[^\]]*\]\*?$/, ""), 40)}
    </span>
  );
}

export function RegionRow(props: Props & { region: number; open: boolean; toggle: () => void }) {
  const { index, region, open, shown } = props;
  const place = index.places[region];
  if (!place) return null;
  const toggle = (event: MouseEvent): void => {
    event.stopPropagation();
    props.toggle();
  };
  return (
    <>
      <button type="button" tabIndex={-1} class="caret" aria-hidden="true" onClick={toggle}>
        {open ? "▾" : "▸"}
      </button>
      <span class="kind">{label(place.region.kind, 40)}</span>
      {place.region.name && <bdi class="of">{label(place.region.name, 40)}</bdi>}
      <span class="quiet">{plural(place.region)}</span>
      <Inputs region={place.region} index={index} shown={shown} />
    </>
  );
}

function plural(region: Region): string {
  const count = region.equations.length + region.hidden;
  return `${count.toLocaleString("en")} eqn${count === 1 ? "" : "s"}`;
}

function Inputs({ region, index, shown }: Props & { region: Region }) {
  const all = [...region.constants, ...region.inputs];
  return (
    <>
      {all.slice(0, MOST).map(input => (
        <span key={input.id} class="defined">
          <Operand operand={input.id} index={index} shown={shown} />
          <span class="aval">{label(aval(input.aval), 40)}</span>
        </span>
      ))}
      {all.length > MOST && <span class="quiet">… {all.length - MOST} more</span>}
    </>
  );
}

export function ReturnRow({ index, region, shown }: Props & { region: number }) {
  const outputs = index.places[region]?.region.outputs ?? [];
  return (
    <>
      <span class="returns">return</span>
      {outputs.slice(0, MOST).map((operand, position) => (
        <Operand key={position} operand={operand} index={index} shown={shown} />
      ))}
      {outputs.length > MOST && <span class="quiet">… {outputs.length - MOST} more</span>}
    </>
  );
}
