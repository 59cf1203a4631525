// A list of any length of which only the visible rows exist.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A row to bring into view, once for each new object: rows that open above it must not make the list jump. */
interface Target {
  readonly row: number;
}

interface Cursor {
  readonly at: number | null;
  readonly target: Target | null;
  readonly goTo: (row: number | null) => void;
}

interface Props {
  readonly label: string;
  readonly role: "tree" | "listbox" | "list";
  readonly count: number;
  readonly rowHeight: number;
  /** Where the keyboard is; the element of row N has the id `row-N`. */
  readonly cursor?: Cursor;
  readonly onKey?: OnKey;
  readonly row: (at: number) => ComponentChildren;
  /** Drawn under the rows, in a coordinate system whose origin is the first row. */
  readonly behind?: (first: number, last: number) => ComponentChildren;
  /** Width of the content, where it is wider than the view. */
  readonly width?: string;
}

const OVERSCAN = 12;

export function List(props: Props) {
  const { rowHeight, count } = props;
  const { at = null, target = null } = props.cursor ?? {};
  const view = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  useLayoutEffect(() => watchHeight(view.current, setHeight), []);
  useEffect(() => {
    if (target) bringIntoView(view.current, target.row, rowHeight);
  }, [target, rowHeight]);
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
      aria-activedescendant={at === null ? undefined : `row-${at}`}
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

/** Where the keyboard is in a list: it follows the selection, and `start` is in view while there is none. */
export function useCursor(selected: number | null, focus: unknown, start: number | null = null): Cursor {
  const [at, setAt] = useState<number | null>(null);
  const [target, setTarget] = useState<Target | null>(null);
  const goTo = (row: number | null): void => {
    setAt(row);
    setTarget(row === null ? null : { row });
  };
  useEffect(() => setAt(selected), [selected, focus]);
  useEffect(() => {
    const row = selected ?? start;
    setTarget(row === null ? null : { row });
  }, [selected === null, focus, start]);
  return { at, target, goTo };
}

type OnKey = (event: KeyboardEvent, pageRows: number) => void;

/** Keys that move `choose` a row; what `otherwise` takes is taken too. */
export function walk(
  from: number | null,
  count: number,
  choose: (row: number) => void,
  otherwise?: (key: string) => boolean,
): OnKey {
  return (event, pageRows) => {
    const to = movedBy(event.key, from ?? -1, count, pageRows);
    if (to !== null) choose(to);
    else if (!otherwise?.(event.key)) return;
    event.preventDefault();
  };
}

/** Row an arrow, page, home or end key leads to; null for other keys. */
function movedBy(key: string, from: number, count: number, page: number): number | null {
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
