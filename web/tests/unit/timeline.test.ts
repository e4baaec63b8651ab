import { expect, test } from 'vitest';
import type { AuditRecord } from '../../src/api/types';
import { barsOf } from '../../src/views/Timeline';

const record = (ms: number, decision: AuditRecord['decision'] = 'ALLOWED'): AuditRecord => ({
  v: 2, prev: '', hash: '', duration: 1, request: { argsHash: '' }, seq: ms, timestamp: new Date(Date.UTC(2026, 0, 1) + ms).toISOString(), traceId: String(ms), caller: { sub: 'a', permissions: [], session: 's' }, tool: { name: 't' }, decision,
});

test('every record is in exactly one bar, and bars follow each other without a gap', () => {
  for (const times of [[0, 0], [0, 1], [0, 5, 5, 9], [0, 1000, 86_400_000], Array.from({ length: 200 }, (_, index) => index * index)]) {
    const bars = barsOf(times.map((time, index) => record(time, index % 3 === 0 ? 'DENIED' : 'ALLOWED')));
    expect(bars.reduce((sum, bar) => sum + bar.total, 0)).toBe(times.length);
    expect(bars.length).toBeLessThanOrEqual(48);
    bars.slice(1).forEach((bar, index) => expect(bar.from).toBe(bars[index]?.to));
  }
});

test('one record, or none, is no timeline', () => {
  expect(barsOf([])).toEqual([]);
  expect(barsOf([record(0)])).toEqual([]);
});
