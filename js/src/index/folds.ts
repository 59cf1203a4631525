// Which lines of a long file are worth showing.
export interface Stretch {
  /** First and last line number, inclusive. */
  readonly first: number;
  readonly last: number;
  readonly folded: boolean;
}

/** Files up to this many lines are shown whole. */
const SHORT = 60;
const AROUND = 4;
/** A gap smaller than this is not worth a fold. */
const SMALL = 6;

/** The lines of a file in stretches; those far from anything known are folded away. */
export function stretches(first: number, count: number, known: Iterable<number>): Stretch[] {
  const last = first + count - 1;
  if (count <= SHORT) return count ? [{ first, last, folded: false }] : [];
  const found: Stretch[] = [];
  let next = first;
  for (const line of [...new Set(known)].filter(each => each >= first && each <= last).sort((a, b) => a - b)) {
    const from = Math.max(next, line - AROUND);
    const to = Math.min(last, line + AROUND);
    if (to < next) continue;
    if (from - next >= SMALL) found.push({ first: next, last: from - 1, folded: true });
    append(found, from - next >= SMALL ? from : next, to);
    next = to + 1;
  }
  if (next <= last) found.push({ first: next, last, folded: true });
  return found;
}

function append(found: Stretch[], first: number, last: number): void {
  const before = found[found.length - 1];
  if (before && !before.folded && before.last === first - 1) found[found.length - 1] = { ...before, last };
  else found.push({ first, last, folded: false });
}
