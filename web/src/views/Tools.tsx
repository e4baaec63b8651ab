import { useEffect, useState } from 'react';
import { api, explain } from '../api/client';
import type { Pin, Server, ToolInfo } from '../api/types';
import { useLoaded, type Loaded } from '../app/useLoaded';
import { iconOf } from '../chat/tools';
import { Diff } from '../text/Diff';
import { parseDiff } from '../text/diff';
import { Revealed, revealed } from '../text/reveal';
import { json } from '../ui/format';
import { Icon } from '../ui/Icon';
import { Empty, Failed, Page } from './Page';

const REFRESH_MS = 2000;

/** Tools and servers, what each needs, why one is not available, and definitions that wait for agreement. */
export default function Tools() {
  const servers = useLoaded(() => api.servers(), 'servers');
  // A server that gets ready, or changes its tools, while one looks: the lists follow it.
  const state = JSON.stringify(servers.value?.items ?? []);
  const tools = useLoaded(() => api.tools(), `tools ${state}`, true);
  const pins = useLoaded(() => api.pins(), `pins ${state}`, true);
  const { reload } = servers;
  useEffect(() => {
    const timer = setInterval(reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, [reload]);
  const agreed = () => [servers, tools, pins].forEach((list) => list.reload());
  const [text, setText] = useState('');
  const shown = (tools.value?.items ?? []).filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <Page
      title="Tools"
      about="What you may call, and what a model of yours is offered. A model never sees a tool that is not available."
      actions={<input type="search" aria-label="Search tools" placeholder="Search" value={text} onChange={(event) => setText(event.target.value)} />}
    >
      <Pins pins={pins} agreed={agreed} />
      <Failed problem={tools.problem} />
      {tools.value && shown.length === 0 && <Empty>No tool has this in its name or description.</Empty>}
      <ul className="rows tools">
        {shown.map((tool) => (
          <ToolRow key={tool.name} tool={tool} />
        ))}
      </ul>
      <Servers servers={servers} />
    </Page>
  );
}

function ToolRow({ tool }: { tool: ToolInfo }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <li className={tool.available ? 'row' : 'row is-unavailable'}>
      <div className="row-head">
        <button type="button" className="row-title" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          <Icon name={iconOf(tool.name)} />
          <span className="tool-name">{revealed(tool.name)}</span>
          <span className="row-about">{revealed(tool.description, 'prose').slice(0, 160)}</span>
        </button>
        <span className="row-meta">
          <span className={`class class-${tool.class}`}>{tool.class}</span>
          <span className="chip">{tool.server ? revealed(tool.server) : tool.source.replace('_', '-')}</span>
          {tool.available ? <span className="chip">{tool.asks ? 'asks' : 'does not ask'}</span> : <span className="chip is-refused">not available</span>}
        </span>
      </div>
      {!tool.available && tool.reason && (
        <p className="row-reason">
          <Icon name="ban" /> <Revealed text={tool.reason} />
        </p>
      )}
      {isOpen && (
        <div className="row-body">
          <p>
            <Revealed text={tool.description} kind="prose" />
          </p>
          <p className="muted">{tool.permissions.length > 0 ? `Needs ${tool.permissions.map((one) => revealed(one)).join(', ')}` : 'Needs no permission of its own.'}</p>
          <pre tabIndex={0} role="region" aria-label="Schema of the arguments">
            <Revealed text={json(tool.inputSchema)} />
          </pre>
        </div>
      )}
    </li>
  );
}

function Servers({ servers: { value, problem } }: { servers: Loaded<{ items: Server[] }> }) {
  if (value && value.items.length === 0) return null;
  return (
    <section aria-label="Servers">
      <h2>Servers behind the gate</h2>
      <Failed problem={problem} />
      <ul className="rows">
        {value?.items.map((server) => (
          <li key={server.name} className="row">
            <div className="row-head">
              <span className="row-title">
                <Icon name="plug" /> <span className="tool-name">{revealed(server.name)}</span>
              </span>
              <span className="row-meta">
                {server.tools} tools{server.suspended > 0 ? `, ${server.suspended} wait for agreement` : ''}
                {server.restarts > 0 ? ` · restarted ${server.restarts} ${server.restarts === 1 ? 'time' : 'times'}` : ''} <span className={`chip state-${server.state}`}>{server.state}</span>
              </span>
            </div>
            {server.error && (
              <p className="row-reason">
                <Icon name="ban" /> <Revealed text={server.error} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Tools whose definition is new or has changed: suspended until a person agrees to exactly this one. */
function Pins({ pins, agreed }: { pins: Loaded<{ items: Pin[] }>; agreed: () => void }) {
  const waiting = (pins.value?.items ?? []).filter((pin) => pin.status !== 'agreed');
  if (waiting.length === 0) return <Failed problem={pins.problem} />;
  return (
    <section className="pins" aria-label="Definitions that wait for agreement">
      <h2>
        <Icon name="pin" /> Definitions that wait for your agreement
      </h2>
      {waiting.map((pin) => (
        <PinRow key={`${pin.server}/${pin.tool}`} pin={pin} reload={agreed} />
      ))}
    </section>
  );
}

/** A difference to what was agreed, or the definition of a new tool. */
function Definition({ text, name }: { text: string; name: string }) {
  if (parseDiff(text).length > 0) return <Diff text={text} />;
  return (
    <pre tabIndex={0} role="region" aria-label={`Definition of ${name}`}>
      <Revealed text={text} />
    </pre>
  );
}

function PinRow({ pin, reload }: { pin: Pin; reload: () => void }) {
  const [problem, setProblem] = useState('');
  const agree = () => api.agree(pin).then(reload, (error: unknown) => setProblem(explain(error)));
  return (
    <article className="pin">
      <header>
        <span className="tool-name">{revealed(`${pin.server} / ${pin.tool}`)}</span>
        <span className="chip is-refused">{pin.status}</span>
        {pin.digest && <code>{pin.digest.slice(0, 16)}</code>}
        {pin.digest && (
          <button type="button" className="button is-small" onClick={() => void agree()}>
            Agree to this definition
          </button>
        )}
      </header>
      {pin.advice?.map(({ place, what, words }) => (
        <p key={`${place} ${what}`} className="row-reason">
          <Icon name="shield" /> <Revealed text={`${place}: ${what}${words ? ` (${words})` : ''}`} />
        </p>
      ))}
      {pin.description && (
        <div>
          <h3>What the server says about it</h3>
          <pre tabIndex={0} role="region" aria-label={`What ${revealed(pin.server)} says about ${revealed(pin.tool)}`}>
            <Revealed text={pin.description} />
          </pre>
        </div>
      )}
      {pin.diff && (
        <div>
          <h3>{pin.status === 'new' ? 'The whole definition' : 'What is different'}</h3>
          <Definition text={pin.diff} name={revealed(pin.tool)} />
        </div>
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
    </article>
  );
}

