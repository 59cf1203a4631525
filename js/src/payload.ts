// Payload → Report. A payload of another protocol is answered with a sentence, never with a failure.
import { type Payload, PROTOCOL, type Report } from "./protocol";

export type Decoded =
  | { readonly kind: "report"; readonly report: Report }
  | { readonly kind: "unreadable"; readonly message: string; readonly advice: string };

/** Unpacks what travels to the panel: base64 → gzip → JSON. */
export async function decode(payload: unknown, version: string): Promise<Decoded> {
  if (!isPayload(payload)) return unreadable("This output carries no report of jaxmagic.", "Run the cell again.");
  if (payload.protocol !== PROTOCOL) return otherProtocol(payload, version);
  try {
    return { kind: "report", report: JSON.parse(await gunzip(payload.report)) as Report };
  } catch (error) {
    return unreadable(`The saved report cannot be unpacked (${error}).`, "Run the cell again to make a new one.");
  }
}

/** The same for the same report, in whatever form of the output it came. */
export function keyOf(payload: unknown): string {
  if (!isPayload(payload)) return "";
  // Gzip ends with a checksum and the length of what was packed.
  return `${payload.report.length} ${payload.report.slice(-16)}`;
}

function otherProtocol(payload: Payload, version: string): Decoded {
  const newer = payload.protocol > PROTOCOL;
  return unreadable(
    `This report was saved by jaxmagic ${payload.version} (protocol ${payload.protocol}); ` +
      `this panel is of jaxmagic ${version} and reads protocol ${PROTOCOL}.`,
    newer
      ? `Install jaxmagic ${payload.version} or newer to open it, or run the cell again. The text form of this output is unaffected.`
      : "Run the cell again to make a new one. The text form of this output is unaffected.",
  );
}

function unreadable(message: string, advice: string): Decoded {
  return { kind: "unreadable", message, advice };
}

function isPayload(value: unknown): value is Payload {
  const payload = value as Payload | null;
  return typeof payload === "object" && typeof payload?.protocol === "number" && typeof payload.report === "string";
}

async function gunzip(base64: string): Promise<string> {
  const packed = Uint8Array.from(atob(base64), char => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
