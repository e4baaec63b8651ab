import { describe, expect, it } from 'vitest';
import { parseAnsi, tail } from '../../src/text/ansi';
import { pairs, parseDiff, splitDiff } from '../../src/text/diff';
import { openable } from '../../src/text/ModelLink';
import { reveal, revealed } from '../../src/text/reveal';

describe('hidden characters', () => {
  it.each([
    ['rm \u202egpj.exe', 'rm \\u{202e}gpj.exe'],
    ['a\u200bb', 'a\\u{200b}b'],
    ['\u001b[8m', '\\u{1b}[8m'],
    ['tag\u{e0041}', 'tag\\u{e0041}'],
    ['a\u00a0b', 'a\\u{a0}b'],
    ['a\rb', 'a\\u{d}b'],
    ['a\r\nb\tc', 'a\nb\tc'],
  ])('%j becomes %j', (text, expected) => {
    expect(revealed(text)).toBe(expected);
  });

  it('are marked as such, so that a model cannot write the same', () => {
    expect(reveal('\\u{202e}')).toEqual([{ text: '\\u{202e}' }]);
    expect(reveal('\u202e')).toEqual([{ text: '\\u{202e}', hidden: 'U+202E' }]);
  });

  it('of emoji and of scripts stay in prose', () => {
    expect(revealed('👩‍💻 ok', 'prose')).toBe('👩‍💻 ok');
    expect(revealed('👩‍💻')).toContain('\\u{200d}');
  });
});

describe('colours of a terminal', () => {
  it('become spans', () => {
    expect(parseAnsi('a\u001b[31;1mb\u001b[0mc')).toEqual([
      { text: 'a', style: '' },
      { text: 'b', style: 'ansi-red ansi-bold' },
      { text: 'c', style: '' },
    ]);
  });

  it.each([
    ['concealed text is shown', '\u001b[8mhidden\u001b[0m', 'hidden'],
    ['a title is dropped', '\u001b]0;evil\u0007x', 'x'],
    ['a link is dropped', '\u001b]8;;http://evil/\u001b\\x\u001b]8;;\u001b\\', 'x'],
    ['the cursor cannot go back', 'one\u001b[1A\u001b[2Ktwo', 'onetwo'],
    ['a carriage return hides nothing', 'secret\rshown', 'secret\nshown'],
    ['an unfinished sequence ends with the text', 'a\u001b[31', 'a'],
  ])('%s', (_, text, expected) => {
    expect(parseAnsi(text).map((span) => span.text).join('')).toBe(expected);
  });

  it('are the only thing that is obeyed', () => {
    expect(parseAnsi('\u001b[2;3;4;7;8;9mx')).toEqual([{ text: 'x', style: '' }]);
  });

  it('are not cut within a sequence', () => {
    const text = 'a\u001b[0;1;31mred\u001b[0m';
    for (let most = 0; most <= text.length + 1; most += 1) {
      const shown = parseAnsi(tail(text, most)).map((span) => span.text).join('');
      expect('ared'.endsWith(shown), `${most}: ${shown}`).toBe(true);
    }
  });

  it('beyond the bound are plain', () => {
    const spans = parseAnsi('\u001b[31ma\u001b[0mb'.repeat(50_000));
    expect(spans.length).toBeLessThan(20_010);
    expect(spans.map((span) => span.text).join('')).toHaveLength(100_000);
  });
});

const DIFF = '--- a.rs\n+++ a.rs\n@@ -1,3 +1,3 @@\n one\n-let a = 1;\n+let b = 1;\n three\n';

describe('differences', () => {
  it('have numbered rows and what changed in a line', () => {
    const [file] = parseDiff(DIFF);
    expect(file).toMatchObject({ path: 'a.rs', added: 1, removed: 1 });
    expect(file?.rows.map((row) => [row.kind, row.before, row.after])).toEqual([
      ['hunk', undefined, undefined],
      ['context', 1, 1],
      ['removed', 2, undefined],
      ['added', undefined, 2],
      ['context', 3, 3],
    ]);
    expect(file?.rows[2]?.changed).toEqual([4, 5]);
  });

  it('do not take a removed line of dashes for a header', () => {
    const [file, second] = parseDiff('--- a\n+++ a\n@@ -1,2 +1,1 @@\n--- b\n same\n');
    expect(second).toBeUndefined();
    expect(file?.removed).toBe(1);
  });

  it('of two files are two', () => {
    expect(parseDiff(`${DIFF}--- /dev/null\n+++ b.rs\n@@ -0,0 +1 @@\n+x\n`).map((file) => file.path)).toEqual(['a.rs', 'b.rs']);
  });

  it('stand side by side', () => {
    const [file] = parseDiff(DIFF);
    const sides = pairs(file?.rows ?? []).map(([left, right]) => [left?.text, right?.text]);
    expect(sides[2]).toEqual(['let a = 1;', 'let b = 1;']);
  });

  it('are found in an answer', () => {
    expect(splitDiff(`replaced 1 in a.rs\n${DIFF}`)).toEqual({ before: 'replaced 1 in a.rs', diff: DIFF });
    expect(splitDiff('--- no diff ---')).toBeUndefined();
  });
});

describe('addresses', () => {
  it.each(['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', '/relative', 'https://user:pw@host/', 'vbscript:x', ' ', 'blob:https://x/1'])('%j cannot be opened', (address) => {
    expect(openable(address)).toBeUndefined();
  });

  it('of the web can', () => {
    expect(openable('https://example.com/a?b=c')?.host).toBe('example.com');
  });
});
