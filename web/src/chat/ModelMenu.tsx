import { useState } from 'react';
import { api, explain } from '../api/client';
import type { Session, Trust } from '../api/types';
import { app } from '../app/store';
import { useLoaded } from '../app/useLoaded';

export const TRUST: { value: Trust; name: string; what: string }[] = [
  { value: 'supervised', name: 'Supervised', what: 'asks before every call' },
  { value: 'guided', name: 'Guided', what: 'asks before changes and commands' },
  { value: 'autonomous', name: 'Autonomous', what: 'asks about nothing that is allowed' },
];

/** Which model works here, and what is asked about. Both count from the next turn. */
export function ModelMenu({ session, isBusy }: { session: Session; isBusy: boolean }) {
  const models = useLoaded(() => api.models(), 'models');
  const [problem, setProblem] = useState('');
  const change = async (changes: { model?: string; trust?: Trust }) => {
    setProblem('');
    try {
      app.put(await api.changeSession(session.id, changes));
    } catch (error) {
      setProblem(explain(error));
    }
  };
  const known = models.value?.items ?? [];
  const names = [...new Set([session.model, ...known.map((model) => model.model)])];
  const withoutTools = new Set(known.filter((model) => model.supportsTools === false).map((model) => model.model));
  return (
    <div className="model-menu">
      <select aria-label="Model" value={session.model} disabled={isBusy} onChange={(event) => void change({ model: event.target.value })}>
        {names.map((name) => (
          <option key={name} value={name}>
            {withoutTools.has(name) ? `${name} (no tools)` : name}
          </option>
        ))}
      </select>
      <select aria-label="Trust" title={TRUST.find((level) => level.value === session.trust)?.what} value={session.trust} disabled={isBusy} onChange={(event) => void change({ trust: event.target.value as Trust })}>
        {TRUST.map((level) => (
          <option key={level.value} value={level.value}>
            {level.name}
          </option>
        ))}
      </select>
      {problem && (
        <span className="problem" role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}
