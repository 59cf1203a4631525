// The anywidget: hands the synced payload to the panel, again whenever it changes.
import type { RenderProps } from "@anywidget/types";
import { mount } from "./mount";
import type { Payload } from "./protocol";

interface Model {
  payload: Payload;
}

function render({ model, el }: RenderProps<Model>): () => void {
  const panel = mount(el, true);
  const update = (): void => {
    void panel.show(model.get("payload"));
  };
  model.on("change:payload", update);
  update();
  return () => {
    model.off("change:payload", update);
    panel.dispose();
  };
}

export default { render };
