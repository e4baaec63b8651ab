import { describe, expect, it } from 'vitest';
import type { EventName, Events, Frame } from '../../src/api/types';
import { advance, Editor, emptyChat, MAX_LIVE_OUTPUT, withoutAttachments, type Block, type CallBlock } from '../../src/chat/model';

let seq = 0;
function frame<E extends EventName>(event: E, data: Events[E]): Frame {
  seq += 1;
  return { seq, event, data } as Frame;
}

const start = (toolId: string, toolName = 'read_file') => frame('chat:tool-start', { messageId: 'm', toolId, toolName, input: { path: 'a' } });
const result = (toolId: string, decision: 'ALLOWED' | 'DENIED' = 'ALLOWED') =>
  frame('chat:tool-result', { messageId: 'm', toolId, toolName: 'read_file', status: decision === 'ALLOWED' ? 'success' : 'error', result: 'x', metadata: { callId: toolId, durationMs: 1, decision } });
const confirm = (toolId: string) =>
  frame('chat:tool-confirm', {
    messageId: 'm', toolId, toolName: 'run_command', input: { command: 'ls' }, class: 'destructive', summary: [], card: { tool: 'run_command', summary: [], digest: 'd' },
    timeoutMs: 1000, expiresAt: '2030-01-01T00:00:00Z', mayLast: true, grants: [],
  });
const text = (piece: string) => frame('chat:text-delta', { messageId: 'm', text: piece });
const end = () => frame('chat:stream-end', { reason: 'done', text: '', usage: { inputTokens: 1, outputTokens: 1, cachedTokens: 0 }, iterations: 1 });

const kinds = (blocks: Block[]) => blocks.map((block) => (block.kind === 'call' ? `call:${block.status}` : block.kind));
const call = (blocks: Block[], toolId: string) => blocks.find((block): block is CallBlock => block.kind === 'call' && block.toolId === toolId);

