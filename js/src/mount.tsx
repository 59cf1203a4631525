// A panel in an element: shadow root, style, keyboard, layout worker; all undone by `dispose`.

import worker from "inline:./layout/worker.ts";
import { render } from "preact";
import type { Feed } from "./feed";
import { startLayout } from "./layout/client";
import { remember, remembered } from "./memory";
import type { Decoded } from "./payload";
import { START, type State } from "./selection";
import { style } from "./style";
import { Notice } from "./views/notice";
import { Panel } from "./views/panel";

/** Shows what a feed knows in an element until the returned function is called. `live`: a kernel stands behind it. */
export function mount(element: HTMLElement, live: boolean, feed: Feed): () => void {
  const root = rootIn(element);
  const layout = startLayout(worker);
  const releaseKeys = keepKeys(element);
  const choose = (state: State): void => remember(feed.key(), state);
  const draw = (now: Decoded): void => {
    if (now.kind !== "report") {
      render(<Notice message={now.message} advice={now.advice} />, root);
      return;
    }
    const start = remembered(feed.key()) ?? START;
    render(<Panel report={now.report} live={live} place={layout.place} start={start} chosen={choose} />, root);
  };
  const unwatch = feed.watch(draw);
  return () => {
    unwatch();
    render(null, root);
    layout.dispose();
    releaseKeys();
  };
}

function rootIn(element: HTMLElement): HTMLElement {
  // A host may call twice on one element, and a shadow root can never be removed.
  const shadow = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const sheet = document.createElement("style");
  sheet.textContent = style;
  const root = document.createElement("div");
  root.className = "jaxmagic";
  shadow.replaceChildren(sheet, root);
  return root;
}

/**
 * JupyterLab takes plain keys everywhere in a notebook, so that an arrow or Enter on our buttons would leave the cell.
 * While such a key is pressed inside the panel, the attribute Lumino looks for is set; combinations still reach it.
 */
function keepKeys(element: HTMLElement): () => void {
  const listen = (event: KeyboardEvent): void => {
    const ours = event.composedPath().includes(element) && !event.ctrlKey && !event.metaKey && !event.altKey;
    const running = event.key === "Enter" && event.shiftKey && !(event.composedPath()[0] instanceof HTMLInputElement);
    element.toggleAttribute("data-lm-suppress-shortcuts", ours && !running);
  };
  window.addEventListener("keydown", listen, true);
  return () => window.removeEventListener("keydown", listen, true);
}
