import { useState, useSyncExternalStore } from 'react';
import { api, explain } from '../api/client';
import type { Models, Trust } from '../api/types';
import { go } from '../app/route';
import { chosenAgent, chosenTrust, keepAgent, keepTrust } from '../app/choices';
import { app } from '../app/store';
import { SessionList } from '../app/Sidebar';
import { useLoaded } from '../app/useLoaded';
import { ApprovalDock } from '../chat/ApprovalDock';
import { useAttachments } from '../chat/attachments';
import { keepFirstMessage, MessageBox } from '../chat/Composer';
import { TRUST } from '../chat/ModelMenu';
import { revealed } from '../text/reveal';
import { CopyButton } from '../ui/CopyButton';
import { Icon, Mark } from '../ui/Icon';

const SUGGESTIONS = ['Show me what you do', 'What is in this directory?', 'Which of these files has no tests?'];

/** The start page: a new session, and the questions that belong to none. */
export function FirstRun() {
  const { me, sessions, query, approvals } = useSyncExternalStore(app.subscribe, app.snapshot);
  const models = useLoaded(() => api.models(), 'models');
  const agents = useLoaded(() => api.agents(), 'agents');
  const [text, setText] = useState('');
  const attachments = useAttachments();
  const [model, setModel] = useState<string>();
  const workspace = me?.workspace ?? '';
  const [pickedAgent, setAgent] = useState<string>();
  const [pickedTrust, setTrust] = useState<Trust>();
  const [problem, setProblem] = useState('');
  const [isStarting, setIsStarting] = useState(false);
  const names = modelNames(models.value, me?.defaultModel);
  const chosen = model ?? names[0];
  // What was chosen here before counts again, for agents that are still declared.
  const declared = agents.value?.items ?? [];
  const agent = declared.find((one) => one.name === (pickedAgent ?? chosenAgent(workspace)));
  const trust = pickedTrust ?? chosenTrust(workspace, agent?.name ?? '');
  const level = trust ?? agent?.trust ?? me?.trust ?? 'guided';
  const start = async (message: string) => {
    if (isStarting || !message.trim()) return;
    setIsStarting(true);
    setProblem('');
    try {
      const session = await api.createSession({ ...(chosen ? { model: chosen } : {}), ...(agent ? { agent: agent.name } : {}), ...(trust ? { trust } : {}) });
      keepFirstMessage(session.id, { text: message.trim(), attachments: attachments.files });
      app.put(session);
      go('sessions', session.id);
    } catch (error) {
      setProblem(explain(error));
      setIsStarting(false);
    }
  };
  const chooseAgent = (name: string) => {
    keepAgent(workspace, name);
    setAgent(name);
    setTrust(undefined);
  };
  const chooseTrust = (chosenLevel: Trust) => {
    keepTrust(workspace, agent?.name ?? '', chosenLevel);
    setTrust(chosenLevel);
  };
  const homeless = approvals.filter((approval) => approval.source !== 'chat' || !approval.session).map((approval) => ({ ...approval, toolId: approval.id }));
  return (
    <section className="start" aria-label="New session">
      {(sessions.length > 0 || query) && (
        <div className="start-list">
          <SessionList current={undefined} />
        </div>
      )}
      <div className="start-center">
        <Mark size={40} />
        <h1>What should the agent do?</h1>
        <p className="muted">
          It works in <code>{me?.mounts.join(', ')}</code>. {sentence(level)}
        </p>
        <MessageBox text={text} change={setText} send={() => void start(text)} attachments={attachments} autoFocus>
          <button type="submit" className="button is-primary" aria-label="Send" disabled={!text.trim() || isStarting}>
            <Icon name="send" /> Send
          </button>
        </MessageBox>
        <div className="start-options">
          <select aria-label="Model" value={chosen ?? ''} onChange={(event) => setModel(event.target.value)}>
            {names.length === 0 && <option value="">no model</option>}
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <select aria-label="Trust" value={level} onChange={(event) => chooseTrust(event.target.value as Trust)}>
            {TRUST.map((one) => (
              <option key={one.value} value={one.value}>
                {one.name}
              </option>
            ))}
          </select>
          {declared.length > 0 && (
            <select aria-label="Agent" value={agent?.name ?? ''} onChange={(event) => chooseAgent(event.target.value)}>
              <option value="">no agent</option>
              {declared.map((one) => (
                <option key={one.name}>{one.name}</option>
              ))}
            </select>
          )}
        </div>
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        {sessions.length === 0 && (
          <ul className="suggestions">
            {SUGGESTIONS.map((suggestion) => (
              <li key={suggestion}>
                <button type="button" onClick={() => void start(suggestion)}>
                  {suggestion}
                </button>
              </li>
            ))}
          </ul>
        )}
        <Providers models={models.value} chosen={chosen} />
      </div>
      <div className="dock">
        <ApprovalDock questions={homeless} />
      </div>
    </section>
  );
}

function modelNames(models: Models | undefined, usual: string | null | undefined): string[] {
  const items = models?.items ?? [];
  const defaults = items.filter((model) => model.default).map((model) => model.model);
  return [...new Set([...(usual ? [usual] : []), ...defaults, ...items.map((model) => model.model)])];
}

function sentence(trust: Trust): string {
  if (trust === 'supervised') return 'Every call waits for your answer.';
  if (trust === 'guided') return 'It reads by itself; changes and commands wait for your answer.';
  return 'Nothing that is allowed waits for you; everything is recorded and can be undone.';
}

const REAL_MODELS = [
  ['anthropic', 'ANTHROPIC_API_KEY', 'Claude'],
  ['openai', 'OPENAI_API_KEY', 'OpenAI, or with OPENAI_BASE_URL any server that speaks its API'],
  ['openrouter', 'OPENROUTER_API_KEY', 'OpenRouter'],
  ['ollama', 'OLLAMA_HOST', 'models on your own machine, without a key'],
] as const;

/** How to add a real model, as long as only the scripted one is there. */
function Providers({ models, chosen }: { models: Models | undefined; chosen: string | undefined }) {
  if (!models || !chosen?.startsWith('scripted/')) return null;
  return (
    <details className="providers" open>
      <summary>
        <Icon name="key" /> This is a scripted model: it shows how the gate works, without a key
      </summary>
      <p>For a real one, end the server, give it one of these, and start it again:</p>
      <dl>
        {REAL_MODELS.map(([name, variable, example]) => {
          const provider = models.providers.find((one) => one.name === name);
          return (
            <div key={name}>
              <dt>
                <code>{variable}</code>
              </dt>
              <dd>
                {example}
                {provider && !provider.reachable && name === 'ollama' && <span className="muted"> — not there now: {revealed(provider.reason ?? 'it cannot be reached').replaceAll('`', '')}</span>}
              </dd>
            </div>
          );
        })}
      </dl>
      <p className="command-line">
        <code>ANTHROPIC_API_KEY=… toolgate serve</code>
        <CopyButton text="ANTHROPIC_API_KEY= toolgate serve" />
      </p>
    </details>
  );
}
