/** Figures of the real page in Chromium: `RATIO name ours=… peer=…(limit) ratio=… bound=1.00`, as the other benchmarks print them. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { ended, expect, message, open, send, test } from '../browser/test';

function figure(name: string, ours: number, limit: number, unit: string, bound = ' bound=1.00') {
  process.stdout.write(`\nRATIO page/${name} ours=${ours.toFixed(1)}${unit} peer=${limit}${unit}(limit) ratio=${(ours / limit).toFixed(2)}${bound}\n`);
}

const median = (numbers: number[]) => numbers.toSorted((left, right) => left - right)[Math.floor(numbers.length / 2)] ?? 0;

test.use({ setup: { script: 'steps:\n  - {say: "Hello.", repeat: true}\n' } });

test('size', () => {
  const dist = join(import.meta.dirname, '../../dist');
  const files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.br'));
  figure('compressed', files.reduce((sum, name) => sum + statSync(join(dist, name)).size, 0) / 1000, 250, 'kB');
});

test('interactive, cold', async ({ browser, gate }) => {
  const times: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const context = await browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    // The text box takes what is typed: measured by the page's own clock, from the start of the navigation.
    await page.addInitScript(() => {
      const look = () => (document.getElementById('message') ? Reflect.set(window, 'interactive', performance.now()) : requestAnimationFrame(look));
      look();
    });
    await page.goto(gate.printed);
    await page.waitForFunction(() => Reflect.get(window, 'interactive') as unknown);
    times.push(await page.evaluate(() => Number(Reflect.get(window, 'interactive'))));
    await context.close();
  }
  figure('interactive-cold', median(times), 1000, 'ms');
});

/** A conversation whose WebSocket can be given frames, one task of the browser each, as fast as they are taken. */
async function conversation(page: Page): Promise<(events: [string, object][], begin?: () => Promise<void>) => Promise<void>> {
  await page.addInitScript(() => {
    window.WebSocket = class extends WebSocket {
      constructor(...parts: ConstructorParameters<typeof WebSocket>) {
        super(...parts);
        Reflect.set(window, 'socket', this);
        this.addEventListener('message', ({ data }) => Reflect.set(window, 'seq', Math.max(Number(Reflect.get(window, 'seq') ?? 0), (JSON.parse(String(data)) as { seq: number }).seq)));
      }
    };
  });
  return async (events, begin) => {
    // The list comes in one long task; what is measured begins after it.
    await page.evaluate((list) => {
      const first = Number(Reflect.get(window, 'seq')) + 1;
      Reflect.set(window, 'given', list.map(([event, data], index) => JSON.stringify({ seq: first + index, event, data })));
    }, events);
    await begin?.();
    await page.evaluate(async () => {
      const socket = Reflect.get(window, 'socket') as WebSocket;
      const frames = Reflect.get(window, 'given') as unknown as string[];
      Reflect.set(window, 'longest', 0);
      const { port1, port2 } = new MessageChannel();
      await new Promise((resolve) => {
        port1.addEventListener('message', ({ data }) => {
          socket.dispatchEvent(new MessageEvent('message', { data: frames[data as number] }));
          if (data === frames.length - 1) resolve(undefined);
          else port2.postMessage((data as number) + 1);
        });
        port1.start();
        port2.postMessage(0);
      });
    });
  };
}

/** The longest task since, by the browser's own account. */
async function watchTasks(page: Page) {
  await page.evaluate(() => {
    Reflect.set(window, 'longest', 0);
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) Reflect.set(window, 'longest', Math.max(Number(Reflect.get(window, 'longest')), entry.duration));
    }).observe({ type: 'longtask' });
  });
}

const longest = (page: Page) => page.evaluate(() => Number(Reflect.get(window, 'longest')));

const WORDS = 'Words of an answer with `code`, **weight** and a [link](https://example.com). ';

