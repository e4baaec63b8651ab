import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const DIST = join(import.meta.dirname, '../../dist');

/** What a browser transfers for everything that the page can load, pictures included. */
test('the built page is at most 250 KB compressed', () => {
  const names = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.br'));
  expect(names.some((name) => name.startsWith('assets')), 'build the page first: npm run build').toBe(true);
  const total = names.reduce((sum, name) => sum + statSync(join(DIST, name)).size, 0);
  expect(total).toBeLessThanOrEqual(250_000);
});
