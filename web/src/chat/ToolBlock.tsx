import { memo, useState } from 'react';
import { address } from '../app/route';
import { Highlighted } from '../text/Code';
import { Diff } from '../text/Diff';
import { splitDiff } from '../text/diff';
import { languageOfPath } from '../text/highlight';
import { Revealed, revealed } from '../text/reveal';
import { Terminal } from '../text/Terminal';
import { CopyButton } from '../ui/CopyButton';
import { duration, json } from '../ui/format';
import { Icon, type IconName } from '../ui/Icon';
import { isOpen, type CallBlock } from './model';
import { commandOf, iconOf, subject } from './tools';

/** What a person folded or unfolded, kept while blocks leave the screen and return. */
const chosenFolds = new Map<string, boolean>();

/** One call: open while it runs, folded afterwards, unless a person chose otherwise. */
export const ToolBlock = memo(function ToolBlock({ call }: { call: CallBlock }) {
  const [chosen, setChosen] = useState(() => chosenFolds.get(call.key));
  const isBusy = isOpen(call.status);
  const isShown = chosen ?? isBusy;
  const toggle = () => {
    chosenFolds.set(call.key, !isShown);
    setChosen(!isShown);
  };
  const name = revealed(call.name);
  return (
    <div className={`tool tool-${call.status}`} role="group" aria-label={name} aria-busy={isBusy}>
      <button type="button" className="tool-head" aria-expanded={isShown} onClick={toggle}>
        <span className="tool-icon">
          <Icon name={iconOf(call.name)} />
        </span>
        <span className="tool-name">{name}</span>
        <span className="tool-subject">{revealed(subject(call)).slice(0, 240)}</span>
        <Status call={call} />
        <span className="fold">
          <Icon name="chevron" size={12} />
        </span>
      </button>
      {isShown && <Body call={call} />}
    </div>
  );
});

const WORDS: Record<CallBlock['status'], [string, IconName | undefined]> = {
  writing: ['Writing the call', undefined],
  asking: ['Waits for you', 'shield'],
  running: ['Running', undefined],
  success: ['Done', 'check'],
  error: ['Failed', 'cross'],
  denied: ['Refused', 'ban'],
  stopped: ['Stopped', 'stop'],
};

function Status({ call }: { call: CallBlock }) {
  const [word, icon] = WORDS[call.status];
  const { metadata } = call;
  const exit = metadata?.exitCode;
  const failed = typeof exit === 'number' && exit !== 0 ? `exit ${exit}` : undefined;
  return (
    <span className={`tool-status${failed ? ' is-failed' : ''}`}>
      {metadata && <span className="tool-time">{duration(metadata.durationMs)}</span>}
      {icon ? <Icon name={failed ? 'cross' : icon} /> : <span className="spinner" />}
      <span className="tool-word">{failed ?? word}</span>
    </span>
  );
}

function Body({ call }: { call: CallBlock }) {
  return (
    <div className="tool-body">
      <Arguments call={call} />
      <Output call={call} />
      <Footer call={call} />
    </div>
  );
}

function Arguments({ call }: { call: CallBlock }) {
  const command = commandOf(call);
  if (command !== undefined) {
    return (
      <pre className="command" tabIndex={0} role="region" aria-label="Command">
        <span className="prompt" aria-hidden="true">
          ${' '}
        </span>
        <Highlighted text={command} language="bash" />
      </pre>
    );
  }
  const text = call.inputText || (isEmpty(call.input) ? '' : json(call.input));
  if (!text) return null;
  return (
    <details className="arguments" open={call.status === 'writing' || (call.status === 'running' && text.length < 400)}>
      <summary>Arguments</summary>
      <pre tabIndex={0} role="region" aria-label="Arguments">
        {call.inputText ? <Revealed text={text.slice(0, 20_000)} /> : <Highlighted text={text.slice(0, 20_000)} language="json" />}
      </pre>
    </details>
  );
}

function isEmpty(input: unknown): boolean {
  return typeof input !== 'object' || input === null || Object.keys(input).length === 0;
}

function Output({ call }: { call: CallBlock }) {
  const isRunning = isOpen(call.status);
  const text = call.result ?? call.output;
  if (!text) return isRunning ? null : <p className="muted">No output.</p>;
  const diff = call.result === undefined ? undefined : splitDiff(call.result);
  if (diff) {
    return (
      <>
        {diff.before && (
          <p className="tool-note">
            <Revealed text={diff.before} />
          </p>
        )}
        <Diff text={diff.diff} />
      </>
    );
  }
  const label = `Output of ${revealed(call.name)}`;
  const language = isRunning ? undefined : fileLanguage(call);
  if (language === undefined || text.length > MAX_COLOURED) return <Terminal text={call.coloured ?? text} live={isRunning} label={label} />;
  return (
    <pre className="terminal" tabIndex={0} role="region" aria-label={label}>
      <Highlighted text={text} language={language} />
    </pre>
  );
}

/** More of a file than this is shown without syntax colours. */
const MAX_COLOURED = 20_000;

/** The language of a file that was read. */
function fileLanguage(call: CallBlock): string | undefined {
  return call.status === 'success' && /read/.test(call.name) ? languageOfPath(subject(call)) : undefined;
}

function Footer({ call: { metadata, answer, toolId, result } }: { call: CallBlock }) {
  const facts: string[] = [];
  if (metadata?.decision === 'DENIED') facts.push(`refused at ${metadata.stage ?? 'the gate'}${metadata.code ? ` (${metadata.code})` : ''}`);
  if (answer) facts.push(answered(answer));
  if (metadata?.changedInput !== undefined) facts.push('with arguments that you changed');
  if (metadata?.waitedMs) facts.push(`waited ${duration(metadata.waitedMs)} for a person`);
  return (
    <p className="tool-foot">
      <span>{facts.map((fact) => revealed(fact)).join(' · ')}</span>
      <span className="tool-actions">
        {result && <CopyButton text={result} label="Copy" className="link-button" />}
        {metadata && <a href={address('audit', metadata.callId || toolId)}>Record</a>}
      </span>
    </p>
  );
}

function answered({ approved, scope, by, reason, isOwn }: NonNullable<CallBlock['answer']>): string {
  // Several windows and people can answer; the first one counts, and the others see who it was.
  const who = isOwn ? 'you' : `${by.subject}${by.client ? ` (window ${by.client})` : ''}`;
  if (!approved) return `refused by ${who}${reason ? `: ${reason}` : ''}`;
  const lasting: Record<string, string> = { session: ' for this session', grant: ' with a lasting grant' };
  return `approved by ${who}${lasting[scope] ?? ''}`;
}
