import type { AuditRecord } from '../api/types';
import { clock } from '../ui/format';

const BARS = 48;
const HEIGHT = 64;
const DECISIONS = ['ALLOWED', 'DENIED', 'ERROR'] as const;

export interface Period {
  since: string;
  until: string;
}

interface Bar {
  from: number;
  to: number;
  counts: Record<string, number>;
  total: number;
}

/** The records over time: the newest ones that were loaded, as bars of equal length; choosing one shows its calls alone. */
export function Timeline({ records, period, choose }: { records: AuditRecord[]; period: Period | undefined; choose: (period: Period | undefined) => void }) {
  const bars = barsOf(records);
  if (bars.length === 0) return null;
  const most = Math.max(...bars.map((bar) => bar.total));
  const [first, last] = [bars[0] as Bar, bars[bars.length - 1] as Bar];
  return (
    <div className="timeline" role="group" aria-label="Timeline">
      <ol className="timeline-bars">
        {bars.map((bar) => {
          const isChosen = period !== undefined && Date.parse(period.since) === bar.from;
          const label = `${clock(new Date(bar.from).toISOString())}: ${DECISIONS.filter((decision) => bar.counts[decision]).map((decision) => `${bar.counts[decision]} ${decision}`).join(', ') || 'no calls'}`;
          return (
            <li key={bar.from}>
              <button type="button" className="timeline-bar" aria-label={label} title={label} aria-pressed={isChosen} disabled={bar.total === 0} onClick={() => choose(isChosen ? undefined : { since: new Date(bar.from).toISOString(), until: new Date(bar.to).toISOString() })}>
                <Stack bar={bar} most={most} />
              </button>
            </li>
          );
        })}
      </ol>
      <div className="timeline-foot">
        <span>{clock(new Date(first.from).toISOString())}</span>
        <span className="timeline-legend" aria-hidden="true">
          {DECISIONS.map((decision) => (
            <span key={decision} className={`decision-${decision}`}>
              {decision}
            </span>
          ))}
        </span>
        <span>{clock(new Date(last.to).toISOString())}</span>
      </div>
    </div>
  );
}

function Stack({ bar, most }: { bar: Bar; most: number }) {
  let top = HEIGHT;
  return (
    <svg viewBox={`0 0 10 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {DECISIONS.map((decision) => {
        const count = bar.counts[decision] ?? 0;
        const height = count === 0 ? 0 : Math.max(3, (count / most) * (HEIGHT - 4));
        top -= height;
        return <rect key={decision} className={`timeline-${decision}`} x="0" y={top} width="10" height={height} />;
      })}
    </svg>
  );
}

/** Bars between the oldest and the newest record; none where there are too few to compare. */
export function barsOf(records: AuditRecord[]): Bar[] {
  const times = records.map((record) => Date.parse(record.timestamp)).filter(Number.isFinite);
  if (times.length < 2) return [];
  const [start, end] = [Math.min(...times), Math.max(...times) + 1];
  const width = Math.max(1, Math.ceil((end - start) / BARS));
  const bars = Array.from({ length: Math.ceil((end - start) / width) }, (_, index): Bar => ({ from: start + index * width, to: start + (index + 1) * width, counts: {}, total: 0 }));
  for (const record of records) {
    const bar = bars[Math.floor((Date.parse(record.timestamp) - start) / width)];
    if (!bar) continue;
    bar.counts[record.decision] = (bar.counts[record.decision] ?? 0) + 1;
    bar.total += 1;
  }
  return bars;
}
