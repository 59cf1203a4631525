// A tab list as the keyboard expects it: one stop, arrow keys inside.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Tab } from "../selection";

interface Props {
  readonly tabs: readonly { readonly tab: Tab; readonly title: string; readonly count: number }[];
  readonly tab: Tab;
  readonly choose: (tab: Tab) => void;
  readonly children: ComponentChildren;
}

export function Tabs({ tabs, tab, choose, children }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = moved(
      event.key,
      tabs.findIndex(each => each.tab === tab),
      tabs.length,
    );
    const next = tabs[to ?? -1];
    if (!next) return;
    event.preventDefault();
    choose(next.tab);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[to ?? 0]?.focus();
  };
  return (
    <>
      <div ref={list} role="tablist" class="tabs" aria-label="Views" onKeyDown={onKeyDown}>
        {tabs.map(({ tab: each, title, count }) => (
          <button
            type="button"
            role="tab"
            key={each}
            id={`tab-${each}`}
            aria-controls="tab-panel"
            aria-selected={each === tab}
            tabIndex={each === tab ? 0 : -1}
            onClick={() => choose(each)}
          >
            {title} {count > 0 && <span class="count">{count.toLocaleString("en")}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
        {children}
      </div>
    </>
  );
}

function moved(key: string, from: number, count: number): number | null {
  const steps: Record<string, number> = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: count - 1 };
  const to = steps[key];
  return to === undefined ? null : (to + count) % count;
}
