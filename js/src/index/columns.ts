// PEP 657 counts columns in UTF-8 bytes, JavaScript in UTF-16 units.

/** Position in the string of a byte offset. */
export function fromBytes(line: string, offset: number): number {
  let at = 0;
  let passed = 0;
  while (at < line.length && passed < offset) {
    const code = line.codePointAt(at) ?? 0;
    passed += width(code);
    at += code > 0xffff ? 2 : 1;
  }
  return at;
}

/** Byte offset of a position in the string. */
export function toBytes(line: string, position: number): number {
  let passed = 0;
  for (const char of line.slice(0, position)) passed += width(char.codePointAt(0) ?? 0);
  return passed;
}

function width(code: number): number {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}
