// The development page: mounts the payload that is written into it, and notes when the panel is usable.
import { mount } from "./mount";

const element = document.getElementById("panel");
const payload = document.getElementById("payload")?.textContent;
if (element && payload) {
  performance.mark("payload");
  const panel = mount(element, new URLSearchParams(location.search).has("live"));
  panel.show(JSON.parse(payload)).then(() => requestAnimationFrame(() => performance.mark("usable")));
}
