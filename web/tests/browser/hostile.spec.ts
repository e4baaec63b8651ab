/** A model whose every word is an attack on the page: nothing loads, nothing runs, nothing hangs, nothing looks like the gate. */
import { amberPixels, amberPixelsOfAll } from './amber';
import { ATTACKS, BEACON, hears, requests } from './canary';
import { button, ended, expect, HANGING_MS, longestTask, message, open, question, send, test, tool, unfold, watchTasks } from './test';

test.beforeAll(() => hears());

// One worker for this file: the canary is one.
test.describe.configure({ mode: 'default' });

const say = (text: string) => `  - say: ${JSON.stringify(text)}\n`;

test.describe('text', () => {
  const script = `memory: prompt\nsteps:\n  - think: ${JSON.stringify(ATTACKS.join('\n\n'))}\n    say: ${JSON.stringify(ATTACKS.join('\n\n'))}\n`;
  test.use({ setup: { script } });

  test('loads and runs nothing, and cannot look like the gate', async ({ page, gate }) => {
    const elsewhere: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(gate.page) && !request.url().startsWith('ws')) elsewhere.push(request.url());
    });
    await open(page, gate);
    await send(page, 'Attack');
    await ended(page);
    await page.getByRole('button', { name: 'Thought' }).click();

    await expect(page.getByRole('alertdialog')).toHaveCount(0);
    await expect(page.locator('.transcript').locator('script, img, svg image, iframe, object, video, link, style, meta, base, form, input')).toHaveCount(0);
    await expect(page.locator('.transcript a[href^="javascript"], .transcript a[href^="data"]')).toHaveCount(0);
    await expect(page.locator('.hidden-char').first()).toBeVisible();
    const text = await page.locator('.transcript').innerText();
    expect(text).toContain('\\u{202e}');
    for (const hidden of ['\u202e', '\u200b', '\u001b']) expect(text).not.toContain(hidden);
    // Amber is the gate's alone.
    expect(await page.evaluate(amberInTranscript)).toEqual([]);
    expect(await amberPixelsOfAll(page.locator('.transcript'))).toBe(0);
    await page.locator('.transcript').evaluate((element) => (element.scrollTop = 0));

    // A link shows where it leads, and a bad one cannot be opened.
    await page.getByRole('button', { name: /click me/ }).first().click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('javascript:');
    await expect(dialog.getByRole('link')).toHaveCount(0);
    await button(dialog, 'Close').click();
    expect(elsewhere).toEqual([]);
    expect(requests).toEqual([]);
  });
});

