// JupyterLab's renderer of saved reports: the same panel, from the notebook alone, without a kernel.
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { ReportView } from "./renderer";

const MIME = "application/vnd.jaxmagic.report+json";

const extension: IRenderMime.IExtension = {
  id: "jaxmagic:report",
  description: "Shows the reports of jaxmagic.",
  rendererFactory: {
    safe: true,
    mimeTypes: [MIME],
    createRenderer: ({ mimeType }) => new ReportView(mimeType),
  },
  // Before the widget view (rank -10), which is blank when there is no kernel, and before the static HTML.
  rank: -20,
  dataType: "json",
};

export default extension;
