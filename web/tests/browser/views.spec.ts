import { accessible, button, ended, expect, message, open, question, send, test, view } from './test';

const SCRIPT = `
steps:
  - calls: [{tool: read_file, arguments: {path: README.md}}]
  - calls: [{tool: read_file, arguments: {path: .env}}]
  - calls: [{tool: write_file, arguments: {path: a.txt, content: "a\\n"}}]
  - say: Done.
`;

test.use({ setup: { script: SCRIPT, files: { '.env': 'KEY=1\n' } } });

test('the record is filtered, verified, and followed from a call', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'Go');
  await button(question(page, 'write_file'), 'Approve').click();
  await ended(page);
  await view(page, 'Audit');
  const rows = page.getByRole('table').getByRole('row');
  await expect(rows).toHaveCount(4);
  await page.getByRole('combobox', { name: 'Decision' }).selectOption('DENIED');
  await expect(rows).toHaveCount(2);
  await expect(rows.last()).toContainText('read_file');
  // The timeline has every record that is shown, and narrows the list to one bar.
  await page.getByRole('combobox', { name: 'Decision' }).selectOption('');
  await expect(rows).toHaveCount(4);
  const bars = page.getByRole('group', { name: 'Timeline' }).getByRole('button', { disabled: false });
  await bars.filter({ has: page.locator('svg') }).last().click();
  await expect(rows).toHaveCount(2);
  await expect(rows.last()).toContainText('write_file');
  await page.getByRole('combobox', { name: 'Decision' }).selectOption('DENIED');
  await expect(rows).toHaveCount(2);
  await button(page, 'Verify the chain').click();
  await expect(page.getByText(/Unbroken: \d+ records/)).toBeVisible();
  await accessible(page);
  await rows.last().getByRole('link').click();
  await expect(page.getByRole('list', { name: 'Stages of the call' }).getByRole('listitem').filter({ hasText: 'stopped' })).toHaveCount(1);
  await expect(page.getByRole('region', { name: 'The record' })).toContainText('"argsHash"');
  await accessible(page);
});

test('tools say what they are, whether they ask, and why one is not available', async ({ page, gate }) => {
  await open(page, gate);
  await view(page, 'Tools');
  const row = page.getByRole('listitem').filter({ hasText: 'run_command' }).first();
  await expect(row).toContainText('asks');
  await row.getByRole('button').click();
  await expect(row.getByRole('region', { name: 'Schema of the arguments' })).toContainText('"command"');
  await page.getByRole('searchbox', { name: 'Search tools' }).fill('read_file');
  await expect(page.getByRole('listitem').filter({ hasText: 'run_command' })).toHaveCount(0);
  await accessible(page);
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 360, height: 740 }, hasTouch: true });

  test('nothing is wider than the screen, and everything can be reached', async ({ page, gate }) => {
    await open(page, gate);
    const fits = async () => expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth)).toBe(true);
    await fits();
    await send(page, 'Go');
    const card = question(page, 'write_file');
    await expect(button(card, 'Refuse')).toBeInViewport();
    await expect(button(card, 'Approve')).toBeInViewport();
    await fits();
    await accessible(page);
    await button(card, 'Approve').tap();
    await ended(page);
    await fits();
    await page.getByRole('link', { name: 'Back to the sessions' }).tap();
    await expect(page.getByRole('region', { name: 'Session list' }).getByRole('link', { name: /^Go/ })).toBeVisible();
    for (const name of ['Changes', 'Tools', 'Audit', 'Settings'] as const) {
      await view(page, name);
      await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
      await fits();
    }
    await accessible(page);
  });
});

test.describe('in the dark', () => {
  test.use({ colorScheme: 'dark' });

  test('the page is dark, readable, and can be switched to light', async ({ page, gate }) => {
    const lightness = () => page.evaluate(() => Number(/(\d+)/.exec(getComputedStyle(document.body).backgroundColor)?.[1] ?? -1));
    await open(page, gate);
    expect(await lightness()).toBeLessThan(40);
    await send(page, 'Go');
    await expect(button(question(page, 'write_file'), 'Approve')).toBeEnabled();
    await accessible(page);
    await button(question(page, 'write_file'), 'Approve').click();
    await ended(page);
    for (const name of ['Changes', 'Tools', 'Audit', 'Settings'] as const) {
      await view(page, name);
      await expect(page.getByRole('heading', { level: 1, name })).toBeVisible();
      await accessible(page);
    }
    await button(page, 'Light').click();
    expect(await lightness()).toBeGreaterThan(200);
    await page.reload();
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    expect(await lightness()).toBeGreaterThan(200);
  });
});

test('operators see what all callers do, live', async ({ page, gate }) => {
  await open(page, gate);
  const waiting = gate.call('run_command', { command: 'echo secret-word' });
  await gate.call('read_file', { path: '.env' });
  await expect(question(page, 'run_command')).toBeVisible();
  await page.getByRole('navigation').getByRole('link', { name: 'Traffic', exact: true }).click();
  const region = (name: string) => page.getByRole('region', { name, exact: true });
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(region('Callers').getByRole('row')).toHaveCount(2);
  await expect(region('Refusals and failures')).toContainText('denied_path');
  await expect(region('Questions that wait')).toContainText('run_command');
  // No arguments, no contents.
  await expect(page.locator('main')).not.toContainText('secret-word');
  await accessible(page);
  // What happens from now on appears by itself.
  await gate.call('find_files', { glob: '*.md' });
  await expect(region('Tools').getByRole('row').filter({ hasText: 'find_files' })).toBeVisible();
  await region('Questions that wait').getByRole('link', { name: 'Answer' }).click();
  await button(question(page, 'run_command'), 'Refuse').click();
  expect((await waiting).decision).toBe('DENIED');
});

