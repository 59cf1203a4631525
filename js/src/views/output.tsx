// The last tab: what the cell printed, in order, what it gave back, and how two ways of running it compare.
import type { Printed } from "../protocol";
import { label, plural, visible } from "../text";
import { ComparisonView } from "./comparison";
import { List } from "./list";
import { Empty, Where } from "./parts";
import type { Shown } from "./shown";

const ROW = 20;
/** More lines than this scroll in a list of their own. */
const MOST = 400;

export function Output({ shown }: { shown: Shown }) {
  const { printed, results, comparison, state } = shown.report;
  const empty = !printed.length && !results.length && !comparison;
  return (
    <div class="output">
      {comparison && <ComparisonView comparison={comparison} shown={shown} />}
      {empty && (
        <Empty>
          {state === "running" ? "Nothing was printed yet." : "The cell printed nothing and gave no result."}
        </Empty>
      )}
      {printed.length > 0 && <Prints printed={printed} shown={shown} />}
      {results.length > 0 && (
        <section aria-label="Results">
          <h3>Result</h3>
          {results.map((text, at) => (
            <pre key={at}>{visible(text.slice(0, 20_000))}</pre>
          ))}
        </section>
      )}
    </div>
  );
}

function Prints({ printed, shown }: { printed: readonly Printed[]; shown: Shown }) {
  return (
    <section aria-label="Printed">
      <h3>Printed, in order</h3>
      {printed.some(each => each.traced) && (
        <p class="remark">
          Lines marked “while tracing” were printed once a trace, not once a call, and show tracers instead of numbers.
        </p>
      )}
      {printed.length <= MOST ? (
        <ol class="printed">
          {printed.map((each, at) => (
            <li key={at}>
              <PrintedLine printed={each} shown={shown} />
            </li>
          ))}
        </ol>
      ) : (
        <div class="printed long">
          <List
            label={plural(printed.length, "printed line")}
            role="list"
            count={printed.length}
            rowHeight={ROW}
            row={at => (
              // biome-ignore lint/a11y/useSemanticElements: only the visible rows of a list exist
              <div key={at} role="listitem" style={{ height: `${ROW}px` }}>
                <PrintedLine printed={printed[at] as Printed} shown={shown} />
              </div>
            )}
          />
        </div>
      )}
    </section>
  );
}

function PrintedLine({ printed, shown }: { printed: Printed; shown: Shown }) {
  return (
    <>
      <span class="number">{printed.number}</span>
      <code class="text">{label(printed.text, 2000)}</code>
      <span class="grow" />
      {printed.traced && <span class="tag">while tracing</span>}
      {printed.source !== "print" && <span class="tag">{printed.source}</span>}
      {/* Notebooks saved before lanes were known have none. */}
      {printed.lane?.length > 0 && <span class="quiet">lane {printed.lane.join(", ")}</span>}
      {printed.step ? <span class="quiet">step {printed.step}</span> : null}
      <Where span={printed.span} shown={shown} />
    </>
  );
}
