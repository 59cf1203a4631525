// The anywidget: hands the synced payload to the panel, again whenever it changes.
import type { RenderProps } from "@anywidget/types";
import { mount } from "./mount";
import type { Live, Payload } from "./protocol";

interface Model {
  payload: Payload;
}

function render({ model, el }: RenderProps<Model>): () => void {
  const panel = mount(el, true);
  const update = (): void => {
    void panel.show(model.get("payload"));
  };
  const hear = (message: { kind?: string; live: Live }): void => {
    if (message?.kind === "live") panel.add(message.live);
  };
  model.on("change:payload", update);
  model.on("msg:custom", hear);
  update();
  return () => {
    model.off("change:payload", update);
    model.off("msg:custom", hear);
    panel.dispose();
  };
}

export default { render };
