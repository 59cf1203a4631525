// What a person had chosen in a panel, kept while the page lives: JupyterLab takes panels out of the page when they
// are scrolled away, and puts the saved form of an output in the place of the live one when its cell ends.
import type { State } from "./selection";

/** Panels that are remembered; the longest untouched is forgotten first. */
const MOST = 200;

// The live panel and the saved one are two bundles: only the window is common to them.
const PLACE = Symbol.for("jaxmagic.chosen");

function all(): Map<string, State> {
  const page = globalThis as { [PLACE]?: Map<string, State> };
  page[PLACE] ??= new Map();
  return page[PLACE];
}

export function remember(key: string, state: State): void {
  const known = all();
  known.delete(key);
  known.set(key, state);
  const [oldest] = known.keys();
  if (known.size > MOST && oldest !== undefined) known.delete(oldest);
}

export function remembered(key: string): State | undefined {
  return all().get(key);
}

/** One report took the place of another in the same output. */
export function passOn(from: string, to: string): void {
  const chosen = remembered(from);
  if (chosen) remember(to, chosen);
}
