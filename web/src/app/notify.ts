/** A notification when a question waits and the page is not being looked at. */
import type { Approval } from '../api/types';
import { revealed } from '../text/reveal';

const WORKER = '/worker.js';
const KEY = 'toolgate.notify';

export type Permission = 'unsupported' | 'off' | 'on' | 'denied';

export function permission(): Permission {
  if (!('Notification' in window)) return 'unsupported';
  if (Notification.permission === 'denied') return 'denied';
  return Notification.permission === 'granted' && localStorage.getItem(KEY) === 'on' ? 'on' : 'off';
}

export async function turnOn(): Promise<Permission> {
  await Notification.requestPermission();
  localStorage.setItem(KEY, 'on');
  await register();
  return permission();
}

export function turnOff(): Permission {
  localStorage.setItem(KEY, 'off');
  return permission();
}

interface TrustedScripts {
  createPolicy(name: string, rules: { createScriptURL: (address: string) => string }): { createScriptURL(address: string): string };
}

/** Phones show notifications only from a service worker. The browser takes its address only from this policy, which knows one. */
export async function register() {
  if (!('serviceWorker' in navigator) || permission() !== 'on') return;
  const { trustedTypes } = window as unknown as { trustedTypes?: TrustedScripts };
  const policy = trustedTypes?.createPolicy('toolgate-worker', {
    createScriptURL: (address) => (address === WORKER ? address : ''),
  });
  await navigator.serviceWorker.register(policy ? policy.createScriptURL(WORKER) : WORKER);
  navigator.serviceWorker.addEventListener('message', (event: MessageEvent<{ open?: unknown }>) => {
    const address = String(event.data.open ?? '');
    if (/^\/#\/s\/[A-Za-z0-9_-]{1,64}$/.test(address)) location.hash = address.slice(1);
  });
}

/** An answered question leaves no notification behind. */
export function unnotify(question: string) {
  if (permission() !== 'on') return;
  void navigator.serviceWorker?.getRegistration().then(async (worker) => (await worker?.getNotifications({ tag: question }))?.forEach((one) => one.close()));
}

/** The text names the tool alone: a lock screen is read by others. */
export function notify(approval: Approval) {
  if (permission() !== 'on' || (!document.hidden && document.hasFocus())) return;
  const options = { body: `The agent asks to call ${revealed(approval.toolName)}.`, tag: approval.id, icon: '/icon.svg', data: { session: approval.session ?? '' } };
  void navigator.serviceWorker?.getRegistration().then((worker) => worker?.showNotification('Toolgate: a question waits', options));
}
