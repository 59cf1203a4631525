// StableHLO or HLO as text; each operation that has source lines is linked to them.
import { useMemo } from "preact/hooks";
import type { Instruction, Listing } from "../protocol";
import { clip, longest, plural, visible } from "../text";
import { List, useCursor, walk } from "./list";
import { Empty } from "./parts";
import type { Shown } from "./shown";

const ROW = 18;
/** Characters of one line that are shown. */
const WIDEST = 400;

export function linesOf(listing: Listing): readonly string[] {
  return listing.text.replace(/\n$/, "").split("\n");
}

interface Props {
  readonly listing: Listing;
  readonly shown: Shown;
  readonly hits: ReadonlySet<number>;
}

export function ListingView({ listing, shown, hits }: Props) {
  const { stage } = listing;
  const lines = useMemo(() => linesOf(listing), [listing]);
  const instructions = useMemo(() => new Map(listing.instructions.map(each => [each.line, each])), [listing]);
  const lit = shown.linked.instructions[stage];
  const [first] = lit;
  const cursor = useCursor(first === undefined ? null : first - 1, shown.state.focus, beginning(lines));
  const choose = (at: number): void => {
    cursor.goTo(at);
    if (instructions.has(at + 1)) shown.act({ type: "focus", focus: { kind: "instruction", stage, line: at + 1 } });
  };
  const onKey = walk(cursor.at, lines.length, choose);
  const rowAt = (at: number) => (
    <LineOf
      key={at}
      {...{ at, listing }}
      text={lines[at] ?? ""}
      instruction={instructions.get(at + 1)}
      lit={lit.has(at + 1)}
      hit={hits.has(at + 1)}
      cursor={cursor.at === at}
      choose={() => choose(at)}
    />
  );
  const width = `${Math.min(WIDEST, longest(lines)) + 8}ch`;
  if (!listing.text) return <Empty>{leftOut(listing)}</Empty>;
  return (
    <>
      <List
        label={`${stage} text`}
        role="listbox"
        count={lines.length}
        rowHeight={ROW}
        {...{ cursor, onKey, width }}
        row={rowAt}
      />
      {listing.dropped > 0 && <p class="remark">{leftOut(listing)}</p>}
    </>
  );
}

/** Row of the entry computation: above it stand tables of files and the bodies of fusions. */
function beginning(lines: readonly string[]): number {
  return Math.max(
    0,
    lines.findIndex(line => /^\s*(ENTRY|func\.func public)\b/.test(line)),
  );
}

function leftOut(listing: Listing): string {
  return `${plural(listing.dropped, "character")} of this text were left out to keep the saved report small.`;
}

interface LineProps {
  readonly at: number;
  readonly text: string;
  readonly instruction: Instruction | undefined;
  readonly listing: Listing;
  readonly lit: boolean;
  readonly hit: boolean;
  readonly cursor: boolean;
  readonly choose: () => void;
}

function LineOf({ at, text, instruction, listing, lit, hit, cursor, choose }: LineProps) {
  const style = `row${instruction ? " instruction" : ""}${lit ? " lit" : ""}${hit ? " hit" : ""}${cursor ? " cursor" : ""}`;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys are taken by the list around it
    // biome-ignore lint/a11y/useFocusableInteractive: the list has the focus and names its active row
    <div
      id={`row-${at}`}
      role="option"
      aria-selected={lit || cursor}
      class={style}
      style={{ height: `${ROW}px` }}
      onClick={choose}
    >
      <span class="number">{at + 1}</span>
      <span class="operation">{coloured(text, instruction)}</span>
      {instruction && <Origin instruction={instruction} listing={listing} />}
    </div>
  );
}

/** The text with its opcode picked out. */
function coloured(text: string, instruction: Instruction | undefined) {
  const shown = clip(text, WIDEST);
  const at = instruction ? shown.indexOf(`${instruction.opcode}(`) : -1;
  const start = at >= 0 ? at : instruction ? shown.indexOf(instruction.opcode) : -1;
  if (!instruction?.opcode || start < 0) return visible(shown);
  const end = start + instruction.opcode.length;
  return (
    <>
      {visible(shown.slice(0, start))}
      <span class="primitive">{visible(shown.slice(start, end))}</span>
      {visible(shown.slice(end))}
    </>
  );
}

function Origin({ instruction, listing }: { instruction: Instruction; listing: Listing }) {
  const lines = [...new Set(instruction.frames.map(at => listing.frames[at]?.span.line))].sort(
    (a, b) => Number(a) - Number(b),
  );
  const fused = instruction.fused ? `fuses ${instruction.fused}` : "";
  const from = lines.length ? `:${lines.slice(0, 6).join(" :")}${lines.length > 6 ? " …" : ""}` : "";
  return <span class="at">{[fused, from].filter(Boolean).join("  ")}</span>;
}
