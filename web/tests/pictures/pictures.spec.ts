import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { button, ended, expect, open, question, send, test, tool, unfold, view } from '../browser/test';

const PRICE = `use std::fmt;

/// What a million tokens cost.
pub fn price(tokens: u64) -> u64 {
    tokens * 3 / 1_000_000
}

#[test]
fn nothing_costs_nothing() {
    assert_eq!(price(0), 0);
}
`;

const SCRIPT = `
steps:
  - think: The price is computed in one place, and its rate is a constant. I should look there first.
    say: I will look at the code that computes prices.
    calls:
      - {tool: search_files, arguments: {pattern: fn price}}
      - {tool: read_file, arguments: {path: src/price.rs}}
      - {tool: read_file, arguments: {path: .env}}
  - say: "The rate is a constant. I will pass it in, and round **up**, so that nothing is free."
    calls:
      - tool: edit_file
        arguments:
          path: src/price.rs
          edits:
            - {old_text: "pub fn price(tokens: u64) -> u64 {\\n    tokens * 3 / 1_000_000", new_text: "pub fn price(tokens: u64, rate: u64) -> u64 {\\n    // Rounded up, so that nothing is free.\\n    (tokens * rate).div_ceil(1_000_000)"}
            - {old_text: "price(0)", new_text: "price(0, 3)"}
  - calls: [{tool: run_command, arguments: {command: "grep -n rate src/price.rs"}}]
  - say: "Done: \`price\` takes the rate and rounds up.\\n\\n1. The signature changed in one place.\\n2. Nothing else calls it yet.\\n"
`;

test.use({ setup: { script: SCRIPT, files: { 'src/price.rs': PRICE, '.env': 'KEY=1\n' } } });

const PICTURES = join(import.meta.dirname, '../../../docs/pictures');

async function picture(page: Page, name: string) {
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: join(PICTURES, `page-${name}.png`), animations: 'disabled', caret: 'hide' });
}

async function ask(page: Page) {
  await send(page, 'Make the price depend on the rate');
  const card = question(page, 'edit_file');
  await expect(button(card, 'Approve')).toBeEnabled();
  await expect(card.locator('.hljs-keyword').first()).toBeVisible();
  return card;
}

test('a question', async ({ page, gate }) => {
  await open(page, gate);
  await ask(page);
  await picture(page, 'question');
});

test('the first run', async ({ page, gate }) => {
  await open(page, gate);
  await expect(page.getByText('This is a scripted model')).toBeVisible();
  await picture(page, 'first-run');
});

test('a lasting grant, and an edited call', async ({ page, gate }) => {
  await open(page, gate);
  await button(await ask(page), 'Approve').click();
  const card = question(page, 'run_command');
  await expect(button(card, 'Approve')).toBeEnabled();
  await card.getByRole('button', { name: 'Always…' }).click();
  await card.getByRole('radio').first().check();
  await card.getByRole('radio', { name: 'A week' }).check();
  await picture(page, 'grant');
  await button(card, 'Back').click();
  await card.getByRole('button', { name: 'Edit…' }).click();
  await card.getByRole('textbox', { name: 'Command' }).fill('grep -n rate src/*.rs');
  await picture(page, 'edit');
});

test('a refusal, and what undoing would do', async ({ page, gate }) => {
  await open(page, gate);
  await button(await ask(page), 'Approve').click();
  const card = question(page, 'run_command');
  await expect(button(card, 'Refuse')).toBeEnabled();
  await card.getByRole('textbox', { name: 'Reason for the model' }).fill('the tests show that already');
  await button(card, 'Refuse').click();
  await ended(page);
  await unfold(tool(page, 'run_command'));
  await tool(page, 'run_command').scrollIntoViewIfNeeded();
  await picture(page, 'refused');
  await view(page, 'Changes');
  await button(page, 'Undo').click();
  await expect(page.getByRole('region', { name: 'What undoing would do' }).locator('.hljs-keyword').first()).toBeVisible();
  await picture(page, 'undo');
});

test.describe('nobody answers', () => {
  test.use({ setup: { script: SCRIPT, files: { 'src/price.rs': PRICE, '.env': 'KEY=1\n' }, config: 'approval: {timeout: 2s}\n' } });

  test('a question that expired', async ({ page, gate }) => {
    await open(page, gate);
    await send(page, 'Make the price depend on the rate');
    await ended(page);
    await unfold(tool(page, 'edit_file'));
    await tool(page, 'edit_file').scrollIntoViewIfNeeded();
    await picture(page, 'expired');
  });
});

test.describe('in the dark', () => {
  test.use({ colorScheme: 'dark' });

  test('a conversation and the record', async ({ page, gate }) => {
    await open(page, gate);
    await button(await ask(page), 'Approve').click();
    await expect(question(page, 'run_command')).toBeVisible();
    await button(question(page, 'run_command'), 'Approve').click();
    await ended(page);
    await unfold(tool(page, 'edit_file'));
    await picture(page, 'conversation');
    await view(page, 'Audit');
    await button(page, 'Verify the chain').click();
    await expect(page.getByText(/Unbroken/)).toBeVisible();
    await picture(page, 'audit');
  });
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 780 }, hasTouch: true });

  test('a question on a phone', async ({ page, gate }) => {
    await open(page, gate);
    await ask(page);
    await picture(page, 'phone');
  });
});
