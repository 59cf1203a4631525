// The table of compiled functions. A row opens to show its traces; those of libraries are folded away.
import { useMemo, useState } from "preact/hooks";
import { Bar } from "../draw/bar";
import { ledgerCsv, save } from "../export";
import { type Column, ledger, type Row, secondsOf, sorted } from "../ledger";
import { bytes, count, label, plural, seconds } from "../text";
import { Empty, Where } from "./parts";
import type { Shown } from "./shown";
import { TraceView } from "./trace";

const COLUMNS: readonly (readonly [Column, string, string])[] = [
  ["name", "Function", ""],
  ["calls", "Calls", "num"],
  ["traces", "Traces", "num"],
  ["seconds", "Seconds", "num"],
  ["flops", "FLOPs", "num"],
  ["bytes", "Bytes", "num wide"],
  ["peak", "Peak", "num"],
  ["donated", "Donated", "num wide"],
  ["constants", "Constants", "num wide"],
];

export function Ledger({ shown }: { shown: Shown }) {
  const { compiled } = shown.report;
  const [column, setColumn] = useState<Column>("order");
  const [withLibrary, setWithLibrary] = useState(false);
  const all = useMemo(() => ledger(compiled), [compiled]);
  const rows = sorted(
    all.filter(row => withLibrary || !row.compiled.library),
    column,
  );
  const hidden = all.filter(row => row.compiled.library).length;
  const most = Math.max(...rows.map(secondsOf), 0);
  return (
    <section aria-label="Compiled functions">
      <h3>
        Compiled functions <span class="grow" />
        {hidden > 0 && (
          <button type="button" class="small" aria-pressed={withLibrary} onClick={() => setWithLibrary(!withLibrary)}>
            {withLibrary ? "Hide" : "Show"} {plural(hidden, "library function")}
          </button>
        )}
        <button type="button" class="small" onClick={() => save("functions.csv", "text/csv", ledgerCsv(compiled))}>
          CSV
        </button>
      </h3>
      {rows.length === 0 ? (
        <Empty>Only functions of libraries were compiled.</Empty>
      ) : (
        <div class="sideways">
          <table class="ledger">
            <Head column={column} sort={setColumn} />
            {rows.map(row => (
              <Body key={row.compiled.id} row={row} most={most} tree={column === "order"} shown={shown} />
            ))}
          </table>
        </div>
      )}
    </section>
  );
}

function Head({ column, sort }: { column: Column; sort: (column: Column) => void }) {
  return (
    <thead>
      <tr>
        {COLUMNS.map(([name, title, style]) => (
          <th
            key={name}
            scope="col"
            class={style}
            aria-sort={column === name ? (name === "name" ? "ascending" : "descending") : undefined}
          >
            <button type="button" onClick={() => sort(column === name ? "order" : name)}>
              {title}
              <span aria-hidden="true">{column === name ? (name === "name" ? " ↑" : " ↓") : ""}</span>
            </button>
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Body({ row, most, tree, shown }: { row: Row; most: number; tree: boolean; shown: Shown }) {
  const [open, setOpen] = useState(false);
  const { compiled } = row;
  return (
    <tbody>
      <tr class={compiled.library ? "library" : ""}>
        <th scope="row" style={{ paddingInlineStart: `${(tree ? row.depth : 0) * 14 + 4}px` }}>
          <button type="button" class="opener" aria-expanded={open} onClick={() => setOpen(!open)}>
            <span aria-hidden="true" class="caret">
              {open ? "▾" : "▸"}
            </span>
            <bdi title={label(compiled.name, 400)}>{label(compiled.name, 40)}</bdi>
          </button>{" "}
          <span class="tag">{label(compiled.kind, 24)}</span> <Where span={compiled.span} shown={shown} />
        </th>
        <Numbers row={row} most={most} />
      </tr>
      {open &&
        compiled.traces.map((trace, at) => (
          <tr key={at} class="opened">
            <td colSpan={COLUMNS.length}>
              <TraceView compiled={compiled} trace={trace} at={at} shown={shown} />
            </td>
          </tr>
        ))}
    </tbody>
  );
}

function Numbers({ row, most }: { row: Row; most: number }) {
  const parts = [
    { name: "trace", value: row.trace_s },
    { name: "lower", value: row.lower_s },
    { name: "compile", value: row.compile_s },
  ];
  const title = parts.map(part => `${part.name} ${seconds(part.value)}`).join(", ");
  return (
    <>
      <td class="num">
        {row.exact ? "" : "~"}
        {row.calls.toLocaleString("en")}
      </td>
      <td class={`num${row.traces > 1 ? " strong" : ""}`}>{row.traces}</td>
      <td class="num time" title={title}>
        <Bar parts={parts} of={most} /> <span>{seconds(secondsOf(row))}</span>
      </td>
      <td class="num">{row.flops === null ? "–" : count(row.flops)}</td>
      <td class="num wide">{row.bytes === null ? "–" : bytes(row.bytes)}</td>
      <td class="num">{row.peak === null ? "–" : bytes(row.peak)}</td>
      <td class="num wide">{row.donated || "–"}</td>
      <td class="num wide">{row.constants ? bytes(row.constants) : "–"}</td>
    </>
  );
}
