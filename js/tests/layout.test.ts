import { Graph as Dagre } from "@dagrejs/dagre";
import { describe, expect, test } from "vitest";
import { named } from "../src/index/names";
import { indexProgram } from "../src/index/program";
import { startLayout } from "../src/layout/client";
import { place } from "../src/layout/dagre";
import { graphOf, MOST_NODES } from "../src/layout/graph";
import { orderNodes } from "../src/layout/order";
import { firstOpen, positionsOf, reveal, rowsOf, toggled } from "../src/layout/rows";
import { layWires, wireOf, wiresBetween } from "../src/layout/wires";
import type { Program, Report } from "../src/protocol";
import { equation, nested, program, region, variable } from "./records";

function namedProgram(of: Program) {
  return named(indexProgram(of), { hints: [], sources: [] } as unknown as Report);
}

/** Each equation uses the one before. */
function chainOf(length: number) {
  const equations = Array.from({ length }, (_, at) => equation("add", [at, at], at + 1));
  return namedProgram(program(region(equations, { inputs: [variable(0)], outputs: [length] })));
}

describe("rows", () => {
  const index = indexProgram(nested());

  test("of an open region stand under the equation that holds it", () => {
    const kinds = rowsOf(index, firstOpen(index)).map(row => row.kind);
    expect(kinds).toEqual(["region", "equation", "equation", "region", "equation", "end", "equation", "end"]);
  });

  test("of a closed region are gone, its heading stays", () => {
    const rows = rowsOf(index, new Set([0]));
    expect(rows.filter(row => row.kind === "region")).toHaveLength(2);
    expect(rows.some(row => row.kind === "equation" && row.at === 2)).toBe(false);
  });

  test("open for what is selected", () => {
    expect(reveal(index, new Set([0]), [2])).toEqual(new Set([0, 1]));
    const open = new Set([0, 1]);
    expect(reveal(index, open, [2])).toBe(open);
    expect(toggled(open, 1)).toEqual(new Set([0]));
  });

  test("say how many equations were left out", () => {
    const cut = indexProgram(program(region([], { hidden: 7 })));
    expect(rowsOf(cut, new Set([0])).map(row => row.kind)).toEqual(["region", "hidden", "end"]);
  });

  test("of a large program begin with the outermost region alone", () => {
    expect(firstOpen(chainOf(1000))).toEqual(new Set([0]));
  });
});

describe("wires", () => {
  const index = chainOf(40);
  const rows = rowsOf(index, new Set([0]));
  const positions = positionsOf(rows);
  const wires = layWires(index, rows, positions);

  test("run from the definition to the last use", () => {
    expect(wireOf(index, positions, 1)).toMatchObject({ from: 1, to: 2, uses: [2] });
    expect(wireOf(index, positions, 0)).toMatchObject({ from: 0, to: 1 });
    expect(wireOf(index, positions, 40)).toMatchObject({ from: 40, to: 41 });
  });

  test("never share a lane while both are busy", () => {
    for (const wire of wires) {
      const others = wires.filter(other => other !== wire && other.lane === wire.lane);
      expect(others.every(other => other.to < wire.from || other.from > wire.to)).toBe(true);
    }
  });

  test("are those that cross the rows in sight", () => {
    expect(wiresBetween(wires, 10, 12).map(wire => wire.from)).toEqual([9, 10, 11, 12]);
  });
});

describe("the graph of a region", () => {
  test("has its inputs, equations and outputs as nodes, and its values as edges", () => {
    const graph = graphOf(namedProgram(nested()), 0, null);
    expect(graph.nodes.map(node => node.id)).toEqual(["v0", "e0", "e1", "e3", "o0"]);
    expect(graph.edges.map(edge => `${edge.from}→${edge.to}`)).toEqual(["v0→e0", "e0→e1", "e1→e3", "v0→e3", "e3→o0"]);
  });

  test("of a large region is what is near the selection, and says what it leaves out", () => {
    const graph = graphOf(chainOf(5000), 0, 2500);
    const kept = graph.nodes.filter(node => node.kind === "equation").map(node => node.at);
    expect(kept).toContain(2500);
    expect(kept.length).toBeLessThanOrEqual(MOST_NODES);
    expect(graph.left).toBe(5000 - kept.length);
  });

  test("is laid out from top to bottom without two nodes on one place", () => {
    const graph = graphOf(namedProgram(nested()), 0, null);
    const placed = place(graph);
    expect(placed.nodes).toHaveLength(graph.nodes.length);
    expect(placed.edges).toHaveLength(graph.edges.length);
    for (const edge of graph.edges) {
      const [from, to] = [edge.from, edge.to].map(id => placed.nodes[graph.nodes.findIndex(node => node.id === id)]);
      expect(from?.y).toBeLessThan(to?.y ?? 0);
    }
    expect(new Set(placed.nodes.map(({ x, y }) => `${x} ${y}`)).size).toBe(graph.nodes.length);
  });
});

describe("the order within ranks", () => {
  function ordered(
    edges: readonly (readonly [string, string])[],
    ranks: Record<string, number>,
  ): Record<string, number> {
    const graph = new Dagre();
    for (const [id, rank] of Object.entries(ranks)) graph.setNode(id, { rank });
    for (const [from, to] of edges) graph.setEdge(from, to);
    orderNodes(graph);
    return Object.fromEntries(graph.nodes().map(id => [id, graph.node(id).order as number]));
  }

  test("uncrosses two edges", () => {
    const ranks = { a: 0, b: 0, c: 1, d: 1 };
    const order = ordered(
      [
        ["a", "d"],
        ["b", "c"],
        ["a", "c"],
      ],
      ranks,
    );
    const crossed = (order.a ?? 0) < (order.b ?? 0) === (order.d ?? 0) > (order.c ?? 0);
    expect(crossed).toBe(false);
  });

  test("gives every node of a rank a place of its own", () => {
    const ranks = { a: 0, b: 0, c: 0, d: 2 };
    const order = ordered(
      [
        ["a", "d"],
        ["c", "d"],
      ],
      ranks,
    );
    expect([order.a, order.b, order.c].sort()).toEqual([0, 1, 2]);
    expect(order.d).toBe(0);
  });
});

describe("where a worker is forbidden", () => {
  test("the main thread lays out", async () => {
    const graph = graphOf(namedProgram(nested()), 0, null);
    // happy-dom has no Worker, as a page whose content security policy refuses one.
    expect(typeof Worker).toBe("undefined");
    const layout = startLayout("");
    expect(await layout.place(graph)).toEqual(place(graph));
    layout.dispose();
  });
});
