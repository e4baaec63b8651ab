import { defineConfig } from '@playwright/test';

/** Debian's Chromium, as the tests of the project install it; `CHROMIUM` names another. */
const executablePath = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

/** Documents that a test serves itself have no address, and Chromium lets such a page open no WebSocket to this machine. */
const served = process.env['TOOLGATE_PAGE'] ? ['--disable-features=LocalNetworkAccessChecks'] : [];

export default defineConfig({
  testDir: 'tests/browser',
  outputDir: 'test-results',
  fullyParallel: true,
  workers: 2,
  forbidOnly: true,
  // Beside a busy machine a browser may be late once; the report names such a test as flaky.
  retries: 1,
  timeout: 60_000,
  expect: { timeout: 20_000 },
  reporter: [['list']],
  use: {
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'UTC',
    serviceWorkers: 'block',
    // A card that still fades in has too little contrast.
    contextOptions: { reducedMotion: 'reduce' },
    launchOptions: {
      executablePath,
      // As root there is no sandbox of the browser; the rest keeps it from calling home.
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', ...served],
    },
  },
});
