import { accessible, button, calls, ended, expect, message, open, question, send, startNew, test, tool, unfold, view } from './test';

test.describe('first run', () => {
  test('the printed address logs in, loses its token, and a scripted model works without a key', async ({ page, gate, context }) => {
    await open(page, gate);
    expect(page.url()).not.toContain('token');
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
    expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain('token=');
    await expect(page.getByText('ANTHROPIC_API_KEY', { exact: true }).first()).toBeVisible();
    await accessible(page);

    await button(page, 'Show me what you do').click();
    const card = question(page, 'write_file');
    await expect(card).toBeVisible();
    await expect(card).toContainText('toolgate-demo.md');
    await accessible(page);
    await button(card, 'Approve').click();
    await ended(page);
    expect(gate.has('toolgate-demo.md')).toBe(true);
    await expect(page.getByRole('navigation').getByRole('link', { name: 'Sessions' })).toHaveAttribute('aria-current', 'page');
    await accessible(page);
  });

  test('without a token there is a login, and a wrong token is refused', async ({ page, gate }) => {
    await page.goto(gate.page);
    const field = page.getByRole('textbox', { name: 'Token' }).or(page.getByLabel('Token'));
    await field.first().fill('0'.repeat(64));
    await button(page, 'Log in').click();
    await expect(page.getByRole('alert')).toBeVisible();
    await accessible(page);
    await field.first().fill(gate.printed);
    await button(page, 'Log in').click();
    await expect(message(page)).toBeVisible();
  });

  test('the printed address pasted into an open page logs in, and loses its token', async ({ page, gate }) => {
    await page.goto(gate.page);
    await expect(page.getByLabel('Token')).toBeVisible();
    await page.goto(gate.printed);
    await expect(message(page)).toBeVisible();
    expect(page.url()).not.toContain('token');
  });

  test('it can be installed', async ({ page, gate }) => {
    await open(page, gate);
    const browser = await page.context().newCDPSession(page);
    const { installabilityErrors } = await browser.send('Page.getInstallabilityErrors');
    // The tests run in a window of their own without a profile, which installs nothing.
    expect(installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== 'in-incognito')).toEqual([]);
    const { errors, data } = await browser.send('Page.getAppManifest');
    expect(errors).toEqual([]);
    const sizes = (JSON.parse(data ?? '{}') as { icons: { sizes: string }[] }).icons.map((icon) => icon.sizes);
    expect(sizes).toEqual(expect.arrayContaining(['192x192', '512x512']));
  });
});

const SEVERAL = `
steps:
  - think: The names first, then the content.
    say: I will look around.
    calls:
      - {tool: list_directory, arguments: {path: .}}
      - {tool: read_file, arguments: {path: README.md}}
  - calls: [{tool: run_command, arguments: {command: "printf 'one\\\\ntwo\\\\n'; exit 3"}}]
  - calls: [{tool: read_file, arguments: {path: .env}}]
  - say: "Done. **Four** calls:\\n\\n- one\\n- two\\n"
`;

test.describe('a task with several tools', () => {
  test.use({ setup: { script: SEVERAL, config: 'trust: autonomous\n', files: { '.env': 'KEY=secret-value\n' } } });

  test('shows each call in order, what it did and how it ended', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Look around');
    await ended(page);
    const names = await calls(page).evaluateAll((groups) => groups.map((group) => group.getAttribute('aria-label')));
    expect(names).toEqual(['list_directory', 'read_file', 'run_command', 'read_file']);
    for (const group of await calls(page).all()) await expect(group).toHaveAttribute('aria-busy', 'false');
    // Folded once done.
    await expect(calls(page).first().getByRole('button').first()).toHaveAttribute('aria-expanded', 'false');

    await expect(tool(page, 'run_command').locator('.tool-word')).toHaveText('exit 3');
    await unfold(tool(page, 'run_command'));
    await expect(tool(page, 'run_command').getByLabel('Output of run_command')).toContainText('one');
    await expect(tool(page, 'read_file').last()).toContainText('Refused');
    await unfold(tool(page, 'read_file').first());
    await expect(tool(page, 'read_file').first()).toContainText('# Demo');
    expect(await page.content()).not.toContain('secret-value');
    await expect(page.getByRole('article', { name: 'Agent' }).last().locator('strong')).toHaveText('Four');
    await accessible(page);
  });

  test('is the same after a reload', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Look around');
    await ended(page);
    await page.reload();
    await expect(calls(page)).toHaveCount(4);
    await expect(page.getByRole('article', { name: 'You' })).toHaveCount(1);
    // How each call went, too: a command that failed does not look well.
    await expect(tool(page, 'read_file').last()).toContainText('Refused');
    await expect(tool(page, 'run_command').locator('.tool-word')).toHaveText('exit 3');
    await unfold(tool(page, 'run_command'));
    await tool(page, 'run_command').getByRole('link', { name: 'Record' }).click();
    await expect(page.getByRole('heading', { level: 1, name: 'run_command' })).toBeVisible();
  });
});

const EDITS = `
steps:
  - calls: [{tool: edit_file, arguments: {path: src/price.rs, old_text: "tokens * 3", new_text: "tokens * rate"}}]
  - say: Edited.
`;

