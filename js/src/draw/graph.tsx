// A laid-out region as SVG.
import type { Placed, Point } from "../layout/dagre";
import type { Edge, Graph, Node } from "../layout/graph";
import { visible } from "../text";

interface Props {
  readonly graph: Graph;
  readonly placed: Placed;
  readonly lit: { readonly equations: ReadonlySet<number>; readonly variables: ReadonlySet<number> };
  readonly choose: (node: Node) => void;
  readonly open: (node: Node) => void;
}

/** Contents of the `<svg>`: edges first, so that nodes lie on them. */
export function GraphDrawing(props: Props) {
  const { graph, placed } = props;
  return (
    <>
      {graph.edges.map((edge, at) => (
        <EdgeLine
          key={`${edge.from} ${edge.to} ${edge.variable}`}
          edge={edge}
          points={placed.edges[at] ?? []}
          {...props}
        />
      ))}
      {graph.nodes.map((node, at) => {
        const point = placed.nodes[at];
        return point && <NodeBox key={node.id} node={node} at={point} {...props} />;
      })}
    </>
  );
}

function EdgeLine({ edge, points, lit }: Props & { edge: Edge; points: readonly Point[] }) {
  const touches = [edge.from, edge.to].some(id => id.startsWith("e") && lit.equations.has(Number(id.slice(1))));
  const isLit = lit.variables.has(edge.variable) || touches;
  const [start] = points;
  const end = points[points.length - 1];
  if (!start || !end) return null;
  return (
    <g class={`edge${isLit ? " lit" : ""}`}>
      <path d={curve(points)} />
      <path class="head" d={arrow(points[points.length - 2] ?? start, end)} />
    </g>
  );
}

/** Smooth through the points of the layout: quadratic pieces from middle to middle. */
function curve(points: readonly Point[]): string {
  const [start, ...rest] = points;
  if (!start) return "";
  let path = `M${start.x} ${start.y}`;
  rest.slice(0, -1).forEach((point, at) => {
    const next = rest[at + 1] as Point;
    path += `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
  });
  const end = rest[rest.length - 1] ?? start;
  return `${path}L${end.x} ${end.y}`;
}

function arrow(before: Point, tip: Point): string {
  const length = Math.hypot(tip.x - before.x, tip.y - before.y) || 1;
  const [x, y] = [(tip.x - before.x) / length, (tip.y - before.y) / length];
  const base = { x: tip.x - 6 * x, y: tip.y - 6 * y };
  return `M${tip.x} ${tip.y}L${base.x - 3 * y} ${base.y + 3 * x}L${base.x + 3 * y} ${base.y - 3 * x}Z`;
}

function NodeBox({ node, at, lit, choose, open }: Props & { node: Node; at: Point }) {
  const ownVariable = node.kind !== "equation" && node.variable !== null && lit.variables.has(node.variable);
  const isLit = lit.equations.has(node.at) || ownVariable;
  const [x, y] = [at.x - node.width / 2, at.y - node.height / 2];
  const middle = node.subtitle ? at.y - 3 : at.y + 4;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the list beside it offers the same to the keyboard
    <g
      class={`node ${node.kind}${node.regions.length ? " holds" : ""}${isLit ? " lit" : ""}`}
      onClick={() => choose(node)}
      onDblClick={() => open(node)}
    >
      {node.regions.length > 0 && (
        <rect class="shadow" x={x - 3} y={y - 3} width={node.width + 6} height={node.height + 6} rx="6" />
      )}
      <rect x={x} y={y} width={node.width} height={node.height} rx={node.kind === "equation" ? 4 : node.height / 2} />
      <text class="title" x={at.x} y={middle} text-anchor="middle">
        {visible(node.title)}
      </text>
      {node.subtitle && (
        <text class="subtitle" x={at.x} y={at.y + 11} text-anchor="middle">
          {visible(node.subtitle)}
        </text>
      )}
    </g>
  );
}
