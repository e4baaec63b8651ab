import { useDeferredValue, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { api, explain } from '../api/client';
import type { Session } from '../api/types';
import { Revealed, revealed } from '../text/reveal';
import { ago } from '../ui/format';
import { Icon, type IconName } from '../ui/Icon';
import { address, go, type View } from './route';
import { app } from './store';

const ENTRIES: { view: View; name: string; icon: IconName }[] = [
  { view: 'sessions', name: 'Sessions', icon: 'chat' },
  { view: 'changes', name: 'Changes', icon: 'changes' },
  { view: 'tools', name: 'Tools', icon: 'tools' },
  { view: 'audit', name: 'Audit', icon: 'audit' },
  { view: 'settings', name: 'Settings', icon: 'settings' },
];

/** For those who may see what all callers do. On a phone it is reached from the settings. */
const TRAFFIC = { view: 'traffic', name: 'Traffic', icon: 'pulse' } as const;

export function Navigation({ view }: { view: View }) {
  const { isOperator } = useSyncExternalStore(app.subscribe, app.snapshot);
  return (
    <nav className="navigation" aria-label="Main">
      {[...ENTRIES, ...(isOperator ? [TRAFFIC] : [])].map((entry) => (
        <a key={entry.view} className={entry.view === 'traffic' ? 'is-wide' : undefined} href={address(entry.view)} aria-current={entry.view === view ? 'page' : undefined}>
          <Icon name={entry.icon} />
          <span>{entry.name}</span>
        </a>
      ))}
    </nav>
  );
}

/** The conversations, most recently used first. */
export function SessionList({ current }: { current: string | undefined }) {
  const { sessions, nextCursor, query, approvals } = useSyncExternalStore(app.subscribe, app.snapshot);
  const [text, setText] = useState(query);
  const wanted = useDeferredValue(text);
  useEffect(() => {
    if (wanted !== app.snapshot().query) void app.search(wanted).catch(() => undefined);
  }, [wanted]);
  const waiting = new Set(approvals.map((approval) => approval.session));
  return (
    <section className="sessions" aria-label="Session list">
      <div className="sessions-head">
        <label className="search">
          <Icon name="search" />
          <span className="visually-hidden">Search sessions</span>
          <input type="search" value={text} placeholder="Search" onChange={(event) => setText(event.target.value)} />
        </label>
        <a className="icon-button" href={address('sessions')} aria-label="New session" title="New session">
          <Icon name="plus" />
        </a>
      </div>
      <ul>
        {sessions.map((session) => (
          <SessionRow key={session.id} session={session} isCurrent={session.id === current} isWaiting={waiting.has(session.id)} />
        ))}
      </ul>
      {sessions.length === 0 && <p className="muted empty-list">{query ? 'No session has this in its title.' : 'Sessions appear here.'}</p>}
      {nextCursor && (
        <button type="button" className="show-more" onClick={() => void app.more()}>
          Show more
        </button>
      )}
    </section>
  );
}

interface RowProps {
  session: Session;
  isCurrent: boolean;
  isWaiting: boolean;
}

function SessionRow({ session, isCurrent, isWaiting }: RowProps) {
  const [editing, setEditing] = useState(false);
  const title = session.title || 'New session';
  const state = isWaiting ? 'waits for an answer' : session.running ? 'working' : '';
  return (
    <li className={isCurrent ? 'session is-current' : 'session'}>
      {editing ? (
        <Rename session={session} done={() => setEditing(false)} />
      ) : (
        <a href={address('sessions', session.id)} aria-current={isCurrent ? 'true' : undefined} title={revealed(title)}>
          <span className="session-title">
            <Revealed text={title} />
          </span>
          <span className="session-meta">
            {state && <span className={isWaiting ? 'dot dot-gate' : 'dot dot-busy'} role="img" aria-label={state} />}
            {ago(session.usedAt)}
          </span>
        </a>
      )}
      {!editing && <SessionMenu session={session} rename={() => setEditing(true)} isCurrent={isCurrent} />}
    </li>
  );
}

function Rename({ session, done }: { session: Session; done: () => void }) {
  const [title, setTitle] = useState(session.title);
  const isOver = useRef(false);
  const save = async () => {
    // Leaving the field saves as Enter does; Escape leaves it as well.
    if (isOver.current) return;
    isOver.current = true;
    if (title.trim() && title !== session.title) app.put(await api.changeSession(session.id, { title: title.trim() }));
    done();
  };
  return (
    <form
      className="rename"
      onSubmit={(event) => {
        event.preventDefault();
        void save().catch(done);
      }}
    >
      <input autoFocus aria-label="Title of the session" value={title} maxLength={200} onChange={(event) => setTitle(event.target.value)} onBlur={() => void save().catch(done)} onKeyDown={(event) => event.key === 'Escape' && ((isOver.current = true), done())} />
    </form>
  );
}

function SessionMenu({ session, rename, isCurrent }: { session: Session; rename: () => void; isCurrent: boolean }) {
  const details = useRef<HTMLDetailsElement>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState('');
  const close = () => details.current?.removeAttribute('open');
  useEffect(() => {
    const outside = (event: Event) => {
      if (!details.current?.contains(event.target as Node)) close();
    };
    document.addEventListener('pointerdown', outside);
    return () => document.removeEventListener('pointerdown', outside);
  }, []);
  const remove = async () => {
    try {
      await api.deleteSession(session.id);
      app.remove(session.id);
      if (isCurrent) go('sessions');
    } catch (error) {
      setProblem(explain(error));
    }
  };
  const title = revealed(session.title || 'New session');
  return (
    <>
      <details ref={details} className="menu" onKeyDown={(event) => event.key === 'Escape' && close()}>
        <summary aria-label={`Actions for ${title}`}>⋯</summary>
        <div className="menu-items">
          <button type="button" onClick={() => (close(), rename())}>
            <Icon name="pencil" /> Rename
          </button>
          <a href={api.exportAddress(session.id)} download onClick={close}>
            <Icon name="download" /> Export
          </a>
          <a href={address('changes', session.id)} onClick={close}>
            <Icon name="changes" /> Changes
          </a>
          <button type="button" className="is-danger" onClick={() => (close(), dialog.current?.showModal())}>
            <Icon name="trash" /> Delete
          </button>
        </div>
      </details>
      <dialog ref={dialog} className="dialog" aria-label="Delete this session?">
        <h2>Delete this session?</h2>
        <p>“{title}” is removed with everything that was said in it. Files that it changed stay as they are, and so does the record.</p>
        {problem && <p className="problem">{problem}</p>}
        <div className="dialog-actions">
          <button type="button" className="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button type="button" className="button is-danger" onClick={() => void remove()}>
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}
