// A list of any length of which only the visible rows exist.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Target {
  readonly row: number;
}

interface Props {
  readonly label: string;
  readonly role: "tree" | "listbox" | "list";
  readonly count: number;
  readonly rowHeight: number;
  /** Row to bring into view, once for each new object: rows that open above it must not make the list jump. */
  readonly target: Target | null;
  /** Row the keyboard is on; its element has the id `row-N`. */
  readonly active: number | null;
  readonly onKey?: (event: KeyboardEvent, pageRows: number) => void;
  readonly row: (at: number) => ComponentChildren;
  /** Drawn under the rows, in a coordinate system whose origin is the first row. */
  readonly behind?: (first: number, last: number) => ComponentChildren;
  /** Width of the content, where it is wider than the view. */
  readonly width?: string;
}

const OVERSCAN = 12;

export function List(props: Props) {
  const { rowHeight, count } = props;
  const view = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  useLayoutEffect(() => watchHeight(view.current, setHeight), []);
  useEffect(() => {
    if (props.target) bringIntoView(view.current, props.target.row, rowHeight);
  }, [props.target, rowHeight]);
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(count - 1, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  const rows = Array.from({ length: Math.max(0, last - first + 1) }, (_, offset) => props.row(first + offset));
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: its role is a parameter
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: the same
    <div
      ref={view}
      class="list"
      tabIndex={0}
      role={props.role}
      aria-label={props.label}
      aria-activedescendant={props.active === null ? undefined : `row-${props.active}`}
      onScroll={event => setTop(event.currentTarget.scrollTop)}
      onKeyDown={event => props.onKey?.(event, Math.max(1, Math.floor(height / rowHeight) - 1))}
    >
      <div role="presentation" class="all-rows" style={{ height: `${count * rowHeight}px`, minWidth: props.width }}>
        {props.behind?.(first, last)}
        <div role="presentation" class="some-rows" style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

function watchHeight(view: HTMLElement | null, report: (height: number) => void) {
  if (!view) return;
  const observer = new ResizeObserver(() => report(view.clientHeight));
  observer.observe(view);
  return () => observer.disconnect();
}

/** Scrolls the list itself, never the page around it. */
function bringIntoView(view: HTMLElement | null, row: number, rowHeight: number): void {
  if (!view) return;
  const start = row * rowHeight;
  const above = start < view.scrollTop;
  const below = start + rowHeight > view.scrollTop + view.clientHeight;
  if (above || below) view.scrollTop = Math.max(0, start - view.clientHeight / 3);
}

/** Row an arrow, page, home or end key leads to; null for other keys. */
export function movedBy(key: string, from: number, count: number, page: number): number | null {
  const steps: Record<string, number> = {
    ArrowDown: from + 1,
    ArrowUp: from - 1,
    PageDown: from + page,
    PageUp: from - page,
    Home: 0,
    End: count - 1,
  };
  const to = steps[key];
  return to === undefined || count === 0 ? null : Math.min(count - 1, Math.max(0, to));
}
