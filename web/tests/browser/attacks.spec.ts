/** Other origins in the same browser, with the cookie of a person who is logged in. The oracle is what the gate holds afterwards. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from '@playwright/test';
import { expect, open, question, send, test } from './test';

const SCRIPT = `
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: "one\\n"}}]
  - say: Done.
`;

test.use({ setup: { script: SCRIPT } });

// The same machine at another port is the same site: the browser sends the cookie along, SameSite or not. Another name is another site.
const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>attacker</title><main></main>'));
await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
server.unref();
const { port } = server.address() as AddressInfo;

/** A page of an attacker, in a browser where the person is logged in. A context of its own: the browser reports what it refuses on its console. */
async function attackerPage(page: Page, browser: Browser, host: string): Promise<Page> {
  const other = await browser.newContext({ serviceWorkers: 'block' });
  await other.addCookies(await page.context().cookies());
  const attacker = await other.newPage();
  await attacker.goto(`http://${host}:${port}/`);
  return attacker;
}

/** Everything that a page can send without being asked; what came back, as far as it may see it. */
function attack(page: Page, gate: string, session: string, call: string) {
  return page.evaluate(
    async ({ base, id, asked }) => {
      const results: Record<string, string> = {};
      const note = async (name: string, work: Promise<string>) => {
        results[name] = await work.catch((error: unknown) => `failed: ${String(error)}`);
      };
      const yes = JSON.stringify({ approved: true });
      const asText = { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' } } as const;
      const read = (path: string) => fetch(`${base}${path}`, { credentials: 'include' }).then((answer) => answer.text());
      await note('read', read('api/v1/sessions'));
      await note('read the question', read(`api/v1/approvals/${asked}`));
      await note('approve', fetch(`${base}api/v1/approvals/${asked}`, { ...asText, body: yes }).then((answer) => answer.type));
      await note('approve as JSON', fetch(`${base}api/v1/approvals/${asked}`, { ...asText, mode: 'cors', headers: { 'content-type': 'application/json' }, body: yes }).then((answer) => answer.text()));
      await note('delete', fetch(`${base}api/v1/sessions/${id}`, { method: 'DELETE', credentials: 'include' }).then((answer) => answer.text()));
      await note('call', fetch(`${base}mcp`, { ...asText, body: '{}' }).then((answer) => answer.type));
      await note('logout', fetch(`${base}api/v1/logout`, { ...asText, body: '' }).then((answer) => answer.type));
      const socket = new WebSocket(`${base.replace('http', 'ws')}ws?session=${id}`);
      const opened = new Promise<string>((resolve) => {
        socket.addEventListener('open', () => {
          socket.send(JSON.stringify({ event: 'chat:tool-approve', data: { toolId: asked, approved: true } }));
          resolve('open');
        });
        socket.addEventListener('error', () => resolve('refused'));
      });
      await note('socket', opened);
      // A form, as the oldest attack of this kind.
      const frame = document.createElement('iframe');
      frame.name = 'target';
      const form = document.createElement('form');
      Object.assign(form, { method: 'POST', enctype: 'text/plain', action: `${base}api/v1/approvals/${asked}`, target: 'target' });
      const field = document.createElement('input');
      Object.assign(field, { name: '{"approved":true,"reason":"', value: '"}' });
      form.append(field);
      document.querySelector('main')?.append(frame, form);
      const loaded = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
      form.submit();
      await loaded;
      return results;
    },
    { base: gate, id: session, asked: call },
  );
}

for (const host of ['127.0.0.1', 'localhost']) {
  test(`a page of ${host} with the cookie of a person reads, approves, deletes and calls nothing`, async ({ page, gate, browser }) => {
    await open(page, gate);
    await send(page, 'Write it');
    const card = question(page, 'write_file');
    await expect(card).toBeVisible();
    const session = decodeURIComponent(/#\/s\/(.+)$/.exec(page.url())?.[1] ?? '');
    const approvals = (await page.evaluate(async () => (await fetch('/api/v1/approvals')).json())) as { items: { id: string }[] };
    const call = approvals.items[0]?.id ?? '';
    expect([session, call]).not.toContain('');
    const attacker = await attackerPage(page, browser, host);
    const results = await attack(attacker, gate.page, session, call);
    expect(results['socket']).toBe('refused');
    for (const name of ['read', 'read the question', 'approve as JSON', 'delete']) expect(results[name], name).toContain('failed');
    // The question is still open, the session there, nothing written, and the person still logged in.
    const state = await page.evaluate(async (id) => [(await fetch(`/api/v1/approvals/${id}`)).status, (await fetch('/api/v1/me')).status], call);
    expect(state).toEqual([200, 200]);
    await attacker.context().close();
    await expect(card).toBeVisible();
    expect(gate.has('b.txt')).toBe(false);
  });
}

test('no other page can put the gate into a frame, so no click is stolen', async ({ page, gate, browser }) => {
  await open(page, gate);
  const attacker = await attackerPage(page, browser, '127.0.0.1');
  const refusals: string[] = [];
  attacker.on('console', (entry) => refusals.push(entry.text()));
  await attacker.evaluate(async (target) => {
    const frame = document.createElement('iframe');
    const loaded = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
    frame.src = target;
    document.querySelector('main')?.append(frame);
    await loaded;
  }, gate.page);
  await expect.poll(() => refusals.join()).toContain('frame-ancestors');
  const frame = attacker.frames()[1];
  expect(await frame?.locator('#root').count()).toBe(0);
  await attacker.context().close();
});
