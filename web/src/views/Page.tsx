import type { ReactNode } from 'react';
import { explain } from '../api/client';

/** A view with a heading, and room for actions beside it. */
export function Page({ title, about, actions, children }: { title: string; about: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="page" aria-labelledby="page-title">
      <header className="page-head">
        <div>
          <h1 id="page-title">{title}</h1>
          <p className="muted">{about}</p>
        </div>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

export function Failed({ problem }: { problem: unknown }) {
  return problem ? (
    <p className="problem" role="alert">
      {explain(problem)}
    </p>
  ) : null;
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}