test.describe('changes', () => {
  test.use({ setup: { script: EDITS, config: 'trust: autonomous\n', files: { 'src/price.rs': 'fn price(tokens: u64) -> u64 {\n    tokens * 3\n}\n' } } });

  test('are shown as a difference, and undone after a preview', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Edit');
    await ended(page);
    const block = tool(page, 'edit_file');
    await unfold(block);
    await expect(block.locator('tr.diff-added')).toContainText('tokens * rate');
    await button(block, 'Side by side').click();
    await expect(block.locator('td.diff-removed.diff-text')).toContainText('tokens * 3');
    expect(gate.read('src/price.rs')).toContain('rate');

    await view(page, 'Changes');
    await button(page, 'Undo').click();
    const preview = page.getByRole('region', { name: 'What undoing would do' });
    // What undoing does is the change the other way round.
    await expect(preview.locator('td.diff-removed.diff-text')).toContainText('tokens * rate');
    await expect(preview.locator('td.diff-added.diff-text')).toContainText('tokens * 3');
    expect(gate.read('src/price.rs')).toContain('rate');
    await accessible(page);
    await button(preview, 'Undo this change').click();
    await expect(page.getByText('undone')).toBeVisible();
    expect(gate.read('src/price.rs')).toContain('tokens * 3');
  });
});

test.describe('a change that was overtaken', () => {
  test.use({ setup: { script: EDITS, config: 'trust: autonomous\n', files: { 'src/price.rs': 'fn price(tokens: u64) -> u64 {\n    tokens * 3\n}\n' } } });

  test('is undone only by saying so', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Edit');
    await ended(page);
    gate.edit('src/price.rs', 'written by a person\n');
    await view(page, 'Changes');
    await button(page, 'Undo').click();
    const preview = page.getByRole('region', { name: 'What undoing would do' });
    await expect(preview).toContainText('was changed since');
    expect(gate.read('src/price.rs')).toBe('written by a person\n');
    await button(preview, 'Undo over later changes').click();
    await expect(page.getByText('undone')).toBeVisible();
    expect(gate.read('src/price.rs')).toContain('tokens * 3');
  });
});

test.describe('sessions', () => {
  test.use({ setup: { script: 'steps:\n  - {say: "Hello.", repeat: true}\n' } });

  test('are found, renamed, exported and deleted', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'First subject');
    await ended(page);
    await startNew(page);
    await send(page, 'Second subject');
    await ended(page);
    const list = page.getByRole('region', { name: 'Session list' });
    await expect(list.getByRole('listitem')).toHaveCount(2);

    await list.getByRole('listitem').filter({ hasText: 'First' }).hover();
    await list.getByLabel('Actions for First subject').click();
    await button(list, 'Rename').click();
    await page.getByRole('textbox', { name: 'Title of the session' }).fill('Renamed');
    await page.keyboard.press('Enter');
    await expect(list.getByRole('link', { name: 'Renamed' })).toBeVisible();
    // Escape changes nothing, and leaving the field saves.
    for (const [key, title] of [['Escape', 'Second subject'], ['Tab', 'Left']] as const) {
      await list.getByLabel('Actions for Second subject').click();
      await button(list, 'Rename').click();
      await page.getByRole('textbox', { name: 'Title of the session' }).fill('Left');
      await page.keyboard.press(key);
      await expect(list.getByRole('link', { name: title })).toBeVisible();
      await expect(page.getByRole('textbox', { name: 'Title of the session' })).toHaveCount(0);
    }

    await page.getByRole('searchbox', { name: 'Search sessions' }).fill('renam');
    await expect(list.getByRole('listitem')).toHaveCount(1);
    await list.getByLabel('Actions for Renamed').click();
    const download = page.waitForEvent('download');
    await list.getByRole('link', { name: 'Export' }).click();
    expect((await download).suggestedFilename()).toContain('.jsonl');

    await list.getByLabel('Actions for Renamed').click();
    await button(list, 'Delete').click();
    await button(page.getByRole('dialog'), 'Delete').click();
    await expect(list.getByRole('link', { name: 'Renamed' })).toHaveCount(0);
  });
});

const PLAN = `
steps:
  - calls: [{tool: update_plan, arguments: {steps: [{step: Look, status: completed}, {step: "Edit <b>it</b>", status: in_progress}, {step: Test, status: pending}]}}]
  - say: "I have a plan."
`;

test.describe('a plan', () => {
  test.use({ setup: { script: PLAN } });

  test('is shown with its current step, and unfolds', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Plan');
    await ended(page);
    const plan = page.locator('details.plan');
    await expect(plan).toContainText('1 of 3');
    await expect(plan.locator('.plan-current')).toHaveText('Edit <b>it</b>');
    await plan.locator('summary').click();
    await expect(plan.getByRole('listitem')).toHaveCount(3);
    await accessible(page);
  });
});

test.describe('a gate that is killed and started again', () => {
  test.use({ setup: { script: 'memory: conversation\nsteps:\n  - say: First answer.\n  - say: Second answer.\n' } });

  test('is found again, with nothing lost or doubled', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'One');
    await ended(page);
    await gate.crash();
    await expect(page.getByText('The connection is lost')).toBeHidden();
    await message(page).fill('Two');
    await button(page, 'Send').click();
    await expect(page.getByRole('article', { name: 'Agent' })).toHaveText(['First answer.', 'Second answer.']);
    await expect(page.getByRole('article', { name: 'You' })).toHaveText(['One', 'Two']);
  });
});

test.describe('files', () => {
  test.use({ setup: { script: 'steps:\n  - say: "You wrote: {{prompt}}"\n' } });

  test('go with a message as text, and what is no text is left out', async ({ page, gate }) => {
    await open(page, gate);
    await page.getByLabel('Attach text files').setInputFiles([
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('remember the milk') },
      { name: 'picture.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 0xff]) },
    ]);
    await expect(page.getByText('picture.png is not a text file')).toBeVisible();
    await send(page, 'Read this');
    await ended(page);
    await expect(page.getByRole('article', { name: 'You' })).toContainText('notes.txt');
    await expect(page.getByRole('article', { name: 'Agent' })).toContainText('remember the milk');
    await page.reload();
    await expect(page.getByRole('article', { name: 'You' })).toHaveText(/^Read this\s*notes.txt$/);
  });
});
