import { useState } from 'react';
import { api, explain } from '../api/client';
import type { AuditRecord, AuditState } from '../api/types';
import { address } from '../app/route';
import { useLoaded } from '../app/useLoaded';
import { revealed } from '../text/reveal';
import { clock } from '../ui/format';
import { Icon } from '../ui/Icon';
import { AuditCall } from './AuditCall';
import { Empty, Failed, Page } from './Page';
import { Timeline, type Period } from './Timeline';

const DECISIONS = ['', 'ALLOWED', 'DENIED', 'ERROR'] as const;

interface Filter {
  tool: string;
  decision: string;
  caller: string;
  since: string;
}

const EVERYTHING: Filter = { tool: '', decision: '', caller: '', since: '' };

/** The record: one line per call, filtered, with the state of its chain. */
export default function Audit({ call }: { call: string | undefined }) {
  if (call) return <AuditCall key={call} call={call} />;
  return (
    <Page title="Audit" about="One record per call, also for the refused ones. Each is chained to the one before; contents are kept as digests only." actions={<Verify />}>
      <Records />
    </Page>
  );
}

function Records() {
  const [filter, setFilter] = useState(EVERYTHING);
  const [period, setPeriod] = useState<Period>();
  const key = JSON.stringify(filter);
  const [pages, setPages] = useState<{ key: string; items: AuditRecord[]; cursor: string | null | undefined }>();
  const request = (cursor?: string) => api.audit({ ...filter, since: since(filter.since), cursor, limit: String(PAGE) });
  const first = useLoaded(() => request(), key);
  const added = pages?.key === key ? pages : undefined;
  const items = [...(first.value?.items ?? []), ...(added?.items ?? [])];
  const next = added ? added.cursor : first.value?.nextCursor;
  const more = async () => {
    if (!next) return;
    const list = await request(next);
    setPages({ key, items: [...(added?.items ?? []), ...list.items], cursor: list.nextCursor });
  };
  const shown = period ? items.filter((record) => within(period, record)) : items;
  const change = (changes: Partial<Filter>) => {
    setPeriod(undefined);
    setFilter({ ...filter, ...changes });
  };
  return (
    <>
      <form className="filter" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <input aria-label="Tool" placeholder="Tool" value={filter.tool} onChange={(event) => change({ tool: event.target.value })} />
        <select aria-label="Decision" value={filter.decision} onChange={(event) => change({ decision: event.target.value })}>
          {DECISIONS.map((decision) => (
            <option key={decision} value={decision}>
              {decision || 'Every decision'}
            </option>
          ))}
        </select>
        <input aria-label="Caller" placeholder="Caller" value={filter.caller} onChange={(event) => change({ caller: event.target.value })} />
        <select aria-label="Since" value={filter.since} onChange={(event) => change({ since: event.target.value })}>
          <option value="">Always</option>
          <option value="1">Last hour</option>
          <option value="24">Last day</option>
          <option value="168">Last week</option>
        </select>
        <button type="button" className="button is-small" onClick={first.reload}>
          Refresh
        </button>
      </form>
      <Failed problem={first.problem} />
      {first.value && items.length === 0 && <Empty>{key === JSON.stringify(EVERYTHING) ? 'No call was made yet. Each one leaves a record here, also when it is refused.' : 'No record fits.'}</Empty>}
      <Timeline records={items} period={period} choose={setPeriod} />
      {shown.length > 0 && <RecordTable items={shown} />}
      {period && (
        <button type="button" className="show-more" onClick={() => setPeriod(undefined)}>
          Show all {items.length} records
        </button>
      )}
      {next && !period && (
        <button type="button" className="show-more" onClick={() => void more()}>
          Show older
        </button>
      )}
    </>
  );
}

/** Records of one request. */
const PAGE = 200;

function within({ since, until }: Period, { timestamp }: AuditRecord): boolean {
  const time = Date.parse(timestamp);
  return time >= Date.parse(since) && time < Date.parse(until);
}

function since(hours: string): string | undefined {
  return hours ? new Date(Date.now() - Number(hours) * 3_600_000).toISOString() : undefined;
}