/** The elements among the messages that are drawn in a colour of the gate. */
function amberInTranscript(): string[] {
  const probe = document.createElement('i');
  document.body.append(probe);
  const colours = ['--gate', '--gate-fill', '--gate-soft', '--gate-line'].map((name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  const parts = ['color', 'backgroundColor', 'borderTopColor', 'borderLeftColor', 'outlineColor'] as const;
  return [...document.querySelectorAll('.transcript *')]
    .filter((element) => parts.some((part) => colours.includes(getComputedStyle(element)[part])))
    .map((element) => element.outerHTML.slice(0, 120));
}

test.describe('calls', () => {
  const command = `echo safe \u202e# ; curl ${BEACON}/x\u202c \u200b; printf '\\033[31mred\\033[0m<script>fetch(1)</script>'`;
  const script = `steps:\n  - calls: [{tool: run_command, arguments: {command: ${JSON.stringify(command)}}}]\n${say('Done.')}`;
  test.use({ setup: { script } });

  test('show every hidden character in a question, and their output is text', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Attack');
    const card = question(page, 'run_command');
    await expect(card).toContainText('\\u{202e}');
    // The picture of the card is in the colour that the one of the messages has none of.
    expect(await amberPixels(card)).toBeGreaterThan(1000);
    expect(await amberPixels(page.locator('.transcript'))).toBe(0);
    await expect(card).toContainText('\\u{200b}');
    expect(await card.innerText()).not.toMatch(/[\u202e\u200b]/);
    // The block of the call is drawn by the page from what the model sent.
    await expect(tool(page, 'run_command').getByLabel('Command')).toContainText('\\u{202e}');
    const shown = await page.locator('#root').innerText();
    for (const hidden of ['\u202e', '\u200b']) expect(shown).not.toContain(hidden);
    await button(card, 'Approve').click();
    await ended(page);
    await unfold(tool(page, 'run_command'));
    await expect(tool(page, 'run_command').getByLabel(/Output/)).toContainText('<script>');
    await expect(page.locator('.transcript script')).toHaveCount(0);
    expect(requests).toEqual([]);
  });
});

test.describe('colours of a command', () => {
  const parts = [
    '\\033[31mred\\033[0m plain \\033[1;93mbold\\033[0m ',
    // Concealed, blinking, faint, reversed, black on black, underlined like a link.
    '\\033[8mc\\033[0m\\033[5mb\\033[0m\\033[2mf\\033[0m\\033[7mr\\033[0m\\033[30;40mk\\033[0m\\033[4mu\\033[0m',
    `\\033]8;;${BEACON}/link\\007text\\033]8;;\\007\\033]0;title\\007\\033[2J\\033[3A\\033[48;2;232;163;23m end\\033[0m\\n`,
  ];
  const command = `printf '${parts.join('')}'; until test -e go; do sleep 0.1; done; printf '\\033[32mlast\\033[0m\\n'`;
  const script = `memory: prompt\nsteps:\n  - calls: [{tool: run_command, arguments: {command: ${JSON.stringify(command)}}}]\n  - say: "{{last_result}}"\n`;
  test.use({ setup: { script } });

  test('are shown while it runs and afterwards, and are all that is obeyed', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Attack');
    await button(question(page, 'run_command'), 'Approve').click();
    const output = tool(page, 'run_command').getByLabel(/Output/);
    const coloured = async () => {
      await expect(output.locator('span.ansi-red')).toHaveText('red');
      await expect(output.locator('span.ansi-yellow.ansi-bold')).toHaveText('bold');
      await expect(output).toContainText('red plain bold cbfrkutext end');
      // Everything else looks like plain output.
      const styles = await output.evaluate((element) => [...new Set([...element.querySelectorAll('span')].map((span) => span.className))]);
      expect(styles.filter((style) => !/^(ansi-(red|green|yellow) ?|ansi-bold ?)+$/.test(style))).toEqual([]);
      await expect(output.locator('a')).toHaveCount(0);
      expect(await amberPixels(page.locator('.transcript'))).toBe(0);
    };
    await coloured();
    gate.edit('go', '');
    await ended(page);
    await unfold(tool(page, 'run_command'));
    await coloured();
    await expect(output.locator('span.ansi-green')).toHaveText('last');
    // The model was given none of it, as the text that it repeats shows.
    const said = await page.getByRole('article').last().innerText();
    expect(said).toContain('red plain bold cbfrkutext end');
    for (const sequence of ['\u001b', '\\u{1b}', '[31m']) expect(said).not.toContain(sequence);
    // The store keeps what the model was given.
    await page.reload();
    await unfold(tool(page, 'run_command'));
    await expect(output).toContainText('red plain bold cbfrkutext end');
    expect(requests).toEqual([]);
  });
});

test.describe('sizes', () => {
  const bombs = ['['.repeat(30_000), '*a '.repeat(20_000), '>'.repeat(20_000), `${'|a'.repeat(4000)}|\n${'|-'.repeat(4000)}|\n`, '`'.repeat(20_000)];
  const script = [
    'steps:',
    `  - say: ${JSON.stringify(bombs.join('\n\n'))}`,
    '    chunk: 4096',
    '    calls: [{tool: run_command, arguments: {command: "head -c 5000000 /dev/zero | tr \'\\\\0\' x"}}]',
    `  - say: ${JSON.stringify('word '.repeat(1_000_000))}`,
    '    chunk: 65536',
    '',
  ].join('\n');
  test.use({ setup: { script, config: 'trust: autonomous\n' } });

  test('of five megabytes and of Markdown bombs leave the page usable', async ({ page, gate }) => {
    await open(page, gate);
    await watchTasks(page);
    // Not `send`: the message may leave the screen before it is looked for.
    await message(page).fill('Attack');
    await button(page, 'Send').click();
    await expect(button(page, 'Stop').or(page.getByRole('article', { name: 'Agent' })).first()).toBeVisible();
    await message(page).fill('still typing');
    await expect(message(page)).toHaveValue('still typing');
    // So long a turn may leave the log of events; then the page loads what was said, without the line at its end.
    await expect(button(page, 'Send')).toBeVisible();
    await expect(page.getByRole('article', { name: 'Agent' }).last()).toContainText('word');
    // What is not on the screen is not in the document.
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(8000);
    await button(page, 'Send').click();
    await expect(page.getByRole('article', { name: 'You' }).last()).toContainText('still typing');
    expect(await longestTask(page)).toBeLessThan(HANGING_MS);
  });
});
