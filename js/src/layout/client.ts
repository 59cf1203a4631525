// The panel's side of the layout worker. Where a content security policy forbids one, the main thread lays out.
import { type Placed, place } from "./dagre";
import type { Graph } from "./graph";

export type PlaceGraph = (graph: Graph) => Promise<Placed>;

export interface Layout {
  readonly place: PlaceGraph;
  readonly dispose: () => void;
}

/** Starts the worker from its source text; falls back silently, since the result is the same. */
export function startLayout(source: string): Layout {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const waiting = new Map<number, { graph: Graph; done: (placed: Placed) => void }>();
  let worker = start(url);
  let last = 0;
  const fallBack = (): void => {
    worker?.terminate();
    worker = null;
    for (const { graph, done } of waiting.values()) done(place(graph));
    waiting.clear();
  };
  if (worker) {
    worker.onerror = fallBack;
    worker.onmessage = ({ data }: MessageEvent<{ id: number; placed: Placed }>): void => {
      waiting.get(data.id)?.done(data.placed);
      waiting.delete(data.id);
    };
  }
  const ask = (graph: Graph): Promise<Placed> =>
    worker
      ? new Promise(done => {
          last += 1;
          waiting.set(last, { graph, done });
          worker?.postMessage({ id: last, graph });
        })
      : Promise.resolve(place(graph));
  const dispose = (): void => {
    worker?.terminate();
    URL.revokeObjectURL(url);
  };
  return { place: ask, dispose };
}

function start(url: string): Worker | null {
  try {
    return new Worker(url);
  } catch {
    return null;
  }
}
