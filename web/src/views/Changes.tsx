import { useState } from 'react';
import { api, explain } from '../api/client';
import type { Change, ChangeDiff, UndoAnswer } from '../api/types';
import { address } from '../app/route';
import { useLoaded } from '../app/useLoaded';
import { Diff } from '../text/Diff';
import { reversed } from '../text/diff';
import { Revealed, revealed } from '../text/reveal';
import { ago, clock } from '../ui/format';
import { Icon } from '../ui/Icon';
import { Empty, Failed, Page } from './Page';

/** What was changed, newest first, with undo. */
export default function Changes({ session }: { session: string | undefined }) {
  const [pages, setPages] = useState<Change[]>([]);
  const [cursor, setCursor] = useState<string | null>();
  const first = useLoaded(() => api.changes(session), session ?? '');
  const items = [...(first.value?.items ?? []), ...pages];
  const next = cursor === undefined ? first.value?.nextCursor : cursor;
  const more = async () => {
    if (!next) return;
    const list = await api.changes(session, next);
    setPages([...pages, ...list.items]);
    setCursor(list.nextCursor ?? null);
  };
  const reload = () => {
    setPages([]);
    setCursor(undefined);
    first.reload();
  };
  const about = session ? (
    <>
      Of one session. <a href={address('changes')}>Show those of all</a>
    </>
  ) : (
    'Every file that a call changed, from the journal.'
  );
  return (
    <Page title="Changes" about={about}>
      <Failed problem={first.problem} />
      {first.value && items.length === 0 && <Empty>Nothing was changed yet. What calls write, move or delete appears here and can be undone.</Empty>}
      <ol className="rows">
        {items.map((change) => (
          <ChangeRow key={change.callId} change={change} reload={reload} />
        ))}
      </ol>
      {next && (
        <button type="button" className="show-more" onClick={() => void more()}>
          Show more
        </button>
      )}
    </Page>
  );
}

function ChangeRow({ change, reload }: { change: Change; reload: () => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const [undoing, setUndoing] = useState(false);
  const state = change.undoneBy ? 'undone' : change.undoes ? 'an undo' : '';
  return (
    <li className={change.undoneBy ? 'row is-undone' : 'row'}>
      <div className="row-head">
        <button type="button" className="row-title" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          <span className="fold">
            <Icon name="chevron" size={12} />
          </span>
          <span className="files">
            {change.files.map((file) => (
              <span key={file.path}>
                <span className={`kind kind-${file.kind}`}>{file.kind}</span> <Revealed text={file.path} />
                {file.movedTo && (
                  <>
                    {' → '}
                    <Revealed text={file.movedTo} />
                  </>
                )}
              </span>
            ))}
          </span>
        </button>
        <span className="row-meta">
          {state && <span className="chip">{state}</span>}
          <a href={address('audit', change.callId)} title={clock(change.at)}>
            <Revealed text={change.tool} /> · {ago(change.at)}
          </a>
        </span>
        {!change.undoneBy && (
          <button type="button" className="button is-small" aria-label="Undo" onClick={() => setUndoing(true)}>
            <Icon name="undo" /> Undo
          </button>
        )}
      </div>
      {undoing && <UndoPreview change={change} close={() => setUndoing(false)} done={() => (setUndoing(false), reload())} />}
      {isOpen && <Details call={change.callId} />}
    </li>
  );
}

function Details({ call }: { call: string }) {
  const { value, problem } = useLoaded(() => api.change(call), call);
  return (
    <div className="row-body">
      <Failed problem={problem} />
      {value?.diffs?.map((diff) => <FileChange key={diff.path} change={diff} />)}
    </div>
  );
}

export function FileChange({ change }: { change: ChangeDiff }) {
  if (change.diff) return <Diff text={change.diff} />;
  const why = change.binary ? 'not text' : change.tooLarge ? 'too large to compare' : `${change.kind}, no difference in its text`;
  return (
    <p className="muted">
      <Revealed text={change.path} />: {why}
    </p>
  );
}

const UNDONE: Record<string, string> = { create: 'delete', delete: 'create' };

/** What undoing would do, before it is done: the change the other way round. */
function UndoPreview({ change, close, done }: { change: Change; close: () => void; done: () => void }) {
  const preview = useLoaded<UndoAnswer>(() => api.undo(change.callId, true, true), change.callId);
  const [problem, setProblem] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  // What was written since would be lost: that is said, and takes a second choice.
  const changed = preview.value?.diffs?.filter((diff) => diff.current === 'changed') ?? [];
  const isForced = changed.length > 0;
  const undo = async () => {
    setIsBusy(true);
    try {
      await api.undo(change.callId, false, isForced);
      done();
    } catch (error) {
      setProblem(explain(error));
      setIsBusy(false);
    }
  };
  return (
    <div className="undo" role="region" aria-label="What undoing would do">
      <h2>Undoing would do this</h2>
      <Failed problem={preview.problem} />
      {preview.value?.diffs?.map((diff) => <FileChange key={diff.path} change={{ ...diff, kind: UNDONE[diff.kind] ?? diff.kind, diff: diff.diff ? reversed(diff.diff) : null }} />)}
      {preview.value && !preview.value.diffs?.length && <p>{preview.value.paths.join(', ')}</p>}
      {isForced && (
        <p className="problem" role="status">
          {changed.map((diff) => revealed(diff.path)).join(', ')} was changed since; what was written later would be lost.
        </p>
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="dialog-actions">
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button type="button" className={isForced ? 'button is-danger' : 'button is-primary'} disabled={!preview.value || isBusy} onClick={() => void undo()}>
          {isForced ? 'Undo over later changes' : 'Undo this change'}
        </button>
      </div>
    </div>
  );
}
