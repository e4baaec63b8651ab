import { describe, expect, it } from 'vitest';
import { HARD_LIMIT, SOFT_LIMIT, split } from '../../src/text/split';

/** All blocks of a text. */
function blocks(text: string): string[] {
  const result: string[] = [];
  for (let rest = text; ; ) {
    const parts = split(rest);
    if (!parts) return [...result, rest];
    result.push(parts.head);
    rest = parts.tail;
  }
}

describe('a text that streams', () => {
  it('is one block while it is short', () => {
    expect(blocks('a\n\nb')).toEqual(['a\n\nb']);
  });

  it('is split at a blank line, with nothing lost', () => {
    const text = Array.from({ length: 900 }, (_, index) => `Paragraph ${index}, some words.`).join('\n\n');
    const parts = blocks(text);
    expect(parts.join('')).toBe(text);
    expect(parts.length).toBeGreaterThan(4);
    for (const part of parts.slice(0, -1)) {
      expect(part.endsWith('\n\n')).toBe(true);
      expect(part.length).toBeLessThan(SOFT_LIMIT + 100);
    }
  });

  it('keeps a fence open over a cut', () => {
    const code = Array.from({ length: 3000 }, (_, index) => `line ${index}`).join('\n');
    const parts = blocks(`Look:\n\n\`\`\`rust\n${code}\n\`\`\`\nDone.`);
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) {
      const fences = part.split('\n').filter((line) => line.startsWith('```'));
      expect(fences.length % 2).toBe(0);
    }
    const lines = parts.flatMap((part) => part.split('\n')).filter((line) => line.startsWith('line '));
    expect(lines).toHaveLength(3000);
  });

  it('is cut inside of a line that is too long, between whole letters', () => {
    const parts = blocks('😀'.repeat(HARD_LIMIT));
    expect(parts.join('')).toBe('😀'.repeat(HARD_LIMIT));
    expect(parts.some((part) => /^[\udc00-\udfff]/.test(part))).toBe(false);
  });

  it('does not split a list item from what is indented below it', () => {
    const text = `- item\n\n${'  more\n\n'.repeat(700)}end`;
    for (const part of blocks(text).slice(1)) expect(part.startsWith(' ')).toBe(false);
  });

  it('of five megabytes is split in time', () => {
    expect(blocks('x'.repeat(5_000_000)).join('')).toHaveLength(5_000_000);
    expect(blocks('`'.repeat(1_000_000)).join('')).toContain('`');
  });
});
