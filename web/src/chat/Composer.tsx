import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';
import { explain } from '../api/client';
import { Icon } from '../ui/Icon';
import { AttachButton, AttachmentList, receiver, useAttachments, type Attachment, type Attachments } from './attachments';
import type { ChatStore } from './store';

interface Props {
  store: ChatStore;
  isRunning: boolean;
  isConnected: boolean;
}

/** The text box with "Send", and "Stop" while the agent works. */
export function Composer({ store, isRunning, isConnected }: Props) {
  const key = `toolgate.draft.${store.id}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? '');
  const latest = useRef(text);
  const change = (next: string) => {
    keepDraft(key, next);
    latest.current = next;
    setText(next);
  };
  const attachments = useAttachments();
  const isSending = useRef(false);
  const [problem, setProblem] = useState('');
  const canSend = text.trim() !== '' && !isRunning && isConnected;
  const deliver = async (message: FirstMessage) => {
    // A second Enter may come before the first one is drawn.
    if (isSending.current) return;
    isSending.current = true;
    setProblem('');
    change('');
    attachments.clear();
    try {
      await store.send(message.text, message.attachments);
    } catch (error) {
      // Nothing that was typed is lost; what was typed since goes behind it.
      change(latest.current ? `${message.text}\n${latest.current}` : message.text);
      attachments.restore(message.attachments);
      setProblem(`Not sent: ${explain(error)}`);
    }
    isSending.current = false;
  };
  const send = () => canSend && void deliver({ text: text.trim(), attachments: attachments.files });
  useEffect(() => {
    const message = isConnected ? takeFirstMessage(store.id) : undefined;
    if (message) void deliver(message);
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isConnected, store]);
  return (
    <>
      {problem && (
        <p className="problem composer-problem" role="alert">
          {problem}
        </p>
      )}
      <MessageBox text={text} change={change} send={send} attachments={attachments}>
        {isRunning ? (
          <button type="button" className="button is-stop" aria-label="Stop" onClick={() => store.cancel()}>
            <Icon name="stop" /> Stop
          </button>
        ) : (
          <button type="submit" className="button is-primary" aria-label="Send" disabled={!canSend}>
            <Icon name="send" /> Send
          </button>
        )}
      </MessageBox>
    </>
  );
}

/** A draft outlives a reload, unless it is too long to be kept. */
function keepDraft(key: string, text: string) {
  try {
    sessionStorage.setItem(key, text);
  } catch {
    sessionStorage.removeItem(key);
  }
}

/** The first message of a session that the start page created: sent when the connection is there. */
interface FirstMessage {
  text: string;
  attachments: Attachment[];
}

const first = new Map<string, FirstMessage>();

export function keepFirstMessage(session: string, message: FirstMessage) {
  first.set(session, message);
}

function takeFirstMessage(session: string): FirstMessage | undefined {
  const message = first.get(session);
  first.delete(session);
  return message;
}

interface BoxProps {
  text: string;
  change: (text: string) => void;
  send: () => void;
  attachments: Attachments;
  children: ReactNode;
  autoFocus?: boolean;
}

/** Grows with what is typed. Enter sends, Shift+Enter begins a line; while a word is composed, Enter ends the word. */
export function MessageBox({ text, change, send, attachments, children, autoFocus }: BoxProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight, 240)}px`;
  }, [text]);
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      {...receiver(attachments)}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <AttachmentList attachments={attachments} />
      <textarea ref={area} id="message" aria-label="Message" rows={1} value={text} autoFocus={autoFocus} placeholder="Message" onChange={(event) => change(event.target.value)} onKeyDown={pressed} />
      <AttachButton attachments={attachments} />
      {children}
    </form>
  );
}
