// The development page: mounts the payload that is written into it, and notes when the panel is usable.
import { startFeed } from "./feed";
import { mount } from "./mount";

declare const JAXMAGIC_VERSION: string;

const element = document.getElementById("panel");
const payload = document.getElementById("payload")?.textContent;
if (element && payload) {
  performance.mark("payload");
  const feed = startFeed(JAXMAGIC_VERSION);
  mount(element, new URLSearchParams(location.search).has("live"), feed);
  feed.show(JSON.parse(payload)).then(() => requestAnimationFrame(() => performance.mark("usable")));
}
