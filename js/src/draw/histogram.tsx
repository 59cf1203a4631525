// Counts in equal bins as bars.
import { number } from "../text";

interface Props {
  readonly counts: readonly number[];
  readonly low: number | null;
  readonly high: number | null;
}

const HEIGHT = 60;

export function Histogram({ counts, low, high }: Props) {
  const most = Math.max(...counts, 1);
  const width = 240 / Math.max(1, counts.length);
  return (
    <figure class="histogram">
      <svg
        width="240"
        height={HEIGHT}
        role="img"
        aria-label={`Histogram from ${number(low)} to ${number(high)}: ${counts.join(", ")}`}
      >
        {counts.map((count, at) => {
          const height = (count / most) * (HEIGHT - 2);
          return (
            <rect key={at} x={at * width + 0.5} y={HEIGHT - height} width={Math.max(1, width - 1)} height={height} />
          );
        })}
      </svg>
      <figcaption>
        <span>{number(low)}</span>
        <span>{number(high)}</span>
      </figcaption>
    </figure>
  );
}
