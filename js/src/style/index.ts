// The style of the panel, one file a part, in the order in which later rules win.
import elements from "./elements.css";
import findings from "./findings.css";
import graph from "./graph.css";
import header from "./header.css";
import ledger from "./ledger.css";
import nojit from "./nojit.css";
import output from "./output.css";
import source from "./source.css";
import theme from "./theme.css";
import transfer from "./transfer.css";
import transform from "./transform.css";

export const style = [
  theme,
  elements,
  header,
  source,
  findings,
  nojit,
  ledger,
  transform,
  transfer,
  graph,
  output,
].join("\n");
