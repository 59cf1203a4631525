// What appears under the pointer. The same is reachable by keyboard: a selected line lists its expressions.
import type { Span } from "../protocol";
import { label } from "../text";

export interface Tipped {
  readonly key: string;
  readonly title: string;
  readonly values: readonly string[];
  readonly span: Span;
  readonly left: number;
  readonly top: number;
}

/** Of an expression that ran with many shapes only so many are listed. */
const MOST = 8;

export function Tip({ title, values, left, top }: Tipped) {
  return (
    <div class="tip" role="tooltip" style={{ left: `${left}px`, top: `${top}px` }}>
      <code class="of">{label(title, 60)}</code>
      {values.slice(0, MOST).map(value => (
        <code key={value} class="aval">
          {label(value, 100)}
        </code>
      ))}
      {values.length > MOST && <span>… {values.length - MOST} more</span>}
    </div>
  );
}
