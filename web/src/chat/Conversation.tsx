import { useEffect, useState, useSyncExternalStore } from 'react';
import { explain } from '../api/client';
import { app } from '../app/store';
import { address, go } from '../app/route';
import { Revealed } from '../text/reveal';
import { Icon } from '../ui/Icon';
import { ApprovalDock } from './ApprovalDock';
import { Composer } from './Composer';
import { ContextGauge } from './ContextGauge';
import { ModelMenu } from './ModelMenu';
import { isOpen } from './model';
import { Plan } from './Plan';
import { ChatStore } from './store';
import { Transcript } from './Transcript';

/** The store lives as long as the conversation is shown. */
function useChat(id: string): ChatStore | undefined {
  const [store, setStore] = useState<ChatStore>();
  useEffect(() => {
    const opened = new ChatStore(id);
    setStore(opened);
    return () => opened.close();
  }, [id]);
  return store;
}

export function Conversation({ id }: { id: string }) {
  const store = useChat(id);
  return store ? <OpenConversation store={store} /> : null;
}

function OpenConversation({ store }: { store: ChatStore }) {
  const { chat, session: loaded, connection, loading, problem } = useSyncExternalStore(store.subscribe, store.snapshot);
  const { sessions } = useSyncExternalStore(app.subscribe, app.snapshot);
  // The list is kept current for all sessions, also where another client changes one.
  const session = sessions.find((one) => one.id === store.id) ?? loaded;
  if (problem) return <Problem text={explain(problem)} />;
  return (
    <section className="conversation" aria-label="Conversation">
      <header className="conversation-head">
        <a className="icon-button back" href={address('sessions')} aria-label="Back to the sessions">
          <Icon name="back" />
        </a>
        <h1>
          <Revealed text={session?.title || 'New session'} />
        </h1>
        {session?.agent && (
          <span className="chip" title="The agent that the model runs as">
            <Revealed text={session.agent} />
          </span>
        )}
        {session && <ModelMenu session={session} isBusy={chat.running} />}
        <ContextGauge context={chat.context} usage={session?.usage} cost={session?.cost} />
        <a className="icon-button" href={address('changes', store.id)} aria-label="Changes of this session" title="Changes of this session">
          <Icon name="changes" />
        </a>
      </header>
      {connection === 'waiting' && (
        <p className="connection" role="status">
          The connection is lost; trying again. Nothing is approved while you cannot answer.
        </p>
      )}
      <Plan steps={chat.plan} />
      {loading ? <p className="loading">Loading…</p> : <Transcript chat={chat} />}
      <Announcer chat={chat} />
      <div className="dock">
        <ApprovalDock questions={chat.questions} store={store} />
        <Composer store={store} isRunning={chat.running} isConnected={connection === 'open'} />
      </div>
    </section>
  );
}

/** What a screen reader says: not each word that streams, but what changed. */
function Announcer({ chat }: { chat: ReturnType<ChatStore['snapshot']>['chat'] }) {
  const question = chat.questions[0];
  const call = chat.blocks.findLast((block) => block.kind === 'call');
  let text = '';
  if (question) text = `${question.toolName} waits for your approval`;
  else if (call?.kind === 'call' && isOpen(call.status)) text = `${call.name} is running`;
  else if (chat.running) text = 'The agent is working';
  else if (chat.blocks.length > 0) text = 'The agent is done';
  return (
    <p className="visually-hidden" role="status">
      {text}
    </p>
  );
}

function Problem({ text }: { text: string }) {
  return (
    <div className="page-problem">
      <h1>This session cannot be shown</h1>
      <p>{text}</p>
      <button type="button" className="button" onClick={() => (void app.refresh(), go('sessions'))}>
        Back to the sessions
      </button>
    </div>
  );
}
