import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

/** `npm run bench`: how fast the page is. Figures, no verdict: a busy machine is slow. */
export default defineConfig({ ...tests, testDir: 'tests/bench', workers: 1, fullyParallel: false, timeout: 120_000 });
