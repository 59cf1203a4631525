// Moving about in a drawing: drag, buttons, and the wheel with a modifier key, since the page scrolls without.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface View {
  readonly frame: RefObject<HTMLDivElement | null>;
  readonly viewBox: string;
  readonly by: (factor: number) => void;
  readonly fit: () => void;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

interface Spot {
  readonly x: number;
  readonly y: number;
}

/** `spot` is brought into view whenever it changes. */
export function useZoom(svg: RefObject<SVGSVGElement | null>, size: Size | null, spot: Spot | null): View {
  const frame = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState<Box>({ x: 0, y: 0, width: 1, height: 1 });
  useEffect(() => setBox(fitted(size, frame.current, LEGIBLE)), [size]);
  const fit = (): void => setBox(fitted(size, frame.current, 0));
  useEffect(() => {
    if (spot) setBox(before => around(before, spot));
  }, [size, spot?.x, spot?.y]);
  const by = (factor: number): void => setBox(before => scaled(before, factor, 0.5, 0.5));
  useEffect(() => {
    const element = svg.current;
    if (!element) return;
    return followPointer(element, setBox);
  }, [size]);
  return { frame, viewBox: `${box.x} ${box.y} ${box.width} ${box.height}`, by, fit };
}

/** A smaller scale than this cannot be read. */
const LEGIBLE = 0.55;

/** All of it, or its top where all of it would be smaller than `least`. */
function fitted(size: Size | null, frame: HTMLElement | null, least: number): Box {
  if (!size || !frame) return { x: 0, y: 0, width: 1, height: 1 };
  const { clientWidth, clientHeight } = frame;
  const scale = Math.max(least, Math.min(1, clientWidth / size.width, clientHeight / size.height));
  const width = clientWidth / scale;
  const height = clientHeight / scale;
  return { x: (size.width - width) / 2, y: size.height < height ? (size.height - height) / 2 : 0, width, height };
}

/** The same box if the spot is well inside, else one with the spot in its middle. */
function around(box: Box, { x, y }: Spot): Box {
  const [left, top] = [(x - box.x) / box.width, (y - box.y) / box.height];
  if (left > 0.1 && left < 0.9 && top > 0.1 && top < 0.9) return box;
  return { ...box, x: x - box.width / 2, y: y - box.height / 2 };
}

function scaled(box: Box, factor: number, atX: number, atY: number): Box {
  const width = box.width * factor;
  const height = box.height * factor;
  return { x: box.x + (box.width - width) * atX, y: box.y + (box.height - height) * atY, width, height };
}

type SetBox = (change: (box: Box) => Box) => void;

function followPointer(element: SVGSVGElement, setBox: SetBox): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  let from: Spot | null = null;
  const down = ({ clientX: x, clientY: y }: PointerEvent): void => {
    from = { x, y };
  };
  const up = (): void => {
    from = null;
  };
  const move = ({ clientX: x, clientY: y }: PointerEvent): void => {
    if (!from) return;
    const by = { x: (from.x - x) / element.clientWidth, y: (from.y - y) / element.clientHeight };
    from = { x, y };
    setBox(box => ({ ...box, x: box.x + by.x * box.width, y: box.y + by.y * box.height }));
  };
  element.addEventListener("pointerdown", down, { signal });
  window.addEventListener("pointerup", up, { signal });
  window.addEventListener("pointermove", move, { signal });
  element.addEventListener("wheel", event => zoomAt(event, element, setBox), { signal, passive: false });
  return () => stop.abort();
}

/** Zooms around the pointer. Without a modifier key the wheel is the page's. */
function zoomAt(event: WheelEvent, element: SVGSVGElement, setBox: SetBox): void {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const at = element.getBoundingClientRect();
  const factor = Math.exp(event.deltaY * 0.002);
  setBox(box => scaled(box, factor, (event.clientX - at.left) / at.width, (event.clientY - at.top) / at.height));
}
