import { api } from '../api/client';
import type { AuditRecord } from '../api/types';
import { address } from '../app/route';
import { useLoaded } from '../app/useLoaded';
import { Revealed, revealed } from '../text/reveal';
import { clock, duration, json } from '../ui/format';
import { Icon } from '../ui/Icon';
import { touched, why } from './Audit';
import { Failed, Page } from './Page';

/** The stages of a call, in order. */
const STAGES = ['REGISTRY', 'AUTH', 'PERMISSION', 'VALIDATION', 'APPROVAL', 'EXECUTION', 'OUTPUT'];

/** One call, from the request to its record. */
export function AuditCall({ call }: { call: string }) {
  const { value, problem } = useLoaded(() => api.record(call), call);
  const record = value?.record;
  return (
    <Page
      title={record ? revealed(record.tool.name) : 'A call'}
      about={
        <>
          <a href={address('audit')}>Audit</a> · <code>{revealed(call)}</code>
        </>
      }
    >
      <Failed problem={problem} />
      {record && (
        <>
          <Stages record={record} />
          <Spans record={record} />
          <dl className="facts">
            <Fact name="When">{clock(record.timestamp)}</Fact>
            <Fact name="Caller">{revealed(record.caller.agent ? `${record.caller.sub} (${record.caller.agent})` : record.caller.sub)}</Fact>
            <Fact name="Decision">
              <span className={`decision decision-${record.decision}`}>{record.decision}</span> {revealed(why(record))}
            </Fact>
            {touched(record) && <Fact name="What">{revealed(touched(record))}</Fact>}
            {record.caller.session && (
              <Fact name="Session">
                <a href={address('sessions', record.caller.session)}>{revealed(record.caller.session)}</a>
              </Fact>
            )}
            {value.change && (
              <Fact name="Changed">
                <a href={address('changes', value.change.session)}>
                  {value.change.files.map((file) => revealed(`${file.kind} ${file.path}`)).join(', ')}
                </a>
              </Fact>
            )}
          </dl>
          <h2>The record, as it is in the log</h2>
          <pre className="record" tabIndex={0} role="region" aria-label="The record">
            <Revealed text={json(record)} />
          </pre>
        </>
      )}
    </Page>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** How long a person was waited for, and how long the call took. */
function Spans({ record }: { record: AuditRecord }) {
  const worked = typeof record.duration === 'number' ? record.duration : 0;
  const waited = typeof record['waitedMs'] === 'number' ? record['waitedMs'] : 0;
  const total = Math.max(worked + waited, 0.001);
  const spans = [...(waited > 0 ? [{ name: 'Waited', kind: 'waited', from: 0, length: waited }] : []), { name: 'Worked', kind: 'worked', from: waited, length: worked }];
  return (
    <dl className="spans">
      {spans.map(({ name, kind, from, length }) => (
        <div key={kind}>
          <dt>{name}</dt>
          <dd>
            <svg viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
              <rect className={`span-${kind}`} x={(from / total) * 1000} y="0" width={Math.max(4, (length / total) * 1000)} height="8" />
            </svg>
          </dd>
          <dd>{duration(length)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** How far the call came. */
function Stages({ record }: { record: AuditRecord }) {
  const stopped = record.decision === 'ALLOWED' ? STAGES.length : STAGES.indexOf(record.denial?.stage ?? 'EXECUTION');
  return (
    <ol className="stages" aria-label="Stages of the call">
      {STAGES.map((stage, index) => {
        const state = index < stopped ? 'passed' : index === stopped ? 'stopped' : 'not reached';
        return (
          <li key={stage} className={`stage stage-${state.replace(' ', '-')}`}>
            {state === 'passed' ? <Icon name="check" size={12} /> : state === 'stopped' ? <Icon name="ban" size={12} /> : <span className="stage-mark" />}
            <span>{stage.toLowerCase()}</span>
            <span className="visually-hidden">{state}</span>
          </li>
        );
      })}
    </ol>
  );
}
