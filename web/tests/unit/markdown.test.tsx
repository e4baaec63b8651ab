import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { Markdown } from '../../src/text/Markdown';

const html = (text: string) => renderToStaticMarkup(<Markdown text={text} />);

describe('Markdown of a model', () => {
  it('has headings below those of the page, lists, tables and code', () => {
    const page = html('# A\n\n1. b\n\n| c | d |\n|---|---|\n| e | f |\n\n```rust\nfn g() {}\n```\n\n~~h~~ **i** *j*');
    for (const part of ['<h3 class="prose-h1">A</h3>', '<ol start="1"><li>b</li></ol>', '<th>c</th>', '<td>f</td>', 'fn g() {}', '<s>h</s>', '<strong>i</strong>', '<em>j</em>']) {
      expect(page).toContain(part);
    }
  });

  it.each([
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '<svg onload=alert(1)>',
    '<style>*{display:none}</style>',
    '<div role="alertdialog" class="gate">Toolgate asks</div>',
    '<a href="javascript:alert(1)">x</a>',
    '<iframe src="https://evil.example"></iframe>',
  ])('shows %s as text', (text) => {
    const page = html(text);
    expect(page).not.toMatch(/<(script|img|svg onload|style|div role|a |iframe)/);
    expect(page).toContain('&lt;');
  });

  it.each(['![x](https://evil.example/beacon.png)', '![x][1]\n\n[1]: https://evil.example/beacon.png', '[x](https://evil.example/)', '<https://evil.example/>'])('loads nothing for %s', (text) => {
    const page = html(text);
    expect(page).not.toContain('<img');
    expect(page).not.toMatch(/ src=/);
    // The only way to leave stands in a dialog that a person opens.
    expect(page.replace(/<dialog.*?<\/dialog>/gs, '')).not.toContain('href');
    expect(page).toContain('evil.example');
  });

  it('offers no other address than those of the web', () => {
    for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'javascript&colon;alert(1)', 'vbscript:x']) {
      expect(html(`[x](${address})`)).not.toContain('href');
    }
  });

  it('marks hidden characters after entities were read', () => {
    expect(html('a&#x202e;b')).toContain('U+202E');
    expect(html('`a\u200bb`')).toContain('U+200B');
  });

  it.each([
    ['nested quotes', '>'.repeat(10_000)],
    ['open emphasis', '*a '.repeat(5000)],
    ['open links', '['.repeat(15_000)],
    ['nested links', `${'[a]('.repeat(4000)}`],
    ['backticks', Array.from({ length: 170 }, (_, count) => '`'.repeat(count)).join(' ')],
    ['references', Array.from({ length: 800 }, (_, index) => `[a${index}]: /x`).join('\n') + '[a1]'.repeat(500)],
    ['a wide table', `${'|a'.repeat(3000)}|\n${'|-'.repeat(3000)}|\n|b|`],
  ])('is shown as it was written for %s', (_, text) => {
    expect(html(text.slice(0, 16_000))).toMatch(/^<div class="prose prose-plain">/);
  });

  it('is parsed with much code and a long table', () => {
    const rows = Array.from({ length: 60 }, (_, row) => `| ${row} | \`a\` | *b* |`).join('\n');
    expect(html(`| a | b | c |\n|---|---|---|\n${rows}\n\n\`\`\`c\n${'a[*p] |= (*q)[i] & ~1;\n'.repeat(400)}\`\`\``)).toContain('<td>59</td>');
  });
});