/** What a busy agent sends: an answer in pieces, and calls with live output. */
function burst(count: number): [string, object][] {
  const events: [string, object][] = [];
  for (let index = 0; events.length < count; index += 1) {
    const messageId = `bench-${Math.floor(index / 40)}`;
    const toolId = `call-${Math.floor(index / 40)}`;
    const kind = index % 40;
    if (kind < 24) events.push(['chat:text-delta', { messageId, text: kind === 23 ? '\n\n' : WORDS }]);
    else if (kind === 24) events.push(['chat:tool-start', { messageId, toolId, toolName: 'run_command', input: { command: `make part-${index}` } }]);
    else if (kind < 39) events.push(['chat:tool-delta', { messageId, toolId, toolName: 'run_command', chunk: `\u001b[32mok\u001b[0m line ${index} of the output of a command\n` }]);
    else events.push(['chat:tool-result', { messageId, toolId, toolName: 'run_command', status: 'success', result: 'done\n', metadata: { callId: toolId, durationMs: 12, decision: 'ALLOWED' } }]);
  }
  return events;
}

/** The longest task by the time that the page's thread itself worked: what it is on a machine with nothing else to do. */
async function longestOfThread(trace: Buffer): Promise<number> {
  interface TraceEvent {
    name: string;
    ph: string;
    pid: number;
    tid: number;
    tdur?: number;
    args: { name?: string };
  }
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const main = new Set(traceEvents.filter((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain').map((event) => `${event.pid} ${event.tid}`));
  const tasks = traceEvents.filter((event) => event.name.endsWith('RunTask') && event.ph === 'X' && main.has(`${event.pid} ${event.tid}`));
  return Math.max(0, ...tasks.map((event) => (event.tdur ?? 0) / 1000));
}

test('a burst of 10,000 events', async ({ page, gate, browser }) => {
  const emit = await conversation(page);
  await open(page, gate);
  await send(page, 'Begin');
  await ended(page);
  await watchTasks(page);
  const end: [string, object] = ['chat:text-delta', { messageId: 'end', text: 'The burst is over.' }];
  await emit([...burst(9_999), end], () => browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'] }));
  await expect(page.getByText('The burst is over.')).toBeVisible();
  figure('burst-10000-longest-task', await longestOfThread(await browser.stopTracing()), 100, 'ms');
  // The same by the clock on the wall, which also counts when the machine did something else: no bound.
  figure('burst-10000-longest-task-by-the-wall', await longest(page), 100, 'ms', '');
});

test('scrolling 5,000 blocks', async ({ page, gate }) => {
  const emit = await conversation(page);
  await open(page, gate);
  await send(page, 'Begin');
  await ended(page);
  const blocks: [string, object][] = [];
  for (let index = 0; index < 2_500; index += 1) {
    blocks.push(['chat:text-delta', { messageId: `m${index}`, text: `${WORDS.repeat(1 + (index % 5))}\n\n\`\`\`rust\nlet x = ${index};\n\`\`\`\n` }]);
    blocks.push(['chat:tool-start', { messageId: `m${index}`, toolId: `t${index}`, toolName: 'read_file', input: { path: `src/${index}.rs` } }]);
    blocks.push(['chat:tool-result', { messageId: `m${index}`, toolId: `t${index}`, toolName: 'read_file', status: 'success', result: 'text', metadata: { callId: `t${index}`, durationMs: 1, decision: 'ALLOWED' } }]);
  }
  await emit([...blocks, ['chat:text-delta', { messageId: 'end', text: 'The last block.' }]]);
  await expect(page.getByText('The last block.')).toBeVisible();
  // Frames while a wheel turns from the end towards the start, and back.
  await page.getByRole('log').hover();
  await page.evaluate(() => {
    const frames: number[] = [];
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      frames.push(now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    Reflect.set(window, 'frames', frames);
  });
  for (let step = 0; step < 120; step += 1) await page.mouse.wheel(0, step < 80 ? -900 : 900);
  const frames = await page.evaluate(() => (Reflect.get(window, 'frames') as unknown as number[]).slice(1));
  const sorted = frames.toSorted((left, right) => left - right);
  figure('scroll-5000-median-frame', median(frames), 34, 'ms');
  figure('scroll-5000-p95-frame', sorted[Math.floor(sorted.length * 0.95)] ?? 0, 100, 'ms');
  expect(await page.evaluate(() => document.querySelectorAll('.item').length)).toBeLessThan(200);
  await message(page).fill('still typing');
});
