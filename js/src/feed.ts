// What is known of one output: its latest payload, unpacked, and the news that came since, for all views of it.
import { withNews } from "./live";
import { passOn } from "./memory";
import { type Decoded, decode, keyOf } from "./payload";
import type { Live } from "./protocol";

export interface Feed {
  /** Takes another payload in place of the one before. */
  readonly show: (payload: unknown) => Promise<void>;
  /** Takes what came ashore since, while the report is of a running cell. */
  readonly add: (news: Live) => void;
  /** Under which a person's choices for this output are remembered. */
  readonly key: () => string;
  /** Tells a view what is known now and whenever that changes, until the returned function is called. */
  readonly watch: (view: (now: Decoded) => void) => () => void;
}

export function startFeed(version: string): Feed {
  const views = new Set<(now: Decoded) => void>();
  let latest = 0;
  let key = "";
  let now: Decoded | undefined;
  const waiting: Live[] = [];
  let told = true;
  const tell = (): void => {
    told = true;
    if (now) for (const view of views) view(now);
  };
  // News may come faster than they can be drawn.
  const tellSoon = (): void => {
    if (told) requestAnimationFrame(() => told || tell());
    told = false;
  };
  const add = (news: Live): void => {
    // News may come while the report they belong to is still being unpacked.
    if (!now) waiting.push(news);
    else if (now.kind === "report" && now.report.state === "running") {
      now = { ...now, report: withNews(now.report, news) };
      tellSoon();
    }
  };
  const show = async (payload: unknown): Promise<void> => {
    latest += 1;
    const mine = latest;
    // Before anything is unpacked: the panel of the saved output may be the first to be done with it.
    passOn(key, keyOf(payload));
    key = keyOf(payload);
    const decoded = await decode(payload, version);
    // A large report may take longer to unpack than the one after it.
    if (mine !== latest) return;
    now = decoded;
    tell();
    for (const news of waiting.splice(0)) add(news);
  };
  const watch = (view: (now: Decoded) => void): (() => void) => {
    views.add(view);
    if (now) view(now);
    return () => views.delete(view);
  };
  return { show, add, key: () => key, watch };
}
