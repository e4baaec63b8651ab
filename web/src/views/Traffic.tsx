import { useEffect, useState } from 'react';
import { api } from '../api/client';
import type { Traffic as TrafficNow } from '../api/types';
import { address } from '../app/route';
import { revealed } from '../text/reveal';
import { ago, duration } from '../ui/format';
import { Empty, Failed, Page } from './Page';

/** For operators: what all callers do, live. */
export default function Traffic() {
  const { now, problem, isLive } = useTraffic();
  return (
    <Page
      title="Traffic"
      about="What all callers do, without arguments and contents. Counted since the gate started."
      actions={
        <span className={isLive ? 'live is-on' : 'live'} role="status">
          {isLive ? 'Live' : 'Not connected'}
        </span>
      }
    >
      <Failed problem={problem} />
      {now && <Shown now={now} />}
      {!now && !problem && <p className="loading">Loading…</p>}
    </Page>
  );
}

function useTraffic(): { now: TrafficNow | undefined; problem: unknown; isLive: boolean } {
  const [state, setState] = useState<{ now?: TrafficNow; problem?: unknown; isLive: boolean }>({ isLive: false });
  useEffect(() => {
    // The first request says why if it is refused; a stream of events cannot.
    api.traffic().then(
      (now) => setState((before) => ({ now, ...before })),
      (problem: unknown) => setState({ problem, isLive: false }),
    );
    const events = new EventSource('/api/v1/traffic/events');
    events.addEventListener('traffic', (event) => setState({ now: JSON.parse((event as MessageEvent<string>).data) as TrafficNow, isLive: true }));
    events.addEventListener('error', () => setState((before) => ({ ...before, isLive: false })));
    return () => events.close();
  }, []);
  return { now: state.now, problem: state.problem, isLive: state.isLive };
}

function Shown({ now }: { now: TrafficNow }) {
  const minute = now.callsPerSecond.reduce((sum, count) => sum + count, 0);
  return (
    <>
      <dl className="figures">
        <Figure name="Calls per second" value={Number((minute / Math.max(1, now.callsPerSecond.length)).toFixed(1))} />
        <Figure name="In flight" value={now.callsInFlight} />
        <Figure name="Questions" value={now.waiting.length} />
        <Figure name="Callers connected" value={now.callers.filter((caller) => caller.connected).length} />
        <Figure name="Sessions at work" value={now.sessionsRunning} />
        <Figure name="Connections" value={now.connections} />
      </dl>
      <Minute now={now} />
      <Waiting now={now} />
      <Table title="Callers" names={['Caller', 'Connected', 'Last minute', 'Calls', 'Refused', 'Failed', 'Last heard']} empty="Nobody has called yet.">
        {now.callers.map((caller) => (
          <tr key={`${caller.subject} ${caller.agent ?? ''}`}>
            <td>{revealed(caller.agent ? `${caller.subject} (${caller.agent})` : caller.subject)}</td>
            <td>
              <span className={caller.connected ? 'dot dot-on' : 'dot'} aria-hidden="true" /> {caller.connected ? 'yes' : 'no'}
            </td>
            <Numbers values={[caller.lastMinute, caller.calls, caller.refused, caller.failed]} />
            <td className="number">{ago(caller.lastAt)}</td>
          </tr>
        ))}
      </Table>
      <Table title="Tools" names={['Tool', 'Median', '95 %', 'Longest', 'Last minute', 'Calls', 'Refused', 'Failed', 'Last failure']} empty="No tool was called yet.">
        {now.tools.map((tool) => (
          <tr key={tool.name}>
            <td className="tool-name">{revealed(tool.name)}</td>
            {[tool.medianMs, tool.p95Ms, tool.longestMs].map((ms, index) => (
              <td key={index} className="number nowrap">
                {tool.calls > tool.refused ? duration(ms) : ''}
              </td>
            ))}
            <Numbers values={[tool.lastMinute, tool.calls, tool.refused, tool.failed]} />
            <td>{tool.lastFailure ? `${tool.lastFailure}, ${ago(tool.lastFailureAt ?? '')}` : ''}</td>
          </tr>
        ))}
      </Table>
      <Table title="Refusals and failures" names={['Stage', 'Reason', 'Last minute', 'All']} empty="Nothing was refused, and nothing failed.">
        {now.reasons.map((reason) => (
          <tr key={`${reason.stage} ${reason.code}`}>
            <td>{reason.stage.toLowerCase()}</td>
            <td>{revealed(reason.code)}</td>
            <Numbers values={[reason.lastMinute, reason.count]} />
          </tr>
        ))}
      </Table>
    </>
  );
}

function Figure({ name, value }: { name: string; value: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

const HEIGHT = 48;

/** The last minute, a bar for each second. */
function Minute({ now: { callsPerSecond, refusedPerSecond, failedPerSecond } }: { now: TrafficNow }) {
  const most = Math.max(1, ...callsPerSecond);
  const all = callsPerSecond.reduce((sum, count) => sum + count, 0);
  const scale = (count: number) => (count / most) * HEIGHT;
  return (
    <figure className="minute">
      <svg viewBox={`0 0 ${callsPerSecond.length * 10} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${all} calls in the last minute, at most ${most} in one second`}>
        {callsPerSecond.map((count, second) => {
          const failed = scale(failedPerSecond[second] ?? 0);
          const refused = scale(refusedPerSecond[second] ?? 0);
          const whole = scale(count);
          return (
            <g key={second}>
              <rect className="timeline-ALLOWED" x={second * 10 + 1} y={HEIGHT - whole} width="8" height={Math.max(0, whole - refused - failed)} />
              <rect className="timeline-DENIED" x={second * 10 + 1} y={HEIGHT - refused - failed} width="8" height={refused} />
              <rect className="timeline-ERROR" x={second * 10 + 1} y={HEIGHT - failed} width="8" height={failed} />
            </g>
          );
        })}
      </svg>
      <figcaption className="timeline-foot">
        <span>a minute ago</span>
        <span className="timeline-legend">
          <span className="decision-ALLOWED">allowed</span>
          <span className="decision-DENIED">refused</span>
          <span className="decision-ERROR">failed</span>
        </span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

function Waiting({ now }: { now: TrafficNow }) {
  return (
    <section aria-label="Questions that wait">
      <h2>Questions that wait</h2>
      {now.waiting.length === 0 && <Empty>None.</Empty>}
      <ul className="rows">
        {now.waiting.map((question) => (
          <li key={question.id} className="row">
            <div className="row-head">
              <span className="row-title">
                <span className="tool-name">{revealed(question.toolName)}</span>
                <span className="row-about">
                  for {revealed(question.caller.subject)}, {question.source}
                </span>
              </span>
              <span className="row-meta">
                asked {since(question.createdAt)}
                {question.mine && question.source !== 'chat' ? <a href={address('sessions')}>Answer</a> : null}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function since(time: string): string {
  const past = ago(time);
  return past === 'now' ? 'just now' : `${past} ago`;
}

function Numbers({ values }: { values: number[] }) {
  return values.map((value, index) => (
    <td key={index} className="number">
      {value}
    </td>
  ));
}

function Table({ title, names, empty, children }: { title: string; names: string[]; empty: string; children: React.ReactNode[] }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {children.length === 0 ? (
        <Empty>{empty}</Empty>
      ) : (
        <div className="table-scroll" tabIndex={0} role="region" aria-label={`Table of ${title.toLowerCase()}`}>
          <table className="records is-traffic">
            <thead>
              <tr>
                {names.map((name) => (
                  <th key={name}>{name}</th>
                ))}
              </tr>
            </thead>
            <tbody>{children}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}
