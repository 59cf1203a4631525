// The graph of one region, laid out off the main thread; the list beside it holds the same for everyone.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { GraphDrawing } from "../draw/graph";
import { save, svgText } from "../export";
import type { NamedProgram } from "../index/program";
import type { Placed, Point } from "../layout/dagre";
import { type Graph, graphOf, MOST_NODES, type Node } from "../layout/graph";
import { label, plural } from "../text";
import type { Shown } from "./shown";
import { useZoom, type View } from "./zoom";

interface Props {
  readonly index: NamedProgram;
  readonly shown: Shown;
}

export function RegionGraph({ index, shown }: Props) {
  const { state, linked, act } = shown;
  const [near = null] = linked.equations;
  const region = state.region ?? (near === null ? 0 : (index.regionOf[near] ?? 0));
  const large = (index.places[region]?.equations.length ?? 0) > MOST_NODES;
  const graph = useMemo(() => graphOf(index, region, near), [index, region, large ? near : null]);
  const placed = usePlaced(graph, shown);
  const svg = useRef<SVGSVGElement>(null);
  const zoom = useZoom(svg, placed, spotOf(graph, placed, near));
  const choose = (node: Node): void => {
    if (node.kind === "equation") act({ type: "focus", focus: { kind: "equation", at: node.at } });
    else if (node.variable !== null) act({ type: "focus", focus: { kind: "variable", id: node.variable } });
  };
  const open = ({ regions: [first] }: Node): void => {
    if (first !== undefined) act({ type: "region", region: first });
  };
  return (
    <section class="graph" aria-label="Graph of a region">
      <div class="bar-of">
        <Crumbs index={index} region={region} shown={shown} />
        <span class="grow" />
        <Inner index={index} near={near} shown={shown} />
        <Buttons zoom={zoom} svg={() => svg.current} />
      </div>
      {graph.left > 0 && <p class="remark">{leftOut(graph)}</p>}
      <div class="drawing" ref={zoom.frame}>
        {placed && (
          <svg ref={svg} role="img" aria-label={titleOf(graph)} viewBox={zoom.viewBox}>
            <GraphDrawing {...{ graph, placed, choose, open }} lit={linked} />
          </svg>
        )}
      </div>
    </section>
  );
}

function titleOf(graph: Graph): string {
  return `${plural(graph.nodes.length, "node")}; the list has the same`;
}

/** Where the selected equation was placed. */
function spotOf(graph: Graph, placed: Placed | null, near: number | null): Point | null {
  if (near === null) return null;
  return placed?.nodes[graph.nodes.findIndex(node => node.at === near)] ?? null;
}

function leftOut(graph: Graph): string {
  const kept = graph.nodes.filter(node => node.kind === "equation").length;
  return (
    `A graph of ${(kept + graph.left).toLocaleString("en")} equations would show nothing. ` +
    `These ${kept} are the ones around the selection; the list has all.`
  );
}

/** The layout of the graph on show; while a new one is made there is none. */
function usePlaced(graph: Graph, shown: Shown): Placed | null {
  const [result, setResult] = useState<{ graph: Graph; placed: Placed } | null>(null);
  useEffect(() => {
    let wanted = true;
    shown.place(graph).then(placed => wanted && setResult({ graph, placed }));
    return () => {
      wanted = false;
    };
  }, [graph]);
  return result?.graph === graph ? result.placed : null;
}

/** The way from the whole program to this region. */
function Crumbs({ index, region, shown }: Props & { region: number }) {
  const way: number[] = [];
  for (let at = region; at >= 0; at = index.places[at]?.parent ?? -1) way.unshift(at);
  return (
    <nav class="crumbs" aria-label="Region">
      {way.slice(-4).map(at => {
        const { kind = "", name = "" } = index.places[at]?.region ?? {};
        return (
          <button
            type="button"
            key={at}
            class="link"
            aria-current={at === region}
            onClick={() => shown.act({ type: "region", region: at })}
          >
            {label(name ? `${kind} ${name}` : kind, 32)}
          </button>
        );
      })}
    </nav>
  );
}

/** Opens what the selected equation holds: the keyboard's way to the double click. */
function Inner({ index, near, shown }: Props & { near: number | null }) {
  const regions = near === null ? [] : (index.inner.get(near) ?? []);
  return (
    <>
      {regions.slice(0, 4).map(region => (
        <button type="button" class="small" key={region} onClick={() => shown.act({ type: "region", region })}>
          Open {label(index.places[region]?.region.kind ?? "", 24)}
        </button>
      ))}
    </>
  );
}

function Buttons({ zoom, svg }: { zoom: View; svg: () => SVGSVGElement | null }) {
  const download = (): void => {
    const drawing = svg();
    if (drawing) save("graph.svg", "image/svg+xml", svgText(drawing));
  };
  return (
    <span class="choices">
      <button type="button" aria-label="Zoom out" onClick={() => zoom.by(1.25)}>
        −
      </button>
      <button type="button" aria-label="Zoom in" onClick={() => zoom.by(0.8)}>
        +
      </button>
      <button type="button" onClick={zoom.fit}>
        Fit
      </button>
      <button type="button" onClick={download}>
        SVG
      </button>
    </span>
  );
}