test.describe('agents', () => {
  test.use({ setup: { script: SCRIPT, config: 'agents:\n  free: {trust: autonomous}\n' } });

  test('an agent that is asked about nothing is announced as such, and choices are kept for this project', async ({ page, gate }) => {
    await open(page, gate);
    await expect(page.getByText('changes and commands wait for your answer')).toBeVisible();
    await page.getByRole('combobox', { name: 'Agent' }).selectOption('free');
    // The level is that of the agent, not that of the gate.
    await expect(page.getByText('Nothing that is allowed waits for you')).toBeVisible();
    await expect(page.getByText('wait for your answer')).toHaveCount(0);
    await page.getByRole('combobox', { name: 'Trust' }).selectOption('supervised');
    await page.reload();
    await expect(page.getByRole('combobox', { name: 'Agent' })).toHaveValue('free');
    await expect(page.getByRole('combobox', { name: 'Trust' })).toHaveValue('supervised');
    await expect(page.getByText('Every call waits for your answer.')).toBeVisible();
    // Another agent of the project has its own level.
    await page.getByRole('combobox', { name: 'Agent' }).selectOption('');
    await expect(page.getByRole('combobox', { name: 'Trust' })).toHaveValue('guided');
  });
});

test.describe('several callers', () => {
  const callers = { alice: ['files:read', 'files:write'], bob: ['files:read'], olga: ['audit:read'] };
  test.use({ setup: { callers, files: { '.env': 'KEY=1\n' } } });

  test('an operator logs in with a token of its own and sees all of them, and a caller sees no other', async ({ page, gate, browser }) => {
    const { alice = '', bob = '', olga = '' } = gate.tokens;
    await gate.call('read_file', { path: 'README.md' }, alice);
    await gate.call('read_file', { path: '.env' }, bob);
    await gate.call('write_file', { path: 'x.txt', content: 'secret-word' }, bob);

    await page.goto(gate.page);
    await page.getByLabel('Token').fill('no.token.atall');
    await button(page, 'Log in').click();
    await expect(page.getByRole('alert')).toBeVisible();
    await page.getByLabel('Token').fill(olga);
    await button(page, 'Log in').click();
    await page.getByRole('navigation').getByRole('link', { name: 'Traffic', exact: true }).click();
    await expect(page.getByText('Live', { exact: true })).toBeVisible();
    const region = (name: string) => page.getByRole('region', { name, exact: true });
    const row = (table: string, text: string) => region(table).getByRole('row').filter({ hasText: text });
    await expect(row('Callers', 'alice').getByRole('cell')).toHaveText(['alice', /yes|no/, /\d/, '1', '0', '0', /./]);
    await expect(row('Callers', 'bob').getByRole('cell')).toHaveText(['bob', /yes|no/, /\d/, '2', '2', '0', /./]);
    await expect(row('Callers', 'olga')).toContainText('yes');
    await expect(region('Refusals and failures')).toContainText('not_permitted');
    await expect(region('Refusals and failures')).toContainText('denied_path');
    await expect(row('Tools', 'write_file')).toContainText('not_permitted');
    await accessible(page);

    // What happens from now on appears by itself: a person of the other caller is asked, in a browser of its own.
    const other = await browser.newContext();
    const second = await other.newPage();
    await second.goto(`${gate.page}#token=${alice}`);
    await expect(message(second)).toBeVisible();
    const waiting = gate.call('write_file', { path: 'a.txt', content: 'secret-word' }, alice);
    await expect(question(second, 'write_file')).toBeVisible();
    const asked = region('Questions that wait').getByRole('listitem').filter({ hasText: 'write_file' });
    await expect(asked).toContainText('alice');
    await expect(region('Questions that wait').getByRole('link', { name: 'Answer' })).toHaveCount(0);
    await expect(page.locator('main')).not.toContainText('secret-word');
    // The caller that is asked answers, and sees nothing of the others.
    await expect(second.getByRole('navigation').getByRole('link', { name: 'Traffic', exact: true })).toHaveCount(0);
    await button(question(second, 'write_file'), 'Approve').click();
    expect((await waiting).decision).toBe('ALLOWED');
    await expect(asked).toHaveCount(0);
    await second.goto(`${gate.page}#/traffic`);
    await expect(second.getByText('audit:read')).toBeVisible();
    await expect(second.locator('main')).not.toContainText('bob');

    // The cookie is no token, no script reads it, and no other site sends it.
    for (const cookie of await page.context().cookies()) {
      expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
      expect(olga).not.toContain(cookie.value);
    }
    expect(await page.evaluate(() => document.cookie)).toBe('');
    await view(page, 'Settings');
    await button(page, 'Log out').click();
    await expect(page.getByLabel('Token')).toBeVisible();
    await page.reload();
    await expect(page.getByLabel('Token')).toBeVisible();
    await other.close();
  });
});
