import { expect, it } from 'vitest';
import type { AuditState } from '../../src/api/types';
import { chainState } from '../../src/views/Audit';

const STATE: AuditState = {
  ok: true, records: 3, days: 1, firstTime: null, lastTime: null, lastSeq: 3, lastHash: null, checkpoints: 1, recordsAfterCheckpoint: 0, callsWithoutRecord: 0, callsCutOff: 0, gaps: [], keys: [], problem: null,
};
const GAP = { since: '2026-11-15T08:00:00.000Z', until: null, calls: 2, message: '2 calls have no record' };

it('a record without a broken line is never called broken', () => {
  expect(chainState(STATE)).toBe('Unbroken: 3 records in 1 day, 1 signed checkpoint');
  const incomplete = chainState({ ...STATE, ok: false, gaps: [GAP], callsCutOff: 1 });
  expect(incomplete).toBe('INCOMPLETE: 1 gap, 1 call of a gate that ended, which the next start records. What is there is unbroken: 3 records in 1 day, 1 signed checkpoint');
  expect(incomplete).not.toMatch(/null|Broken/);
});

it('a broken chain says where and what', () => {
  const broken = chainState({ ...STATE, ok: false, problem: { file: '2026-11-15.jsonl', line: 7, kind: 'chain_broken' }, gaps: [GAP] });
  expect(broken).toBe('Broken: chain broken in 2026-11-15.jsonl, line 7');
});
