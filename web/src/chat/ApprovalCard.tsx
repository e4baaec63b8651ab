import { useEffect, useId, useRef, useState, type KeyboardEvent, type RefObject } from 'react';
import { ApiError, explain } from '../api/client';
import type { Answer, GrantOffer, Question } from '../api/types';
import { Revealed, revealed } from '../text/reveal';
import { json } from '../ui/format';
import { Mark } from '../ui/Icon';
import { CardBody } from './CardBody';
import { Countdown } from './Countdown';
import { CallEditor, isObject, type Edited } from './CallEditor';
import { GrantChooser } from './GrantChooser';
import { ScrolledCall } from './ScrolledCall';

/** A card that has just appeared takes no answer: a click or a key may have been meant for what was there before. */
const ARMING_MS = 400;

interface Props {
  question: Question;
  more: number;
  answer: (answer: Answer) => Promise<unknown>;
}

/** One question of the gate: the exact call, and the answers. */
export function ApprovalCard({ question, more, answer }: Props) {
  const { card } = question;
  const summary = useId();
  const box = useRef<HTMLDivElement>(null);
  const reason = useRef<HTMLInputElement>(null);
  const [edited, setEdited] = useState<Edited>();
  const [choosesGrant, setChoosesGrant] = useState(false);
  const [grant, setGrant] = useState<GrantOffer>();
  const [allowed, setAllowed] = useState<string[]>([]);
  const { isReady, problem, reply } = useReply(answer);
  useFocus(box);

  const approve = (scope: 'once' | 'session') => {
    if (edited) return edited.error ? undefined : reply({ approved: true, scope: 'once', input: edited.input });
    return reply(allowed.length > 0 ? { approved: true, scope: 'once', escalate: allowed } : { approved: true, scope });
  };
  const back = () => {
    setChoosesGrant(false);
    setGrant(undefined);
    box.current?.focus();
  };
  const refuse = () => {
    const text = reason.current?.value.trim();
    return reply({ approved: false, ...(text ? { reason: text } : {}) });
  };
  const keys: Record<string, () => void> = {
    a: () => !choosesGrant && void approve('once'),
    s: () => question.mayLast && !edited && !choosesGrant && allowed.length === 0 && void approve('session'),
    r: () => reason.current?.focus(),
    e: () => !choosesGrant && setEdited((open) => open ?? asSent(question)),
    g: () => question.grants.length > 0 && !edited && setChoosesGrant(true),
  };
  const pressed = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    const isText = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
    if (event.key === 'Escape') {
      if (choosesGrant) back();
      else document.getElementById('message')?.focus();
    }
    if (isText || event.ctrlKey || event.metaKey || event.altKey || event.repeat || !isReady) return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
    if (act) {
      event.preventDefault();
      act();
    }
  };

  return (
    <div ref={box} className="gate" role="alertdialog" aria-label={revealed(question.toolName)} aria-describedby={summary} tabIndex={-1} onKeyDown={pressed}>
      <header className="gate-head">
        <Mark size={18} />
        <strong>Toolgate asks</strong>
        <span className="gate-tool">
          <Revealed text={card.tool} />
        </span>
        <span className={`class class-${question.class}`}>{question.class}</span>
        {more > 0 && <span className="gate-more">{more} more after this</span>}
        <Countdown expiresAt={question.expiresAt} timeoutMs={question.timeoutMs} />
      </header>
      <ScrolledCall>
        <ul id={summary} className="gate-summary">
          {card.summary.map((line, index) => (
            <li key={index} className={card.warnings?.includes(line) ? 'is-warning' : undefined}>
              <Revealed text={line} />
            </li>
          ))}
        </ul>
        {choosesGrant && <GrantChooser offers={question.grants} chosen={grant} choose={setGrant} />}
        {edited ? <CallEditor input={question.input} change={setEdited} close={() => (setEdited(undefined), box.current?.focus())} error={edited.error} /> : <CardBody card={card} />}
        {!edited && (
          <details className="gate-arguments">
            <summary>Arguments as the model sent them</summary>
            <pre tabIndex={0}>
              <Revealed text={json(question.input)} />
            </pre>
          </details>
        )}
      </ScrolledCall>
      <Escalations question={question} allowed={allowed} change={setAllowed} />
      {problem && (
        <p className="gate-problem" role="alert">
          {problem}
        </p>
      )}
      <div className="gate-actions">
        {choosesGrant ? (
          <>
            <button type="button" className="button is-approve" disabled={!isReady || grant === undefined} onClick={() => grant && void reply({ approved: true, scope: 'grant', grant: grant.id })}>
              Approve with this grant
            </button>
            <button type="button" className="button is-quiet" onClick={back}>
              Back
            </button>
          </>
        ) : (
          <>
            <button type="button" className="button is-approve" aria-label={edited ? 'Approve the changed call' : 'Approve'} disabled={!isReady || edited?.error !== undefined} onClick={() => void approve('once')}>
              {edited ? 'Approve the changed call' : 'Approve'} <kbd aria-hidden="true">A</kbd>
            </button>
            {question.mayLast && !edited && allowed.length === 0 && (
              <button type="button" className="button" aria-label="Approve for this session" title="Every later call of this tool in this conversation" disabled={!isReady} onClick={() => void approve('session')}>
                Approve for this session <kbd aria-hidden="true">S</kbd>
              </button>
            )}
            {question.grants.length > 0 && !edited && (
              <button type="button" className="button is-quiet" onClick={() => setChoosesGrant(true)}>
                Always… <kbd aria-hidden="true">G</kbd>
              </button>
            )}
            {!edited && (
              <button type="button" className="button is-quiet" onClick={() => setEdited(asSent(question))}>
                Edit… <kbd aria-hidden="true">E</kbd>
              </button>
            )}
          </>
        )}
        <form
          className="gate-refuse"
          onSubmit={(event) => {
            event.preventDefault();
            void refuse();
          }}
        >
          <input ref={reason} aria-label="Reason for the model" placeholder="Reason (optional)" maxLength={2000} />
          <button type="submit" className="button is-refuse" aria-label="Refuse" disabled={!isReady}>
            Refuse <kbd aria-hidden="true">R</kbd>
          </button>
        </form>
      </div>
      {!edited && (
        <p className="gate-foot">
          This answer counts for exactly this call <code>{card.digest}</code>
          {card.shown ? ` · ${card.shown}` : ''}
        </p>
      )}
    </div>
  );
}