function RecordTable({ items }: { items: AuditRecord[] }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Records">
      <table className="records is-calls">
        <thead>
          <tr>
            <th>No.</th>
            <th>Time</th>
            <th>Tool</th>
            <th>Decision</th>
            <th>What</th>
            <th>Caller</th>
            <th>Took</th>
          </tr>
        </thead>
        <tbody>
          {items.map((record) => (
            <tr key={`${record.seq}-${record.traceId}`}>
              <td className="number cell-no">{record.seq}</td>
              <td className="nowrap cell-time">{clock(record.timestamp)}</td>
              <td className="cell-tool">
                <a href={address('audit', record.traceId)}>{revealed(record.tool.name)}</a>
              </td>
              <td className="cell-decision">
                <span className={`decision decision-${record.decision}`}>{record.decision}</span>
              </td>
              <td className="cell-what">
                {revealed(touched(record))}
                {record.denial && <div className="muted">{revealed(why(record))}</div>}
              </td>
              <td className="cell-caller">{revealed(record.caller.agent ? `${record.caller.sub} (${record.caller.agent})` : record.caller.sub)}</td>
              <td className="number nowrap cell-took">{typeof record.duration === 'number' ? `${record.duration.toFixed(1)} ms` : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The files, hosts or the command of a call, as the record names them. */
export function touched({ details, sealedDetails }: AuditRecord): string {
  if (sealedDetails) return 'encrypted';
  const { command, ...lists } = (details ?? {}) as Record<string, unknown>;
  const names = Object.values(lists).flatMap((list) => (Array.isArray(list) ? list.map(String) : []));
  return [...(typeof command === 'string' ? [command] : []), ...names].join(', ');
}

export function why({ denial }: AuditRecord): string {
  return denial ? [denial.stage, denial.code, denial.reason].filter(Boolean).join(' · ') : '';
}

/** Checks the chain, and shows what was found. */
function Verify() {
  const [state, setState] = useState<AuditState>();
  const [problem, setProblem] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const verify = async () => {
    setIsBusy(true);
    setProblem('');
    try {
      setState(await api.verify());
    } catch (error) {
      setProblem(explain(error));
    }
    setIsBusy(false);
  };
  return (
    <div className="verify">
      <button type="button" className="button" disabled={isBusy} onClick={() => void verify()}>
        <Icon name="shield" /> {isBusy ? 'Checking…' : 'Verify the chain'}
      </button>
      <div role="status">
        {state && (
          <p className={state.ok ? 'chain is-ok' : 'chain is-broken'}>
            <Icon name={state.ok ? 'check' : 'ban'} />
            {revealed(chainState(state))}
          </p>
        )}
        {state && !state.problem && state.gaps.length > 0 && (
          <ul className="chain-gaps" aria-label="Calls without a record">
            {state.gaps.map((gap) => (
              <li key={gap.since}>{revealed(gap.message)}</li>
            ))}
          </ul>
        )}
        {problem && <p className="problem">{problem}</p>}
      </div>
    </div>
  );
}

/** Broken, if a line is not what it was; INCOMPLETE, if calls are missing although every line is. */
export function chainState({ ok, records, days, checkpoints, problem, gaps, callsCutOff }: AuditState): string {
  const all = `${records} ${records === 1 ? 'record' : 'records'} in ${days} ${days === 1 ? 'day' : 'days'}, ${checkpoints} signed ${checkpoints === 1 ? 'checkpoint' : 'checkpoints'}`;
  if (ok) return `Unbroken: ${all}`;
  if (problem) return `Broken: ${problem.kind.replaceAll('_', ' ')}${problem.file ? ` in ${problem.file}` : ''}${problem.line > 0 ? `, line ${problem.line}` : ''}`;
  const missing = [
    ...(gaps.length > 0 ? [`${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}`] : []),
    ...(callsCutOff > 0 ? [`${callsCutOff} ${callsCutOff === 1 ? 'call' : 'calls'} of a gate that ended, which the next start records`] : []),
  ];
  return `INCOMPLETE: ${missing.join(', ')}. What is there is unbroken: ${all}`;
}
