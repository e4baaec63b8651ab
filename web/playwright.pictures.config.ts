import { join } from 'node:path';
import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

/** `cargo xtask pictures`: takes the pictures of the README from real runs. */
export default defineConfig({
  ...tests,
  testDir: 'tests/pictures',
  workers: 1,
  use: {
    ...tests.use,
    launchOptions: {
      ...tests.use?.launchOptions,
      env: { ...(process.env as Record<string, string>), FONTCONFIG_FILE: join(import.meta.dirname, 'tests/pictures/fonts.conf') },
    },
  },
});
