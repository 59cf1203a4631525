// One output area's panel.
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { startFeed } from "../feed";
import { mount } from "../mount";

declare const JAXMAGIC_VERSION: string;

export class ReportView extends Widget implements IRenderMime.IRenderer {
  private readonly feed = startFeed(JAXMAGIC_VERSION);
  private readonly unmount: () => void;

  constructor(private readonly mimeType: string) {
    super();
    this.unmount = mount(this.node, false, this.feed);
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    return this.feed.show(model.data[this.mimeType]);
  }

  override dispose(): void {
    if (!this.isDisposed) this.unmount();
    super.dispose();
  }
}
