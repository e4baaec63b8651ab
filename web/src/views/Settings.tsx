import { useEffect, useState, useSyncExternalStore } from 'react';
import { api, explain } from '../api/client';
import type { Grant } from '../api/types';
import { permission, turnOff, turnOn } from '../app/notify';
import { address } from '../app/route';
import { app } from '../app/store';
import { setTheme, theme, type Theme } from '../app/theme';
import { useLoaded } from '../app/useLoaded';
import { Revealed, revealed } from '../text/reveal';
import { clock, tokens } from '../ui/format';
import { Icon, type IconName } from '../ui/Icon';
import { Empty, Failed, Page } from './Page';

const THEMES: { value: Theme; name: string; icon: IconName }[] = [
  { value: 'system', name: 'System', icon: 'settings' },
  { value: 'light', name: 'Light', icon: 'sun' },
  { value: 'dark', name: 'Dark', icon: 'moon' },
];

export default function Settings() {
  const { me } = useSyncExternalStore(app.subscribe, app.snapshot);
  return (
    <Page title="Settings" about={`You are ${me?.subject ?? ''}. Toolgate ${me?.version ?? ''}, profile ${me?.profile ?? ''}, sessions begin ${me?.trust ?? ''}.`}>
      <Appearance />
      <Keys />
      <Notifications />
      <Grants />
      <ModelList />
      <Operation />
      {me && me.auth !== 'none' && (
        <section aria-label="This browser">
          <h2>This browser</h2>
          <button type="button" className="button" onClick={() => void app.logout().catch(() => undefined)}>
            Log out
          </button>
        </section>
      )}
    </Page>
  );
}

function Appearance() {
  const [chosen, setChosen] = useState(theme);
  return (
    <section aria-label="Appearance">
      <h2>Appearance</h2>
      <div className="segmented" role="group" aria-label="Theme">
        {THEMES.map(({ value, name, icon }) => (
          <button key={value} type="button" aria-pressed={chosen === value} onClick={() => (setTheme(value), setChosen(value))}>
            <Icon name={icon} /> {name}
          </button>
        ))}
      </div>
    </section>
  );
}

const KEYS: [string, string][] = [
  ['Enter', 'sends the message; Shift+Enter begins a line'],
  ['Ctrl+.', 'moves to the question that waits'],
  ['A', 'approves this call, while the question has the focus'],
  ['S', 'approves every later call of this tool in the session'],
  ['G', 'chooses a lasting grant'],
  ['E', 'edits the call'],
  ['R', 'moves to the reason; Enter then refuses'],
  ['Esc', 'leaves the question for the message, without an answer'],
];

function Keys() {
  return (
    <section aria-label="Keyboard">
      <h2>Keyboard</h2>
      <dl className="facts keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Notifications() {
  const [state, setState] = useState(permission);
  const words = {
    unsupported: 'This browser shows no notifications here; they need https, or this machine itself.',
    denied: 'This browser was set to show none from this page.',
    on: 'A question that waits is notified while this page is in the background.',
    off: 'A question that waits can be notified while this page is in the background.',
  };
  return (
    <section aria-label="Notifications">
      <h2>Notifications</h2>
      <p className="muted">{words[state]}</p>
      {state === 'off' && (
        <button type="button" className="button" onClick={() => void turnOn().then(setState, () => undefined)}>
          <Icon name="bell" /> Turn on
        </button>
      )}
      {state === 'on' && (
        <button type="button" className="button" onClick={() => setState(turnOff())}>
          Turn off
        </button>
      )}
    </section>
  );
}

function Grants() {
  const grants = useLoaded(() => api.grants(), 'grants');
  const [problem, setProblem] = useState('');
  const revoke = (grant: Grant) => api.revoke(grant.id).then(grants.reload, (error: unknown) => setProblem(explain(error)));
  return (
    <section aria-label="Lasting grants">
      <h2>Lasting grants</h2>
      <p className="muted">Questions that were answered for longer than one call. None of them gives a right; each only saves a question.</p>
      <Failed problem={grants.problem} />
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {grants.value?.items.length === 0 && <Empty>There are none.</Empty>}
      <ul className="rows">
        {grants.value?.items.map((grant) => (
          <li key={grant.id} className="row">
            <div className="row-head">
              <span className="row-title">
                <Icon name="key" />
                <span className="tool-name">{revealed(grant.tool)}</span>
                <span className="row-about">
                  <Revealed text={grant.covers} />
                </span>
              </span>
              <span className="row-meta">{grant.expiresAt ? `until ${clock(grant.expiresAt)}` : revealed(grant.lasts)}</span>
              <button type="button" className="button is-small" onClick={() => void revoke(grant)}>
                Revoke
              </button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function ModelList() {
  const { value, problem } = useLoaded(() => api.models(), 'models');
  return (
    <section aria-label="Models">
      <h2>Models</h2>
      <Failed problem={problem} />
      <ul className="rows">
        {value?.items.map((model) => (
          <li key={model.model} className="row">
            <div className="row-head">
              <span className="row-title">
                <span className="tool-name">{revealed(model.model)}</span>
              </span>
              <span className="row-meta">
                {model.contextWindow ? `${tokens(model.contextWindow)} tokens` : ''}
                <span className="chip">{model.supportsTools === false ? 'no tools' : 'tools'}</span>
                {model.default && <span className="chip">default</span>}
              </span>
            </div>
          </li>
        ))}
        {value?.providers
          .filter((provider) => !provider.reachable)
          .map((provider) => (
            <li key={provider.name} className="row is-unavailable">
              <div className="row-head">
                <span className="row-title">
                  <span className="tool-name">{revealed(provider.name)}</span>
                </span>
                <span className="row-meta">{revealed(provider.reason ?? 'cannot be reached')}</span>
              </div>
            </li>
          ))}
      </ul>
    </section>
  );
}

const REFRESH_MS = 5000;

/** For operators: how busy the gate is, and what it refuses. */
function Operation() {
  const { isOperator } = useSyncExternalStore(app.subscribe, app.snapshot);
  const health = useLoaded(() => api.health(), 'health');
  const { reload } = health;
  useEffect(() => {
    const timer = setInterval(reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, [reload]);
  const now = health.value;
  return (
    <section aria-label="Operation">
      <h2>Operation</h2>
      <Failed problem={health.problem} />
      {isOperator && (
        <p>
          <a href={address('traffic')}>Traffic of all callers</a>
        </p>
      )}
      {now && (
        <>
          <dl className="figures">
            <Figure name="Status" value={now.status} />
            <Figure name="Record" value={now.recording ? 'written' : 'not written'} />
            <Figure name="Sessions at work" value={now.sessionsRunning} />
            <Figure name="Calls in flight" value={now.callsInFlight} />
            <Figure name="Questions" value={now.openApprovals} />
            <Figure name="Connections" value={now.connections} />
          </dl>
          <div className="tables">
            <Counts title="Calls" rows={now.calls.map((row) => [`${row.class} · ${row.decision}`, row.count])} />
            <Counts title="Refusals" rows={now.refusals.map((row) => [`${row.stage} · ${row.code}`, row.count])} />
          </div>
        </>
      )}
    </section>
  );
}

function Figure({ name, value }: { name: string; value: string | number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Counts({ title, rows }: { title: string; rows: [string, number][] }) {
  if (rows.length === 0) return null;
  return (
    <table className="records">
      <caption>{title}</caption>
      <tbody>
        {rows.map(([name, count]) => (
          <tr key={name}>
            <td>{revealed(name)}</td>
            <td className="number">{count}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
