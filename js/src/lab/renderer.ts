// One output area's panel.
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { type Mounted, mount } from "../mount";

export class ReportView extends Widget implements IRenderMime.IRenderer {
  private readonly panel: Mounted;

  constructor(private readonly mimeType: string) {
    super();
    this.panel = mount(this.node, false);
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    return this.panel.show(model.data[this.mimeType]);
  }

  override dispose(): void {
    if (!this.isDisposed) this.panel.dispose();
    super.dispose();
  }
}