/** The call before a person changes it. */
function asSent({ input }: Question): Edited {
  return { input: isObject(input) ? input : {} };
}

/** Sends an answer, once; not before the card was on the screen for a moment. */
function useReply(answer: Props['answer']) {
  const [isArmed, setIsArmed] = useState(false);
  const [isSent, setIsSent] = useState(false);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setIsArmed(true), ARMING_MS);
    return () => clearTimeout(timer);
  }, []);
  const reply = async (value: Answer) => {
    if (!isArmed || isSent) return;
    setIsSent(true);
    setProblem('');
    try {
      await answer(value);
    } catch (error) {
      setIsSent(false);
      const other = error instanceof ApiError ? error.answeredBy : undefined;
      setProblem(other ? `${other.subject}${other.client ? ` (window ${other.client})` : ''} answered this already.` : `${explain(error)}. Nothing was approved.`);
    }
  };
  return { isReady: isArmed && !isSent, problem, reply };
}

/** The focus moves to the question, unless a person is typing something else. */
function useFocus(box: RefObject<HTMLDivElement | null>) {
  useEffect(() => {
    const active = document.activeElement;
    const isTyping = (active instanceof HTMLInputElement || active instanceof HTMLTextAreaElement) && active.value !== '';
    if (!isTyping) box.current?.focus();
    const jump = (event: globalThis.KeyboardEvent) => {
      if (event.key === '.' && (event.ctrlKey || event.metaKey)) box.current?.focus();
    };
    document.addEventListener('keydown', jump);
    return () => document.removeEventListener('keydown', jump);
  }, [box]);
}

function Escalations({ question, allowed, change }: { question: Question; allowed: string[]; change: (allowed: string[]) => void }) {
  const offers = question.escalations ?? [];
  if (offers.length === 0) return null;
  return (
    <fieldset className="gate-choices">
      <legend>The same call lacked this before. Allow it now?</legend>
      {offers.map((offer) => (
        <label key={offer.id}>
          <input type="checkbox" checked={allowed.includes(offer.id)} onChange={(event) => change(event.target.checked ? [...allowed, offer.id] : allowed.filter((id) => id !== offer.id))} />
          <span>
            <Revealed text={offer.text} />
          </span>
        </label>
      ))}
    </fieldset>
  );
}
