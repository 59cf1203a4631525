// Wires beside the list: a dot where a value is made, a tick where it is used.
import { LANES, type Wire } from "../layout/wires";

export interface Lit {
  readonly wire: Wire;
  readonly style: "made" | "used";
}

const LANE = 7;

/** Width of the gutter in px. */
export const GUTTER = (LANES + 2) * LANE + 10;

interface Props {
  readonly wires: readonly Wire[];
  readonly lit: readonly Lit[];
  readonly rowHeight: number;
  readonly first: number;
  readonly last: number;
}

export function Wires({ wires, lit, rowHeight, first, last }: Props) {
  const height = (last - first + 1) * rowHeight;
  const path = (wire: Wire, lane: number, tick: number): string => wirePath(wire, lane, tick, rowHeight, first, last);
  return (
    <svg
      class="wires"
      aria-hidden="true"
      width={GUTTER}
      height={height}
      style={{ transform: `translateY(${first * rowHeight}px)` }}
    >
      {wires.map(wire => (
        <path key={wire.variable} class="wire" d={path(wire, wire.lane, 4)} />
      ))}
      {lit.map(({ wire, style }) => (
        <g key={`${style} ${wire.variable}`} class={`wire ${style}`}>
          <path d={path(wire, LIT[style], GUTTER)} />
          {wire.from >= first && wire.from <= last && (
            <circle cx={laneX(LIT[style])} cy={(wire.from - first + 0.5) * rowHeight} r="2.5" />
          )}
        </g>
      ))}
    </svg>
  );
}

/** Values that go in and values that come out have a lane each, next to the text. */
const LIT: Record<Lit["style"], number> = { used: LANES, made: LANES + 1 };

function laneX(lane: number): number {
  return lane * LANE + LANE / 2 + 2;
}

/** Down the lane from definition to last use, with a tick towards the text at each end in sight. */
function wirePath(wire: Wire, lane: number, tick: number, rowHeight: number, first: number, last: number): string {
  const x = laneX(lane);
  const y = (row: number): number => (Math.min(Math.max(row, first - 1), last + 1) - first + 0.5) * rowHeight;
  const ends = [wire.from, ...wire.uses].filter(row => row >= first && row <= last);
  const to = Math.min(x + tick, GUTTER - 3);
  return [`M${x} ${y(wire.from)}V${y(wire.to)}`, ...ends.map(row => `M${x} ${y(row)}H${to}`)].join("");
}
