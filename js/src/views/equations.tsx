// The program-order list: every equation of the open regions, with the wires of its values in the gutter.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { GUTTER, type Lit, Wires } from "../draw/wires";
import type { NamedProgram } from "../index/program";
import { firstOpen, positionsOf, type Row, reveal, rowsOf, toggled } from "../layout/rows";
import { layWires, wireOf, wiresBetween } from "../layout/wires";
import type { Program } from "../protocol";
import { plural } from "../text";
import { EquationRow, RegionRow, ReturnRow } from "./equation";
import { List, movedBy, type Target } from "./list";
import type { Shown } from "./shown";

const ROW = 20;

export function Equations({ index, shown, hits }: { index: NamedProgram; shown: Shown; hits: ReadonlySet<number> }) {
  const { linked, state, act } = shown;
  const [open, setOpen] = useOpenRegions(index, linked.equations);
  const rows = useMemo(() => rowsOf(index, open), [index, open]);
  const positions = useMemo(() => positionsOf(rows), [rows]);
  const wires = useMemo(() => layWires(index, rows, positions), [index, rows, positions]);
  const [cursor, setCursor] = useState<number | null>(null);
  const [target, setTarget] = useState<Target | null>(null);
  const selected = useMemo(() => firstRow(linked.equations, positions.equation), [linked, positions]);
  useEffect(() => setCursor(selected), [selected, state.focus]);
  useEffect(() => setTarget(selected === null ? null : { row: selected }), [selected === null, state.focus]);
  const lit = useMemo(
    () => litWires(index, shown).map(each => ({ ...each, wire: wireOf(index, positions, each.variable) })),
    [index, positions, linked, state.focus],
  );
  const chooseRow = (at: number): void => {
    const row = rows[at];
    if (row?.kind === "equation") act({ type: "focus", focus: { kind: "equation", at: row.at } });
    else if (row?.kind === "region") act({ type: "region", region: row.region });
    setCursor(at);
    setTarget({ row: at });
  };
  const toggle = (region: number): void => setOpen(toggled(open, region));
  const onKey = (event: KeyboardEvent, page: number): void => {
    const to = movedBy(event.key, cursor ?? -1, rows.length, page);
    if (to !== null) chooseRow(to);
    else if (!foldBy(event.key, rows[cursor ?? -1], toggle)) return;
    event.preventDefault();
  };
  return (
    <List
      label="Equations in program order"
      role="tree"
      count={rows.length}
      rowHeight={ROW}
      target={target}
      active={cursor}
      onKey={onKey}
      row={at => (
        <RowView
          key={at}
          {...{ index, shown, hits, at, toggle }}
          row={rows[at] as Row}
          cursor={at === cursor}
          count={rows.length}
          choose={() => chooseRow(at)}
        />
      )}
      behind={(first, last) => (
        <Wires
          wires={wiresBetween(wires, first, last)}
          lit={lit.flatMap(({ wire, style }): Lit[] =>
            wire && wire.to >= first && wire.from <= last ? [{ wire, style }] : [],
          )}
          rowHeight={ROW}
          {...{ first, last }}
        />
      )}
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
function litWires(index: NamedProgram, { state }: Shown): { variable: number; style: Lit["style"] }[] {
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

interface RowProps {
  readonly index: NamedProgram;
  readonly shown: Shown;
  readonly hits: ReadonlySet<number>;
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
