/** Tests with a gate of their own, which fail on any violation of the content security policy and on any error of the page. */
import { join } from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { test as base, expect, type BrowserContext, type Locator, type Page } from '@playwright/test';
import { Gate, type Setup } from './gate';

/** `TOOLGATE_PAGE=dist` takes the files of the page from `dist/` instead of those in the binary, with the binary's headers: a change of the page then needs `npm run build` alone. */
const DIST = process.env['TOOLGATE_PAGE'];

async function serveFromDist(context: BrowserContext, directory: string) {
  const isFile = (url: URL) => /^\/$|^\/assets\/|\.(svg|png|js|webmanifest)$/.test(url.pathname) && url.hostname === '127.0.0.1';
  await context.route(isFile, async (route) => {
    const { pathname } = new URL(route.request().url());
    const { headers } = await fetch(new URL('/', route.request().url())).then((answer) => ({ headers: Object.fromEntries(answer.headers) }));
    for (const name of ['content-length', 'content-encoding', 'content-type', 'etag']) delete headers[name];
    await route.fulfill({ path: join(directory, pathname === '/' ? 'index.html' : pathname), headers });
  });
}

interface Fixtures {
  setup: Setup;
  gate: Gate;
}

export const test = base.extend<Fixtures>({
  setup: [{}, { option: true }],
  gate: async ({ setup }, use) => {
    const gate = await Gate.start(setup);
    await use(gate);
    await gate.stop();
  },
  context: async ({ context }, use) => {
    const faults: string[] = [];
    const watch = (page: Page) => {
      page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
      page.on('console', (message) => {
        if (/content security policy|trusted/i.test(message.text())) faults.push(message.text());
      });
      page.on('dialog', (dialog) => {
        faults.push(`a dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
    };
    context.on('page', watch);
    if (DIST) await serveFromDist(context, DIST);
    await use(context);
    expect(faults).toEqual([]);
  },
});

export { expect };

/** Opens the printed address and waits for the start page. */
export async function open(page: Page, gate: Gate) {
  await page.goto(gate.printed);
  await expect(message(page)).toBeVisible();
}

export function message(page: Page): Locator {
  return page.getByRole('textbox', { name: 'Message', exact: true });
}

/** Sends a message; on the start page this begins a session. */
export async function send(page: Page, text: string) {
  await message(page).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.getByRole('article', { name: 'You' }).last()).toContainText(text);
}

/** The start page, for a new session. */
export async function startNew(page: Page) {
  await page.getByRole('link', { name: 'New session', exact: true }).first().click();
  await expect(page.getByRole('heading', { name: 'What should the agent do?' })).toBeVisible();
}

export function question(page: Page, tool: string): Locator {
  return page.getByRole('alertdialog', { name: tool, exact: true });
}

export function button(page: Page | Locator, name: string): Locator {
  return page.getByRole('button', { name, exact: true });
}

export function tool(page: Page, name: string): Locator {
  return page.getByRole('group', { name, exact: true });
}

/** The blocks of all calls. */
export function calls(page: Page): Locator {
  return page.getByRole('log').getByRole('group');
}

/** The turn is over. */
export async function ended(page: Page, turns = 1) {
  await expect(page.locator('.turn-end')).toHaveCount(turns);
  await expect(button(page, 'Send')).toBeVisible();
}

/** Unfolds a block that has folded itself. */
export async function unfold(block: Locator) {
  const head = block.getByRole('button').first();
  if ((await head.getAttribute('aria-expanded')) === 'false') await head.click();
  await expect(head).toHaveAttribute('aria-expanded', 'true');
}

/** axe finds nothing serious. */
export async function accessible(page: Page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(' ')).join(', ')}`)).toEqual([]);
}

export async function view(page: Page, name: 'Sessions' | 'Changes' | 'Tools' | 'Audit' | 'Settings') {
  await page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
}

/** Notes the longest task of the page from now on, by the browser's own account. */
export async function watchTasks(page: Page) {
  await page.evaluate(() => {
    Reflect.set(window, 'longest', 0);
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) Reflect.set(window, 'longest', Math.max(Number(Reflect.get(window, 'longest')), entry.duration));
    }).observe({ type: 'longtask' });
  });
}

export function longestTask(page: Page): Promise<number> {
  return page.evaluate(() => Number(Reflect.get(window, 'longest')));
}

/** A page that hangs: no task may keep a click waiting for longer, on a machine that does other things as well. */
export const HANGING_MS = 3000;

/** Goes from one element that takes keys to the next until this one has the focus. */
export async function tabTo(page: Page, target: Locator, key: 'Tab' | 'Shift+Tab' = 'Tab') {
  await expect(target).toBeVisible();
  for (let count = 0; count < 150; count += 1) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  throw new Error(`${String(target)} is not reached with ${key}`);
}
