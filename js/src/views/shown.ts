// What every view is given: the report, what is selected in it, and how to change that.
import type { Linked } from "../index/links";
import type { PlaceGraph } from "../layout/client";
import type { Report, Span } from "../protocol";
import type { Act, Current, State } from "../selection";

export interface Shown {
  readonly report: Report;
  readonly state: State;
  readonly act: Act;
  /** The function and trace on show in the Transform tab. */
  readonly current: Current | undefined;
  /** What lights up with the selection. */
  readonly linked: Linked;
  readonly place: PlaceGraph;
  /** `cell [3]:12`. */
  readonly where: (span: Span) => string;
}
