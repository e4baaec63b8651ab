import { Component, type ReactNode } from 'react';

/** A mistake of the page: it says so, and that the gate is not affected, instead of showing nothing. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | undefined }> {
  override state: { error: Error | undefined } = { error: undefined };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <main className="page-problem">
        <h1>The page made a mistake</h1>
        <p className="muted">{this.state.error.message}</p>
        <p>The gate goes on: nothing was approved, and open questions still wait.</p>
        <button type="button" className="button" onClick={() => location.reload()}>
          Load the page again
        </button>
      </main>
    );
  }
}
