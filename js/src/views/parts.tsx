// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Severity } from "../findings";
import type { Span } from "../protocol";
import { label, visible } from "../text";
import type { Shown } from "./shown";

/** A link to a line of the source. */
export function Where({ span, shown }: { span: Span | null; shown: Shown }) {
  if (!span) return null;
  const { file, line } = span;
  return (
    <button type="button" class="link where" onClick={() => shown.act({ type: "line", file, line })}>
      {shown.where(span)}
    </button>
  );
}

type Sign = Severity | "stopped";

const SIGNS: Record<Sign, readonly [string, string]> = {
  stopped: ["■", "Interrupted here"],
  error: ["✕", "Error"],
  "wrong-result": ["▲", "Wrong result"],
  slow: ["◷", "Slow"],
  note: ["●", "Note"],
};

/** Severity as sign and word, so that colour is never the only carrier. */
export function Sign({ severity, word = true }: { severity: Sign; word?: boolean }) {
  const [sign, name] = SIGNS[severity];
  return (
    <span class={`sign ${severity}`} title={word ? undefined : name}>
      <span aria-hidden="true">{sign}</span>
      {word ? ` ${name}` : <span class="unseen">{name}</span>}
    </span>
  );
}

/** Copies a text, and says so. */
export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState("");
  const copy = async (): Promise<void> => {
    const copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setDone(copied ? "Copied" : "Select and copy by hand");
    setTimeout(() => setDone(""), 2000);
  };
  return (
    <span class="copy">
      <button type="button" class="small" onClick={copy} aria-label={`Copy ${what}`}>
        Copy
      </button>
      <span role="status">{done}</span>
    </span>
  );
}

/** A quiet statement in the place of content. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** A foldable section. */
export function Fold({
  title,
  children,
  open = false,
}: {
  title: ComponentChildren;
  children: ComponentChildren;
  open?: boolean;
}) {
  return (
    <details class="fold" open={open}>
      <summary>{title}</summary>
      {children}
    </details>
  );
}

/** The user's own text: isolated, so that its direction stays inside. */
export function Name({ text, most = 80 }: { text: string; most?: number }) {
  return (
    <bdi class="name" title={text.length > most ? label(text, 400) : undefined}>
      {label(text, most)}
    </bdi>
  );
}

/** Sentences of ours and of others, with what stands between backticks as code. */
export function Prose({ text }: { text: string }) {
  return (
    <>
      {visible(text)
        .split(/`([^`\n]+)`/)
        .map((piece, at) => (at % 2 ? <code key={piece}>{piece}</code> : piece))}
    </>
  );
}

export interface Choice<T> {
  readonly value: T;
  readonly label: string;
  readonly off?: string;
}

/** Some buttons of which one is down. */
export function Choices<T extends string>(props: {
  label: string;
  choices: readonly Choice<T>[];
  value: T;
  choose: (value: T) => void;
}) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset brings a frame and a legend; this is a toolbar
    <div class="choices" role="group" aria-label={props.label}>
      {props.choices.map(({ value, label, off }) => (
        <button
          type="button"
          key={value}
          aria-pressed={value === props.value}
          disabled={off !== undefined}
          title={off}
          onClick={() => props.choose(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