describe('a conversation', () => {
  it('has blocks in the order of events', () => {
    const chat = advance(emptyChat(), [frame('chat:user-message', { messageId: 'u', text: 'hi', by: { subject: 'alice', via: 'web' } }), text('a'), text('b'), start('1'), result('1'), text('c'), end()]);
    expect(kinds(chat.blocks)).toEqual(['user', 'text', 'call:success', 'text', 'end']);
    expect(chat.blocks[1]).toMatchObject({ text: 'ab', open: false });
    expect(chat.running).toBe(false);
  });

  it('is the same whether events come one by one or all together', () => {
    const frames = [text('a'), start('1'), confirm('1'), frame('chat:tool-answered', { toolId: '1', approved: true, scope: 'once', by: { subject: 'alice', via: 'web' } }), result('1'), end()];
    const strip = (blocks: Block[]) => blocks.map((block) => ({ ...block, key: '' }));
    const together = advance(emptyChat(), frames);
    const apart = frames.reduce((chat, one) => advance(chat, [one]), emptyChat());
    expect(strip(apart.blocks)).toEqual(strip(together.blocks));
  });

  it('does not replace a block that did not change', () => {
    const before = advance(emptyChat(), [text('a'), start('1'), result('1'), start('2')]);
    const after = advance(before, [frame('chat:tool-delta', { messageId: 'm', toolId: '2', chunk: 'x' })]);
    expect(after.blocks[0]).toBe(before.blocks[0]);
    expect(after.blocks[1]).toBe(before.blocks[1]);
    expect(after.blocks[2]).not.toBe(before.blocks[2]);
    expect(before.blocks[2]).toMatchObject({ output: '' });
  });

  it('shows a question until it is answered, withdrawn or its call ended', () => {
    for (const last of [
      frame('chat:tool-answered', { toolId: '1', approved: false, scope: 'once', by: { subject: 'bob', via: 'web' }, reason: 'no' }),
      frame('chat:tool-withdrawn', { messageId: 'm', toolId: '1' }),
      result('1', 'DENIED'),
      end(),
    ]) {
      const asked = advance(emptyChat(), [start('1'), confirm('1')]);
      expect(asked.questions).toHaveLength(1);
      expect(kinds(asked.blocks)).toEqual(['call:asking']);
      expect(advance(asked, [last]).questions).toHaveLength(0);
    }
  });

  it('shows a question once when it is sent again, and not when its call has ended', () => {
    expect(advance(emptyChat(), [start('1'), confirm('1'), confirm('1')]).questions).toHaveLength(1);
    expect(advance(emptyChat(), [start('1'), result('1'), confirm('1')]).questions).toHaveLength(0);
  });

  it('forgets what was never finished', () => {
    const chat = advance(emptyChat(), [text('half'), start('1'), frame('chat:error', { code: 'interrupted', message: 'again', retryable: true, voided: 'm' }), text('whole')]);
    expect(kinds(chat.blocks)).toEqual(['error', 'text']);
  });

  it('stops calls that the end of the turn left open', () => {
    expect(kinds(advance(emptyChat(), [start('1'), end()]).blocks)).toEqual(['call:stopped', 'end']);
  });

  it('tells a refusal from a failure', () => {
    expect(call(advance(emptyChat(), [start('1'), result('1', 'DENIED')]).blocks, '1')?.status).toBe('denied');
  });

  it('keeps the end of a long live output', () => {
    const chunk = 'x'.repeat(50_000);
    const frames = Array.from({ length: 100 }, () => frame('chat:tool-delta', { messageId: 'm', toolId: '1', chunk }));
    const output = call(advance(emptyChat(), [start('1'), ...frames, frame('chat:tool-delta', { messageId: 'm', toolId: '1', chunk: 'end' })]).blocks, '1')?.output ?? '';
    expect(output.length).toBeLessThanOrEqual(2 * MAX_LIVE_OUTPUT);
    expect(output.endsWith('end')).toBe(true);
  });

  it('splits a text of five megabytes into bounded blocks', () => {
    const frames = Array.from({ length: 5000 }, () => text(`${'word '.repeat(200)}\n`));
    const chat = advance(emptyChat(), frames);
    expect(chat.blocks.every((block) => block.kind === 'text' && block.text.length < 20_000)).toBe(true);
    expect(chat.blocks.filter((block) => block.kind === 'text' && block.open)).toHaveLength(1);
  });

  it('is rebuilt from what was said before', () => {
    const editor = new Editor(emptyChat());
    editor.past([
      { position: 0, at: '', role: 'user', text: 'hi' },
      { position: 1, at: '', role: 'assistant', parts: [{ type: 'thinking', text: 'hm' }, { type: 'text', text: 'look' }, { type: 'call', id: 'x', toolName: 'read_file', input: { path: 'a' } }, { type: 'call', id: 'y', toolName: 'read_file', input: 'not json' }] },
      { position: 2, at: '', role: 'results', results: [{ id: 'x', toolName: 'read_file', text: 'content', isError: false }] },
    ]);
    expect(kinds(editor.chat.blocks)).toEqual(['user', 'thinking', 'text', 'call:success', 'call:stopped']);
    expect(call(editor.chat.blocks, 'past-1-x')?.result).toBe('content');
  });

  it('shows files that came with a stored message by their names', () => {
    const file = (name: string, text: string, fence = '```') => `\n\nAttached file \`${name}\`:\n${fence}\n${text}\n${fence}`;
    const table: [string, ReturnType<typeof withoutAttachments>][] = [
      ['look', { text: 'look' }],
      [`look${file('a.txt', 'one\ntwo')}`, { text: 'look', attachments: ['a.txt'] }],
      [`look${file('a.txt', '')}${file('ü\u{1f600}.md', '```\ncode\n```', '````')}`, { text: 'look', attachments: ['a.txt', 'ü\u{1f600}.md'] }],
      [file('a.txt', 'alone'), { text: '', attachments: ['a.txt'] }],
      // A file that itself speaks of files.
      [`look${file('a.txt', `x${file('b.txt', 'y')}`, '````')}`, { text: 'look', attachments: ['a.txt'] }],
      // What a person wrote in the same words, and went on.
      [`look${file('a.txt', 'one')} and more`, { text: `look${file('a.txt', 'one')} and more` }],
      [`look${file('a.txt', 'one')} and${file('b.txt', 'two')}`, { text: `look${file('a.txt', 'one')} and`, attachments: ['b.txt'] }],
    ];
    for (const [stored, shown] of table) expect(withoutAttachments(stored)).toEqual(shown);
  });
});
