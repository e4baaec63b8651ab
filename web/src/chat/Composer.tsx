import { useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';
import { Icon } from '../ui/Icon';
import { AttachButton, AttachmentList, receiver, useAttachments, type Attachments } from './attachments';
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
  const change = (next: string) => {
    sessionStorage.setItem(key, next);
    setText(next);
  };
  const attachments = useAttachments();
  const canSend = text.trim() !== '' && !isRunning && isConnected;
  const send = () => {
    if (!canSend || !store.send(text.trim(), attachments.files)) return;
    change('');
    attachments.clear();
  };
  return (
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
  );
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
