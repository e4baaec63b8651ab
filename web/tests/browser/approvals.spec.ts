import { accessible, button, ended, expect, message, open, question, send, startNew, test, tool, unfold, view } from './test';

const COMMANDS = `
memory: conversation
steps:
  - calls: [{tool: run_command, arguments: {command: "echo first > one.txt"}}]
  - calls: [{tool: run_command, arguments: {command: "echo second > two.txt"}}]
  - say: "The gate said: {{last_result}}"
  - calls: [{tool: run_command, arguments: {command: "echo third > three.txt"}}]
  - say: "Then: {{last_result}}"
`;

test.describe('a question', () => {
  test.use({ setup: { script: COMMANDS } });

  test('shows the exact call; approving runs it', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await expect(card).toContainText('echo first > one.txt');
    await expect(tool(page, 'run_command')).toHaveAttribute('aria-busy', 'true');
    expect(gate.has('one.txt')).toBe(false);
    await button(card, 'Approve').click();
    await expect(card).toContainText('echo second > two.txt');
    expect(gate.read('one.txt')).toBe('first\n');
  });

  test('refused with a reason says the reason to the model', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await button(card, 'Approve').click();
    await expect(card).toContainText('second');
    await card.getByRole('textbox', { name: 'Reason for the model' }).fill('use another file');
    await button(card, 'Refuse').click();
    await ended(page);
    await expect(page.getByRole('article', { name: 'Agent' }).last()).toContainText('use another file');
    expect(gate.has('two.txt')).toBe(false);
    await expect(tool(page, 'run_command').last()).toContainText('Refused');
  });

  test('approved for the session is not asked again in it', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    await button(question(page, 'run_command'), 'Approve for this session').click();
    await ended(page);
    expect(gate.read('two.txt')).toBe('second\n');
    await send(page, 'More');
    await ended(page, 2);
    expect(gate.read('three.txt')).toBe('third\n');
  });

  test('is edited before it is approved', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await card.getByRole('button', { name: 'Edit…' }).click();
    await card.getByRole('textbox', { name: 'Command' }).fill('echo mine > mine.txt');
    await button(card, 'Approve the changed call').click();
    await expect(card).toContainText('second');
    expect(gate.read('mine.txt')).toBe('mine\n');
    expect(gate.has('one.txt')).toBe(false);
    await unfold(tool(page, 'run_command').first());
    await expect(tool(page, 'run_command').first()).toContainText('with arguments that you changed');
  });

  test('shows the hidden characters of what is edited, and removes them', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await card.getByRole('button', { name: 'Edit…' }).click();
    await card.getByRole('textbox', { name: 'Command' }).fill('echo a\u202eb > mine.txt');
    await expect(card).toContainText('echo a\\u{202e}b');
    await button(card, 'Remove them').click();
    await expect(card.getByRole('textbox', { name: 'Command' })).toHaveValue('echo ab > mine.txt');
    await button(card, 'Edit as JSON').click();
    await expect(card.getByRole('textbox', { name: 'Arguments (JSON)' })).toHaveValue(/"command": "echo ab > mine.txt"/);
    await card.getByRole('textbox', { name: 'Arguments (JSON)' }).fill('{');
    await expect(button(card, 'Approve the changed call')).toBeDisabled();
    await card.getByRole('textbox', { name: 'Arguments (JSON)' }).fill('{"command": "echo ok > mine.txt"}');
    await button(card, 'Approve the changed call').click();
    await expect(card).toContainText('second');
    expect(gate.read('mine.txt')).toBe('ok\n');
  });

  test('takes a lasting grant that counts in other sessions until it is revoked', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await card.getByRole('button', { name: 'Always…' }).click();
    await accessible(page);
    const offers = card.getByRole('radio');
    expect(await offers.count()).toBeGreaterThan(0);
    await expect(button(card, 'Approve with this grant')).toBeDisabled();
    await offers.first().check();
    await card.getByRole('radio', { name: 'Until revoked' }).check();
    // Word by word what is given, before it is given.
    await expect(card.getByRole('status')).toContainText(/Grants: .*echo first > one.txt.* until revoked/);
    await button(card, 'Approve with this grant').click();
    await expect(card).toContainText('second');

    await startNew(page);
    await send(page, 'Go again');
    // The same call is not asked about; the next one is.
    await expect(question(page, 'run_command')).toContainText('second');
    await view(page, 'Settings');
    const grants = page.getByRole('region', { name: 'Lasting grants' });
    await expect(grants.getByRole('listitem')).toHaveCount(1);
    await accessible(page);
    await button(grants, 'Revoke').click();
    await expect(grants).toContainText('There are none');
  });

  test('is answered in one of two tabs, and the other shows it', async ({ page, gate, context }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await expect(card).toBeVisible();
    const other = await context.newPage();
    await other.goto(page.url());
    const same = question(other, 'run_command');
    await expect(same).toContainText('first');
    await button(same, 'Approve').click();
    await expect(card).toContainText('second');
    await expect(same).toContainText('second');
    await button(card, 'Refuse').click();
    await ended(page);
    await ended(other);
    await expect(tool(other, 'run_command').last()).toContainText('Refused');
    // Whose answer counted, in both: the window that gave it says so of itself, the other names it.
    const said = async (window: typeof page, number: number) => {
      await unfold(tool(window, 'run_command').nth(number));
      return tool(window, 'run_command').nth(number).locator('.tool-foot').innerText();
    };
    expect(await said(other, 0)).toContain('approved by you');
    expect(await said(page, 0)).toMatch(/approved by \S+ \(window c\d+\)/);
    expect(await said(page, 1)).toContain('refused by you');
    expect(await said(other, 1)).toMatch(/refused by \S+ \(window c\d+\)/);
    expect(await other.getByRole('article', { name: 'Agent' }).allTextContents()).toEqual(await page.getByRole('article', { name: 'Agent' }).allTextContents());
  });

  test('is answered with the keyboard alone, and never by a bare Enter', async ({ page, gate }) => {
    await open(page, gate);
    await expect(message(page)).toBeFocused();
    await page.keyboard.type('Go');
    await page.keyboard.press('Enter');
    const card = question(page, 'run_command');
    await expect(card).toBeFocused();
    await expect(button(card, 'Approve')).toBeEnabled();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Space');
    await expect(card).toContainText('first');
    expect(gate.has('one.txt')).toBe(false);
    await page.keyboard.press('a');
    await expect(card).toContainText('second');
    await expect(card).toBeFocused();
    await expect(button(card, 'Approve')).toBeEnabled();
    await page.keyboard.press('r');
    await page.keyboard.type('aaa no');
    await page.keyboard.press('Enter');
    await ended(page);
    await expect(page.getByRole('article', { name: 'Agent' }).last()).toContainText('aaa no');
    expect(gate.has('two.txt')).toBe(false);
  });

  test('does not take the focus from what a person types', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await expect(card).toBeVisible();
    await message(page).fill('a draft: ');
    await button(card, 'Approve').click();
    await message(page).focus();
    await page.keyboard.press('End');
    await expect(card).toContainText('second');
    await page.keyboard.type('aaa');
    await expect(message(page)).toHaveValue('a draft: aaa');
    expect(gate.has('two.txt')).toBe(false);
  });
});

