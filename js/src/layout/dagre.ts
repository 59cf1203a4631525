// Layered layout of one graph. Runs in a worker where there is one.
import { Graph as Dagre, layout } from "@dagrejs/dagre";
import type { Graph } from "./graph";
import { orderNodes } from "./order";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Placed {
  readonly width: number;
  readonly height: number;
  /** Centre of each node, in the order of `Graph.nodes`. */
  readonly nodes: readonly Point[];
  /** Way of each edge, in the order of `Graph.edges`. */
  readonly edges: readonly (readonly Point[])[];
}

export function place(graph: Graph): Placed {
  const dagre = new Dagre({ multigraph: true });
  // Tight trees give drawings as compact as dagre's default ranks in little more than half the time.
  dagre.setGraph({ rankdir: "TB", ranker: "tight-tree", nodesep: 14, ranksep: 26, marginx: 12, marginy: 12 });
  for (const { id, width, height } of graph.nodes) dagre.setNode(id, { width, height });
  graph.edges.forEach((edge, at) => {
    dagre.setEdge(edge.from, edge.to, {}, String(at));
  });
  layout(dagre, { customOrder: orderNodes });
  const size = dagre.graph();
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: graph.nodes.map(({ id }) => pointOf(dagre.node(id))),
    edges: graph.edges.map((edge, at) => (dagre.edge(edge.from, edge.to, String(at)).points ?? []).map(pointOf)),
  };
}

function pointOf(at: { x?: number; y?: number }): Point {
  return { x: Math.round((at.x ?? 0) * 10) / 10, y: Math.round((at.y ?? 0) * 10) / 10 };
}
