/** What happens elsewhere while the page is open: sessions that go, logins that end, a gate that does not answer. */
import { button, ended, expect, message, open, send, test, view } from './test';

test.use({ setup: { script: 'steps:\n  - {say: "Hello.", repeat: true}\n' } });

test('a session that is deleted elsewhere says so', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  await gate.request('DELETE', `sessions/${new URL(page.url()).hash.split('/').at(-1) ?? ''}`);
  await expect(page.getByText('This session was deleted.')).toBeVisible();
  await button(page, 'Back to the sessions').click();
  await expect(message(page)).toBeVisible();
});

test('a session that was deleted while the connection was lost says so', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  const id = new URL(page.url()).hash.split('/').at(-1) ?? '';
  await gate.crash(() => gate.command(['sessions', 'delete', id, '--yes']));
  await expect(page.getByText(/no session|does not exist|there is no/i)).toBeVisible();
});

test('a browser that is no longer logged in shows the login, and goes on after it', async ({ page, gate, context }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  await context.clearCookies();
  await view(page, 'Tools');
  await expect(page.getByText('This browser is no longer logged in.')).toBeVisible();
  await page.getByLabel('Token').fill(gate.printed);
  await button(page, 'Log in').click();
  await expect(page.getByRole('heading', { level: 1, name: 'Tools' })).toBeVisible();
});

test('a message that is refused is not lost', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  // Another process holds the session.
  const release = await gate.hold(new URL(page.url()).hash.split('/').at(-1) ?? '');
  await message(page).fill('Two');
  await button(page, 'Send').click();
  await expect(page.getByRole('alert')).toContainText('Not sent');
  await expect(message(page)).toHaveValue('Two');
  await release();
  await button(page, 'Send').click();
  await ended(page, 2);
  await expect(page.getByRole('alert')).toHaveCount(0);
  await expect(page.getByRole('article', { name: 'You' })).toHaveText(['One', 'Two']);
});

test('a gate that does not answer at first is tried again', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  await page.route('**/api/v1/**', (route) => route.abort());
  await page.reload();
  await expect(page.getByText('The gate does not answer.')).toBeVisible();
  await page.unroute('**/api/v1/**');
  await expect(page.getByRole('article', { name: 'Agent' })).toHaveText('Hello.');
});

test('a session that cannot be loaded at first is loaded later', async ({ page, gate }) => {
  await open(page, gate);
  await send(page, 'One');
  await ended(page);
  await page.route('**/messages', (route) => route.abort());
  await page.reload();
  await expect(page.getByText('The connection is lost')).toBeVisible();
  await page.unroute('**/messages');
  await expect(page.getByRole('article', { name: 'Agent' })).toHaveText('Hello.');
  await expect(page.getByText('The connection is lost')).toBeHidden();
});

test('a view that cannot be loaded at first is loaded later', async ({ page, gate }) => {
  await open(page, gate);
  await page.route('**/api/v1/changes*', (route) => route.abort());
  await view(page, 'Changes');
  await expect(page.getByRole('alert')).toHaveText('the gate cannot be reached');
  await page.unroute('**/api/v1/changes*');
  await expect(page.getByText('Nothing was changed yet.')).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
});
