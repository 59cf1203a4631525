// The worker's side: a graph comes in, a layout goes out.
import { place } from "./dagre";
import type { Graph } from "./graph";

const scope = self as unknown as { onmessage: unknown; postMessage(message: unknown): void };

scope.onmessage = ({ data }: MessageEvent<{ readonly id: number; readonly graph: Graph }>): void => {
  scope.postMessage({ id: data.id, placed: place(data.graph) });
};
