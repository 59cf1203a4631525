// Shows a saved report in JupyterLab, with or without a kernel.
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";

const MIME = "application/vnd.jaxmagic.report+json";

class ReportView extends Widget implements IRenderMime.IRenderer {
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const payload = model.data[MIME] as { version: string };
    this.node.textContent = `jaxmagic ${payload.version}`;
  }
}

const extension: IRenderMime.IExtension = {
  id: "jaxmagic:report",
  // Below the rank of the live widget (-10), so that the saved report is preferred wherever both are there.
  rank: -20,
  rendererFactory: { safe: true, mimeTypes: [MIME], createRenderer: () => new ReportView() },
  dataType: "json",
};

export default extension;
