// The anywidget: hands the synced payload and the news of a running cell to all views of the model.
import type { InitializeProps, RenderProps } from "@anywidget/types";
import { startFeed } from "./feed";
import { mount } from "./mount";
import type { Live, Payload } from "./protocol";

declare const JAXMAGIC_VERSION: string;

interface Model {
  payload: Payload;
}

/** Called once a model: what it received outlives its views, which come and go as the page is scrolled. */
export default () => {
  const feed = startFeed(JAXMAGIC_VERSION);
  return {
    initialize({ model }: InitializeProps<Model>): () => void {
      const update = (): void => {
        void feed.show(model.get("payload"));
      };
      const hear = (message: { kind?: string; live: Live }): void => {
        if (message?.kind === "live") feed.add(message.live);
      };
      model.on("change:payload", update);
      model.on("msg:custom", hear);
      update();
      return () => {
        model.off("change:payload", update);
        model.off("msg:custom", hear);
      };
    },
    render({ el }: RenderProps<Model>): () => void {
      return mount(el, true, feed);
    },
  };
};
