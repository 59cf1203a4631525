// A view that fails says so in its place; the rest of the panel goes on.
import { Component, type ComponentChildren } from "preact";

export class Guard extends Component<{ children: ComponentChildren }, { error: string }> {
  override state = { error: "" };

  static override getDerivedStateFromError(error: unknown): { error: string } {
    return { error: String(error) };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <p class="empty" role="alert">
        This view failed ({this.state.error}). The text form of this output, <code>print(report)</code> and the JSON
        button above still have everything.
      </p>
    );
  }
}
