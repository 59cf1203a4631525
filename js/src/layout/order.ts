// The order of nodes within their ranks, so that few edges cross. Dagre's own builds a graph object for every rank and
// sweep, and takes longer than the rest of the layout together.
import type { Graph as Dagre } from "@dagrejs/dagre";

/** Sweeps down and up; later ones hardly ever help. */
const SWEEPS = 6;

interface Layers {
  /** Nodes of each rank, from left to right. */
  readonly ranks: number[][];
  readonly above: readonly number[][];
  readonly below: readonly number[][];
  /** Place of each node in its rank. */
  readonly place: number[];
}

/** Sets `order` on every ranked node. */
export function orderNodes(graph: Dagre): void {
  const ids = graph.nodes().filter(id => graph.node(id).rank !== undefined);
  const layers = layersOf(graph, ids);
  let best = [...layers.place];
  let fewest = Number.POSITIVE_INFINITY;
  for (let sweep = 0; sweep <= SWEEPS && fewest > 0; sweep++) {
    const crossings = layers.ranks.reduce((sum, rank) => sum + crossingsBelow(layers, rank), 0);
    if (crossings < fewest) {
      fewest = crossings;
      best = [...layers.place];
    }
    sweepOnce(layers, sweep % 2 === 0);
  }
  ids.forEach((id, at) => {
    graph.node(id).order = best[at] as number;
  });
}

function layersOf(graph: Dagre, ids: readonly string[]): Layers {
  const numbers = new Map(ids.map((id, at) => [id, at]));
  const above: number[][] = ids.map(() => []);
  const below: number[][] = ids.map(() => []);
  for (const { v, w } of graph.edges()) {
    const [from, to] = [numbers.get(v), numbers.get(w)];
    if (from === undefined || to === undefined) continue;
    below[from]?.push(to);
    above[to]?.push(from);
  }
  const rankOf = ids.map(id => graph.node(id).rank as number);
  const ranks: number[][] = Array.from({ length: 1 + Math.max(-1, ...rankOf) }, () => []);
  const place = ids.map(() => 0);
  for (const node of depthFirst(rankOf, below)) {
    place[node] = (ranks[rankOf[node] as number] as number[]).push(node) - 1;
  }
  return { ranks, above, below, place };
}

/** From the top down along the edges: what belongs together begins side by side. */
function depthFirst(rankOf: readonly number[], below: readonly number[][]): number[] {
  const found = new Set<number>();
  const waiting = rankOf.map((_, node) => node).sort((a, b) => (rankOf[b] as number) - (rankOf[a] as number));
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (found.has(node)) continue;
    found.add(node);
    for (const next of [...(below[node] as number[])].reverse()) waiting.push(next);
  }
  return [...found];
}

/** Moves each node to the middle of its neighbours in the rank before (or after) it. */
function sweepOnce({ ranks, above, below, place }: Layers, down: boolean): void {
  for (const rank of down ? ranks : [...ranks].reverse()) {
    const wish = new Map(rank.map(node => [node, middle((down ? above : below)[node] as number[], place, node)]));
    rank.sort((a, b) => (wish.get(a) as number) - (wish.get(b) as number));
    rank.forEach((node, at) => {
      place[node] = at;
    });
  }
}

function middle(neighbours: readonly number[], place: readonly number[], node: number): number {
  if (!neighbours.length) return place[node] as number;
  return neighbours.reduce((sum, each) => sum + (place[each] as number), 0) / neighbours.length;
}

/** Pairs of edges out of a rank that cross. */
function crossingsBelow({ below, place }: Layers, rank: readonly number[]): number {
  const ends = rank.flatMap(node => (below[node] as number[]).map(to => place[to] as number).sort((a, b) => a - b));
  let crossings = 0;
  ends.forEach((end, at) => {
    for (let before = 0; before < at; before++) if ((ends[before] as number) > end) crossings += 1;
  });
  return crossings;
}
