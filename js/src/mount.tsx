// A panel in an element: shadow root, style, keyboard, layout worker; all undone by `dispose`.

import worker from "inline:./layout/worker.ts";
import { render } from "preact";
import { startLayout } from "./layout/client";
import { withNews } from "./live";
import { decode } from "./payload";
import type { Live, Report } from "./protocol";
import type { State } from "./selection";
import { style } from "./style";
import { Notice } from "./views/notice";
import { Panel } from "./views/panel";

declare const JAXMAGIC_VERSION: string;

export interface Mounted {
  /** Shows another payload in place of the one before; what is selected stays. */
  readonly show: (payload: unknown) => Promise<void>;
  /** Adds what came ashore since, while the report is of a running cell. */
  readonly add: (news: Live) => void;
  readonly dispose: () => void;
}

/** `live` says whether a kernel stands behind it. */
export function mount(element: HTMLElement, live: boolean, start?: Partial<State>): Mounted {
  // A host may call twice on one element, and a shadow root can never be removed.
  const shadow = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const sheet = document.createElement("style");
  sheet.textContent = style;
  const root = document.createElement("div");
  root.className = "jaxmagic";
  shadow.replaceChildren(sheet, root);
  const layout = startLayout(worker);
  const releaseKeys = keepKeys(element);
  let latest = 0;
  let shown: Report | undefined;
  let waiting: Live[] = [];
  const draw = (report: Report): void => {
    shown = report;
    render(<Panel report={report} live={live} place={layout.place} {...(start ? { start } : {})} />, root);
  };
  const add = (news: Live): void => {
    // News may come while the report they belong to is still being unpacked.
    if (!shown) waiting.push(news);
    else if (shown.state === "running") draw(withNews(shown, news));
  };
  const show = async (payload: unknown): Promise<void> => {
    latest += 1;
    const mine = latest;
    const decoded = await decode(payload, JAXMAGIC_VERSION);
    // A large report may take longer to unpack than the one after it.
    if (mine !== latest) return;
    if (decoded.kind !== "report") {
      render(<Notice message={decoded.message} advice={decoded.advice} />, root);
      return;
    }
    draw(decoded.report);
    for (const news of waiting) add(news);
    waiting = [];
  };
  const dispose = (): void => {
    latest += 1;
    render(null, root);
    layout.dispose();
    releaseKeys();
  };
  return { show, add, dispose };
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
