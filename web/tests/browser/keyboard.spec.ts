/** Everything without a mouse: no test of this file clicks. */
import { expect, open, message, question, tabTo, test } from './test';

const SCRIPT = `
steps:
  - calls: [{tool: write_file, arguments: {path: keys.txt, content: "typed\\n"}}]
  - say: Done.
`;

test.use({ setup: { script: SCRIPT } });

test('a session, an approval, an undo, the record and the list of sessions are used by keyboard alone', async ({ page, gate }) => {
  await open(page, gate);
  await expect(message(page)).toBeFocused();
  await page.keyboard.type('Write it');
  await page.keyboard.press('Enter');
  const card = question(page, 'write_file');
  await expect(card).toBeFocused();
  await expect(card.getByRole('button', { name: 'Approve', exact: true })).toBeEnabled();
  await page.keyboard.press('a');
  await expect(page.locator('.turn-end')).toHaveCount(1);
  expect(gate.read('keys.txt')).toBe('typed\n');

  const link = (name: string) => page.getByRole('navigation').getByRole('link', { name, exact: true });
  await tabTo(page, link('Changes'));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: 'Changes' })).toBeVisible();
  await tabTo(page, page.getByRole('button', { name: 'Undo', exact: true }));
  await page.keyboard.press('Enter');
  const preview = page.getByRole('region', { name: 'What undoing would do' });
  await expect(preview).toContainText('typed');
  await tabTo(page, preview.getByRole('button', { name: 'Undo this change' }));
  await page.keyboard.press('Enter');
  await expect(preview).toBeHidden();
  expect(gate.has('keys.txt')).toBe(false);

  await tabTo(page, link('Audit'));
  await page.keyboard.press('Enter');
  await tabTo(page, page.getByRole('button', { name: 'Verify the chain' }));
  await page.keyboard.press('Enter');
  await expect(page.getByText(/Unbroken: \d+ record/)).toBeVisible();
  await tabTo(page, page.getByRole('combobox', { name: 'Decision' }));
  await page.keyboard.press('ArrowDown');
  const record = page.getByRole('table').getByRole('link', { name: 'write_file' });
  await tabTo(page, record);
  await page.keyboard.press('Enter');
  await expect(page.getByRole('region', { name: 'The record' })).toContainText('"argsHash"');

  // The session is found, renamed and opened again; then it is deleted.
  await tabTo(page, page.getByRole('searchbox', { name: 'Search sessions' }));
  await page.keyboard.type('write');
  const list = page.getByRole('region', { name: 'Session list' });
  await expect(list.getByRole('link', { name: /^Write it/ })).toBeVisible();
  const actions = (title: string) => list.locator('summary').filter({ visible: true }).and(page.locator(`[aria-label="Actions for ${title}"]`));
  await tabTo(page, actions('Write it'));
  await page.keyboard.press('Enter');
  await tabTo(page, list.getByRole('button', { name: 'Rename' }));
  await page.keyboard.press('Enter');
  await expect(list.getByRole('textbox', { name: 'Title of the session' })).toBeFocused();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('Write by keys');
  await page.keyboard.press('Enter');
  const session = list.getByRole('link', { name: /^Write by keys/ });
  await tabTo(page, session, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('article', { name: 'You' })).toContainText('Write it');
  await tabTo(page, actions('Write by keys'));
  await page.keyboard.press('Enter');
  await tabTo(page, list.getByRole('button', { name: 'Delete', exact: true }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Delete this session?' });
  await expect(dialog).toBeVisible();
  await tabTo(page, dialog.getByRole('button', { name: 'Delete' }));
  await page.keyboard.press('Enter');
  await expect(list.getByRole('link', { name: /^Write by keys/ })).toHaveCount(0);
});
