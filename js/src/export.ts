// Files to take away: the report as JSON, tables as CSV, a graph as SVG.
import type { Compiled, Report, TapSeries } from "./protocol";
import { aval } from "./text";

/** Offers a text to the browser as a file. */
export function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `jaxmagic-${name}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function reportJson(report: Report): string {
  return JSON.stringify(report, null, 1);
}

type Cell = string | number | boolean | null | undefined;

export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map(row => `${row.map(quoted).join(",")}\r\n`).join("");
}

/** A cell that begins like a formula is prefixed, or a spreadsheet would run it. */
function quoted(cell: Cell): string {
  const text = String(cell ?? "");
  const safe = typeof cell === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const LEDGER = [
  ..."id,function,kind,library,parent,trace,calls,reason,inputs".split(","),
  ..."trace_s,lower_s,compile_s,run_s,flops,bytes_accessed,peak_bytes,donated,constant_bytes".split(","),
];

/** One line a trace. */
export function ledgerCsv(compiled: readonly Compiled[]): string {
  const lines = compiled.flatMap(each =>
    each.traces.map((trace, at): Cell[] => [
      each.id,
      each.name,
      each.kind,
      each.library,
      each.parent,
      at,
      trace.calls,
      trace.reason.text || trace.reason.kind,
      trace.inputs.map(input => `${input.name}: ${input.aval ? aval(input.aval) : input.static}`).join("; "),
      trace.trace_s,
      trace.lower_s,
      trace.compile_s,
      trace.run_s,
      trace.cost?.flops,
      trace.cost?.bytes_accessed,
      trace.cost?.peak_bytes,
      trace.inputs.filter(input => input.donated).length,
      trace.constants.reduce((sum, constant) => sum + constant.bytes, 0),
    ]),
  );
  return csv([LEDGER, ...lines]);
}

/** One line an event. */
export function seriesCsv(series: TapSeries): string {
  const head = "number,step,loop,device,time,min,max,mean,std,nan,posinf,neginf,value".split(",");
  const lines = series.events.map(({ summary, ...event }): Cell[] => [
    event.number,
    event.step,
    event.loop.join("/"),
    event.device,
    event.time,
    summary?.min,
    summary?.max,
    summary?.mean,
    summary?.std,
    summary?.nan,
    summary?.posinf,
    summary?.neginf,
    event.value === null ? "" : JSON.stringify(event.value),
  ]);
  return csv([head, ...lines]);
}

/** The drawing with its computed colours written in, so that it looks the same outside the page. */
export function svgText(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = svg.querySelectorAll<SVGElement>("*");
  copy.querySelectorAll<SVGElement>("*").forEach((element, at) => {
    const style = getComputedStyle(originals[at] as SVGElement);
    for (const name of [
      "fill",
      "stroke",
      "stroke-width",
      "stroke-dasharray",
      "font-family",
      "font-size",
      "font-weight",
    ]) {
      element.style.setProperty(name, style.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}
