// The program-order list: every equation of the open regions, with the wires of its values in the gutter.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { GUTTER, type Lit, Wires } from "../draw/wires";
import type { NamedProgram } from "../index/program";
import { firstOpen, type Positions, positionsOf, type Row, reveal, rowsOf, toggled } from "../layout/rows";
import { layWires, wireOf, wiresBetween } from "../layout/wires";
import type { Program } from "../protocol";
import { plural } from "../text";
import { EquationRow, RegionRow, ReturnRow } from "./equation";
import { List, useCursor, walk } from "./list";
import type { Shown } from "./shown";

const ROW = 20;

interface Props {
  readonly index: NamedProgram;
  readonly shown: Shown;
  readonly hits: ReadonlySet<number>;
}

export function Equations({ index, shown, hits }: Props) {
  const { linked, state, act } = shown;
  const [open, setOpen] = useOpenRegions(index, linked.equations);
  const rows = useMemo(() => rowsOf(index, open), [index, open]);
  const positions = useMemo(() => positionsOf(rows), [rows]);
  const behind = useWires(index, rows, positions, shown);
  const selected = useMemo(() => firstRow(linked.equations, positions.equation), [linked, positions]);
  const cursor = useCursor(selected, state.focus);
  const choose = (at: number): void => {
    const row = rows[at];
    if (row?.kind === "equation") act({ type: "focus", focus: { kind: "equation", at: row.at } });
    else if (row?.kind === "region") act({ type: "region", region: row.region });
    cursor.goTo(at);
  };
  const toggle = (region: number): void => setOpen(toggled(open, region));
  const onKey = walk(cursor.at, rows.length, choose, key => foldBy(key, rows[cursor.at ?? -1], toggle));
  const rowAt = (at: number) => (
    <RowView
      key={at}
      {...{ index, shown, hits, at, toggle }}
      row={rows[at] as Row}
      cursor={at === cursor.at}
      count={rows.length}
      choose={() => choose(at)}
    />
  );
  return (
    <List
      label="Equations in program order"
      role="tree"
      count={rows.length}
      rowHeight={ROW}
      {...{ cursor, onKey, behind }}
      row={rowAt}
    />
  );
}

/** Draws the wires behind the rows in sight. */
function useWires(index: NamedProgram, rows: readonly Row[], positions: Positions, shown: Shown) {
  const wires = useMemo(() => layWires(index, rows, positions), [index, rows, positions]);
  const lit = useMemo(
    () =>
      litValues(index, shown).flatMap(({ variable, style }): Lit[] => {
        const wire = wireOf(index, positions, variable);
        return wire ? [{ wire, style }] : [];
      }),
    [index, positions, shown.state.focus],
  );
  return (first: number, last: number) => (
    <Wires
      wires={wiresBetween(wires, first, last)}
      lit={lit.filter(({ wire }) => wire.to >= first && wire.from <= last)}
      rowHeight={ROW}
      {...{ first, last }}
    />
  );
}

const opened = new WeakMap<Program, ReadonlySet<number>>();

function openIn(index: NamedProgram): ReadonlySet<number> {
  const open = opened.get(index.program) ?? firstOpen(index);
  opened.set(index.program, open);
  return open;
}

/** Open regions are remembered while the program lives; whatever is selected is always open. */
function useOpenRegions(
  index: NamedProgram,
  selected: ReadonlySet<number>,
): [ReadonlySet<number>, (open: ReadonlySet<number>) => void] {
  const [, redraw] = useState<ReadonlySet<number> | null>(null);
  const set = (next: ReadonlySet<number>): void => {
    opened.set(index.program, next);
    redraw(next);
  };
  const [first] = selected;
  useEffect(() => {
    if (first !== undefined) set(reveal(index, openIn(index), [first]));
  }, [index, first]);
  return [openIn(index), set];
}

function firstRow(equations: ReadonlySet<number>, rows: ReadonlyMap<number, number>): number | null {
  for (const at of equations) {
    const row = rows.get(at);
    if (row !== undefined) return row;
  }
  return null;
}

/** Values that come into and go out of what is selected. */
function litValues(index: NamedProgram, { state }: Shown): { variable: number; style: Lit["style"] }[] {
  const { focus } = state;
  if (focus?.kind === "variable") return [{ variable: focus.id, style: "made" }];
  if (focus?.kind !== "equation") return [];
  const equation = index.equations[focus.at];
  const into = (equation?.ins ?? []).filter(operand => typeof operand === "number");
  return [
    ...[...new Set(into)].map(variable => ({ variable, style: "used" as const })),
    ...(equation?.outs ?? []).map(out => ({ variable: out.id, style: "made" as const })),
  ];
}

function foldBy(key: string, row: Row | undefined, toggle: (region: number) => void): boolean {
  if (row?.kind !== "region") return false;
  const wanted = { ArrowRight: true, ArrowLeft: false, Enter: !row.open, " ": !row.open }[key];
  if (wanted === undefined) return false;
  if (wanted !== row.open) toggle(row.region);
  return true;
}

interface RowProps extends Props {
  readonly row: Row;
  readonly at: number;
  readonly count: number;
  readonly cursor: boolean;
  readonly choose: () => void;
  readonly toggle: (region: number) => void;
}

function RowView(props: RowProps) {
  const { index, shown, row, at } = props;
  const lit = row.kind === "equation" && shown.linked.equations.has(row.at);
  const hit = row.kind === "equation" && props.hits.has(row.at);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys are taken by the tree around it
    // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus and names its active row
    <div
      id={`row-${at}`}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-posinset={at + 1}
      aria-setsize={props.count}
      aria-selected={lit || props.cursor}
      aria-expanded={row.kind === "region" ? row.open : undefined}
      class={`row ${row.kind}${lit ? " lit" : ""}${hit ? " hit" : ""}${props.cursor ? " cursor" : ""}`}
      style={{ height: `${ROW}px`, paddingInlineStart: `${GUTTER + row.depth * 14}px` }}
      onClick={props.choose}
    >
      {rowText(props, index)}
    </div>
  );
}

function rowText({ row, shown, toggle }: RowProps, index: NamedProgram): ComponentChildren {
  switch (row.kind) {
    case "equation":
      return <EquationRow index={index} at={row.at} shown={shown} />;
    case "region":
      return (
        <RegionRow index={index} region={row.region} open={row.open} shown={shown} toggle={() => toggle(row.region)} />
      );
    case "end":
      return <ReturnRow index={index} region={row.region} shown={shown} />;
    case "hidden":
      return (
        <span class="quiet">
          … {plural(index.places[row.region]?.region.hidden ?? 0, "equation")} left out to keep the report small
        </span>
      );
  }
}