test.describe('a question of a program', () => {
  test('that calls over the API is asked on the start page', async ({ page, gate }) => {
    await open(page, gate);
    const outcome = gate.call('write_file', { path: 'a.txt', content: 'by a program\n' });
    const card = question(page, 'write_file');
    await expect(card).toContainText('by a program');
    await expect(page).toHaveTitle(/^\(1\)/);
    await accessible(page);
    await button(card, 'Approve').click();
    expect((await outcome).decision).toBe('ALLOWED');
    await expect(card).toBeHidden();
    expect(gate.read('a.txt')).toBe('by a program\n');
  });
});

test.describe('a question of an MCP client', () => {
  test('that cannot ask is asked on the start page', async ({ page, gate }) => {
    await open(page, gate);
    const answer = gate.mcp('write_file', { path: 'm.txt', content: 'by an MCP client\n' });
    const card = question(page, 'write_file');
    await expect(card).toContainText('by an MCP client');
    // How long its session lasts is not known, so an answer counts once.
    await expect(button(card, 'Approve for this session')).toHaveCount(0);
    await accessible(page);
    await button(card, 'Approve').click();
    expect(await answer).not.toContain('isError":true');
    await expect(card).toBeHidden();
    expect(gate.read('m.txt')).toBe('by an MCP client\n');
  });
});

test.describe('a question without an answer', () => {
  test.use({ setup: { script: COMMANDS, config: 'approval: {timeout: 3s}\n' } });

  test('expires, and the call is refused', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'run_command');
    await expect(card.getByRole('timer')).toBeVisible();
    await expect(tool(page, 'run_command').first()).toContainText('Refused');
    await expect(card).toContainText('second');
    await ended(page);
    expect(gate.has('one.txt')).toBe(false);
  });
});

const SLOW = `
steps:
  - calls: [{tool: run_command, arguments: {command: "i=0; while [ $i -lt 600 ]; do echo tick $i; i=$((i+1)); sleep 0.1; done"}}]
  - say: "It ended."
`;

