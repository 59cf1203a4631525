// The graph of one region: its equations as nodes, its values as edges.
import { type NamedProgram, operandLabel } from "../index/program";
import type { Variable } from "../protocol";
import { aval, clip } from "../text";

export interface Node {
  readonly id: string;
  readonly kind: "input" | "equation" | "output";
  /** Flat number of the equation, -1 for inputs and outputs. */
  readonly at: number;
  readonly variable: number | null;
  readonly title: string;
  readonly subtitle: string;
  /** Regions that can be opened from here. */
  readonly regions: readonly number[];
  readonly width: number;
  readonly height: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly variable: number;
}

export interface Graph {
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  /** Equations of the region that are not in it. */
  readonly left: number;
}

/** Above this a layered layout takes longer than anyone waits, and shows nothing a list does not. */
export const MOST_NODES = 48;

/** Equations around the selection that are drawn of a larger region. */
const AROUND = 32;

/** The graph of a region; of a large one, the part around equation `near`. */
export function graphOf(index: NamedProgram, region: number, near: number | null): Graph {
  const own = index.places[region]?.equations ?? [];
  const kept = own.length <= MOST_NODES ? own : neighbourhood(index, region, near ?? own[0] ?? -1);
  const whole = kept.length === own.length;
  const nodes = [...inputNodes(index, region, kept), ...kept.map(at => equationNode(index, at))];
  const { edges, outputs } = connect(index, region, kept, new Set(nodes.map(node => node.id)));
  return {
    nodes: [...nodes, ...(whole ? outputs : [])],
    edges: whole ? edges : withoutOutputs(edges),
    left: own.length - kept.length,
  };
}

function withoutOutputs(edges: readonly Edge[]): Edge[] {
  return edges.filter(edge => !edge.to.startsWith("o"));
}

/** Equations within reach of one, nearest first, in program order. */
function neighbourhood(index: NamedProgram, region: number, start: number): number[] {
  const here = new Set(index.places[region]?.equations);
  const found = new Set<number>(here.has(start) ? [start] : [...here].slice(0, 1));
  for (const at of found) {
    for (const next of neighbours(index, at)) {
      if (found.size >= AROUND) return [...found].sort((a, b) => a - b);
      if (here.has(next)) found.add(next);
    }
  }
  return [...found].sort((a, b) => a - b);
}

function neighbours(index: NamedProgram, at: number): number[] {
  const equation = index.equations[at];
  const makers = (equation?.ins ?? []).flatMap(operand =>
    typeof operand === "number" ? (index.definedBy.get(operand) ?? []) : [],
  );
  const users = (equation?.outs ?? []).flatMap(out => (index.usedBy.get(out.id) ?? []).slice(0, 8));
  return [...makers, ...users];
}

function inputNodes(index: NamedProgram, region: number, kept: readonly number[]): Node[] {
  const used = new Set(kept.flatMap(at => index.equations[at]?.ins ?? []));
  const place = index.places[region]?.region;
  for (const output of place?.outputs ?? []) used.add(output);
  return [...(place?.constants ?? []), ...(place?.inputs ?? [])]
    .filter(variable => used.has(variable.id))
    .map(variable => variableNode(index, variable));
}

function variableNode(index: NamedProgram, variable: Variable): Node {
  const title = operandLabel(index, variable.id);
  return sized({
    id: `v${variable.id}`,
    kind: "input",
    at: -1,
    variable: variable.id,
    title,
    subtitle: aval(variable.aval),
    regions: [],
  });
}

function equationNode(index: NamedProgram, at: number): Node {
  const equation = index.equations[at];
  const outs = equation?.outs ?? [];
  const first = outs[0] ? aval(outs[0].aval) : "";
  return sized({
    id: `e${at}`,
    kind: "equation",
    at,
    variable: outs[0]?.id ?? null,
    title: equation?.primitive ?? "",
    subtitle: outs.length > 1 ? `${first} +${outs.length - 1}` : first,
    regions: index.inner.get(at) ?? [],
  });
}

function sized(node: Omit<Node, "width" | "height">): Node {
  const title = clip(node.title, 28);
  const subtitle = clip(node.subtitle, 28);
  const wide = Math.max(title.length * 7, subtitle.length * 6.2) + 22;
  return { ...node, title, subtitle, width: Math.max(wide, 52), height: subtitle ? 34 : 22 };
}

function connect(index: NamedProgram, region: number, kept: readonly number[], ids: ReadonlySet<string>) {
  const edges: Edge[] = [];
  const join = (operand: number | string, to: string): void => {
    if (typeof operand !== "number") return;
    const maker = index.definedBy.get(operand);
    const from = maker === undefined ? `v${operand}` : `e${maker}`;
    if (ids.has(from)) edges.push({ from, to, variable: operand });
  };
  for (const at of kept) for (const operand of new Set(index.equations[at]?.ins)) join(operand, `e${at}`);
  const outputs = (index.places[region]?.region.outputs ?? []).map((operand, at) => {
    join(operand, `o${at}`);
    return outputNode(operand, at);
  });
  return { edges, outputs };
}

function outputNode(operand: number | string, at: number): Node {
  return sized({
    id: `o${at}`,
    kind: "output",
    at: -1,
    variable: typeof operand === "number" ? operand : null,
    title: `out ${at}`,
    subtitle: typeof operand === "string" ? operand : "",
    regions: [],
  });
}
