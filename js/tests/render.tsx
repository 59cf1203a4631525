// Renders a view into the document, and takes it out again after each test.
import { type ComponentChild, render as renderInto } from "preact";
import { act } from "preact/test-utils";
import { afterEach } from "vitest";
import { linked } from "../src/index/links";
import { place } from "../src/layout/dagre";
import type { Report } from "../src/protocol";
import { type Action, current, START, type State } from "../src/selection";
import { Panel } from "../src/views/panel";
import type { Shown } from "../src/views/shown";

const roots: HTMLElement[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) {
    renderInto(null, root);
    root.remove();
  }
});

export async function render(view: ComponentChild): Promise<HTMLElement> {
  const root = document.createElement("div");
  document.body.append(root);
  roots.push(root);
  await act(() => renderInto(view, root));
  return root;
}

/** The whole panel on a report; layouts are made at once. */
export function renderPanel(report: Report, start: Partial<State> = {}, live = false): Promise<HTMLElement> {
  return render(<Panel report={report} live={live} place={graph => Promise.resolve(place(graph))} start={start} />);
}

/** What a view is given, with the actions it asks for noted. */
export function shownOf(report: Report, start: Partial<State> = {}): { shown: Shown; actions: Action[] } {
  const actions: Action[] = [];
  const state = { ...START, ...start };
  const on = current(report, state);
  const shown: Shown = {
    report,
    state,
    act: action => actions.push(action),
    current: on,
    linked: linked(state.focus, on?.trace),
    place: graph => Promise.resolve(place(graph)),
    where: span => `${span.file}:${span.line}`,
  };
  return { shown, actions };
}

export async function click(element: Element | null | undefined): Promise<void> {
  if (!element) throw new Error("nothing to click on");
  await act(() => element.dispatchEvent(new MouseEvent("click", { bubbles: true })) as unknown as undefined);
}

export async function press(element: Element | null | undefined, key: string): Promise<void> {
  if (!element) throw new Error("nothing to press a key on");
  await act(
    () =>
      element.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
      ) as unknown as undefined,
  );
}

export async function type(input: Element | null, text: string): Promise<void> {
  if (!(input instanceof HTMLInputElement)) throw new Error("nothing to type into");
  input.value = text;
  await act(() => input.dispatchEvent(new Event("input", { bubbles: true })) as unknown as undefined);
}

/** A button by its visible text. */
export function button(root: Element, text: string): HTMLElement | undefined {
  return [...root.querySelectorAll<HTMLElement>("button")].find(each => each.textContent?.includes(text));
}

export function texts(root: Element, selector: string): string[] {
  return [...root.querySelectorAll(selector)].map(each => (each.textContent ?? "").trim());
}
