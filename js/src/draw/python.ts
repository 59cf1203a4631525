// Python text cut into tokens, only as finely as colours need.
export type Kind = "keyword" | "name" | "call" | "definition" | "number" | "string" | "comment" | "decorator" | "plain";

export interface Token {
  readonly start: number;
  readonly end: number;
  readonly kind: Kind;
}

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield match case"
  ).split(" "),
);

const PIECE =
  /(?<comment>^\s*[%!].*|#.*)|(?<string>[rRbBuUfF]{0,2}(?:"""|'''|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?))|(?<decorator>^\s*@[\w.]+)|(?<number>\b\d[\w.]*)|(?<name>[\p{L}_][\p{L}\p{N}_]*)/gu;

/** Tokens of each line; a triple-quoted string runs on from line to line. */
export function tokenize(lines: readonly string[]): Token[][] {
  let quote = "";
  return lines.map(line => {
    const [tokens, open] = tokenizeLine(line, quote);
    quote = open;
    return tokens;
  });
}

function tokenizeLine(line: string, quote: string): [Token[], string] {
  const tokens: Token[] = [];
  let from = 0;
  if (quote) {
    const end = line.indexOf(quote);
    if (end < 0) return [[{ start: 0, end: line.length, kind: "string" }], quote];
    from = end + 3;
    tokens.push({ start: 0, end: from, kind: "string" });
  }
  return [tokens, scan(line, from, tokens)];
}

/** Adds the tokens from `from` on; returns the triple quote that is open at the end of the line. */
function scan(line: string, from: number, tokens: Token[]): string {
  PIECE.lastIndex = from;
  for (let match = PIECE.exec(line); match; match = PIECE.exec(line)) {
    const [text] = match;
    const start = match.index;
    const triple = match.groups?.string?.match(/("""|''')$/)?.[0];
    if (triple && text.length <= 5) {
      const close = line.indexOf(triple, start + text.length);
      const end = close < 0 ? line.length : close + 3;
      tokens.push({ start, end, kind: "string" });
      if (close < 0) return triple;
      PIECE.lastIndex = end;
    } else {
      tokens.push({ start, end: start + text.length, kind: kindOf(match, line, tokens) });
    }
  }
  return "";
}

function kindOf(match: RegExpExecArray, line: string, before: readonly Token[]): Kind {
  const groups = match.groups ?? {};
  if (!groups.name) return (Object.keys(groups).find(key => groups[key] !== undefined) ?? "plain") as Kind;
  if (KEYWORDS.has(groups.name)) return "keyword";
  const last = before[before.length - 1];
  if (last?.kind === "keyword" && /^(def|class)$/.test(line.slice(last.start, last.end))) return "definition";
  return line[match.index + groups.name.length] === "(" ? "call" : "name";
}