test.describe('a command that runs', () => {
  test.use({ setup: { script: SLOW, config: 'trust: autonomous\n' } });

  test('streams its output and is stopped', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    await expect(tool(page, 'run_command')).toContainText('tick 3');
    await expect(tool(page, 'run_command')).toHaveAttribute('aria-busy', 'true');
    await button(page, 'Stop').click();
    await ended(page);
    await expect(page.locator('.turn-end')).toContainText('Stopped by you');
    await expect(tool(page, 'run_command')).toHaveAttribute('aria-busy', 'false');
  });

  test('goes on over a reload', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    await expect(tool(page, 'run_command')).toContainText('tick 3');
    await page.reload();
    const block = tool(page, 'run_command');
    await expect(block).toHaveCount(1);
    await expect(block).toHaveAttribute('aria-busy', 'true');
    await expect(block).toContainText(/tick \d\d/);
    await expect(page.getByRole('article', { name: 'You' })).toHaveCount(1);
    await button(page, 'Stop').click();
    await ended(page);
  });
});

const EDIT = `
steps:
  - calls: [{tool: edit_file, arguments: {path: a/b/notes.txt, old_text: "one", new_text: "two"}}]
  - say: Done.
`;

for (const viewport of [{ width: 1280, height: 720 }, { width: 360, height: 640 }, { width: 320, height: 568 }]) {
  test.describe(`many offers on ${viewport.width} by ${viewport.height}`, () => {
    test.use({ viewport, setup: { script: EDIT, files: { 'a/b/notes.txt': 'one\n' } } });

    test('leave the answers on the screen', async ({ page, gate }) => {
      await open(page, gate);
      // On a small screen the card can leave no room for the message, which is then not in the document.
      await message(page).fill('Go');
      await button(page, 'Send').click();
      const card = question(page, 'edit_file');
      for (const name of ['Approve', 'Approve for this session', 'Refuse']) await expect(button(card, name)).toBeInViewport({ ratio: 1 });
      // And so is a part of the call that can be read.
      const call = await card.getByRole('region', { name: 'The whole call' }).boundingBox();
      expect(call?.height ?? 0).toBeGreaterThan(110);
      await card.getByRole('button', { name: 'Always…' }).click();
      await card.getByRole('radio', { name: /below/ }).first().check();
      await card.getByRole('radio', { name: 'A week' }).check();
      for (const name of ['Approve with this grant', 'Back', 'Refuse']) await expect(button(card, name)).toBeInViewport({ ratio: 1 });
      await accessible(page);
      await button(card, 'Approve with this grant').click();
      await ended(page);
      expect(gate.read('a/b/notes.txt')).toBe('two\n');
    });
  });
}

test.describe('a question while the page is in the background', () => {
  test.use({ setup: { script: COMMANDS }, serviceWorkers: 'allow' });

  test('is notified, with the name of the tool alone', async ({ page, gate, context }) => {
    await context.grantPermissions(['notifications'], { origin: new URL(gate.page).origin });
    await open(page, gate);
    await view(page, 'Settings');
    await button(page, 'Turn on').click();
    await expect(button(page, 'Turn off')).toBeVisible();
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    // What a page in the background sees.
    await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
    const outcome = gate.call('run_command', { command: 'echo secret-word' });
    const notified = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(({ title, body }) => `${title} / ${body}`));
    await expect.poll(notified).toEqual(['Toolgate: a question waits / The agent asks to call run_command.']);
    await page.getByRole('link', { name: 'Sessions', exact: true }).click();
    await button(question(page, 'run_command'), 'Refuse').click();
    expect((await outcome).decision).toBe('DENIED');
    // An answered question leaves no notification behind.
    await expect.poll(notified).toEqual([]);
  });
});

test.describe('a long call', () => {
  const lines = Array.from({ length: 120 }, (_, index) => `line ${index}`).join('\\n');
  test.use({ setup: { script: `steps:\n  - calls: [{tool: write_file, arguments: {path: long.txt, content: "${lines}"}}]\n  - say: Done.\n` } });

  test('says that it goes on until its end is reached', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Go');
    const card = question(page, 'write_file');
    const more = button(card, 'The call goes on');
    await expect(more).toBeVisible();
    await more.click();
    await expect(more).toBeVisible();
    await card.getByRole('region', { name: 'The whole call' }).evaluate((element) => (element.scrollTop = element.scrollHeight));
    await expect(more).toBeHidden();
    await expect(card.getByText('Arguments as the model sent them')).toBeInViewport();
    await button(card, 'Refuse').click();
    await ended(page);
  });
});
