// The second tab: Python → jaxpr → StableHLO → HLO, as source, list and graph side by side.
import { useMemo } from "preact/hooks";
import { named } from "../index/names";
import { type NamedProgram, programIndex } from "../index/program";
import { searchEquations, searchLines } from "../index/search";
import type { Trace } from "../protocol";
import { Equations } from "./equations";
import { Inspector } from "./inspector";
import { ListingView, linesOf } from "./listing";
import { Empty } from "./parts";
import { RegionGraph } from "./region";
import type { Shown } from "./shown";
import { Sources } from "./source";
import { Toolbar } from "./toolbar";

export function Transform({ shown }: { shown: Shown }) {
  const { current, report } = shown;
  if (!current) return <Empty>{nothing(report.state)}</Empty>;
  return <Stages trace={current.trace} shown={shown} />;
}

function nothing(state: string): string {
  if (state === "running") return "No function has been traced yet.";
  return "This cell traced no function, so there is no program to show.";
}

function Stages({ trace, shown }: { trace: Trace; shown: Shown }) {
  const { state } = shown;
  const { report } = shown;
  const index = useMemo(() => (trace.program ? named(programIndex(trace.program), report) : null), [trace, report]);
  const hits = useMemo(() => findAll(trace, index, state.stage, state.search), [trace, state.stage, state.search]);
  const open = (pane: "source" | "graph"): boolean => !state.closed.includes(pane);
  const withSource = open("source") && shown.report.sources.length > 0;
  return (
    <div class="transform">
      <Toolbar shown={shown} trace={trace} hits={hits} />
      <div class={withSource ? "panes with-source" : "panes"}>
        {withSource && (
          <section class="pane source scrolls" aria-label="Source">
            <Sources shown={shown} peek={false} />
          </section>
        )}
        <section class="pane program" aria-label="Program">
          <Stage trace={trace} index={index} shown={shown} hits={new Set(hits)} />
        </section>
        <div class="pane beside">
          {open("graph") && state.stage === "jaxpr" && index && <RegionGraph index={index} shown={shown} />}
          <Inspector index={index} trace={trace} shown={shown} />
        </div>
      </div>
    </div>
  );
}

function findAll(trace: Trace, index: NamedProgram | null, stage: string, text: string): number[] {
  if (stage === "jaxpr") return index ? searchEquations(index, text) : [];
  const listing = stage === "hlo" ? trace.hlo : trace.stablehlo;
  return listing ? searchLines(linesOf(listing), text) : [];
}

function Stage(props: { trace: Trace; index: NamedProgram | null; shown: Shown; hits: ReadonlySet<number> }) {
  const { trace, index, shown, hits } = props;
  const { stage } = shown.state;
  if (stage === "jaxpr") {
    return index ? (
      <Equations key={programKey(shown)} {...{ index, shown, hits }} />
    ) : (
      <Empty>The jaxpr was not kept.</Empty>
    );
  }
  const listing = trace[stage];
  return listing ? (
    <ListingView {...{ listing, shown, hits }} />
  ) : (
    <Empty>This program was not lowered that far.</Empty>
  );
}

/** Another program is another list: its place and its open regions have nothing to do with this one's. */
function programKey({ current }: Shown): string {
  return `${current?.compiled.id}/${current?.at}`;
}
