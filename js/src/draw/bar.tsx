// One horizontal bar of parts. The numbers stand beside it as text.
export interface Part {
  readonly name: string;
  readonly value: number;
}

export function Bar({ parts, of }: { parts: readonly Part[]; of: number }) {
  return (
    <span class="bar" aria-hidden="true">
      {parts.map(({ name, value }) => (
        <i key={name} class={name} style={{ width: `${of > 0 ? Math.min(100, (100 * value) / of) : 0}%` }} />
      ))}
    </span>
  );
}
