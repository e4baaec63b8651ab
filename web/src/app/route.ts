/** Where in the page one is: the fragment of the address, so that it never leaves the browser. */
import { useSyncExternalStore } from 'react';

export type View = 'sessions' | 'changes' | 'tools' | 'audit' | 'settings' | 'traffic';

export interface Route {
  view: View;
  /** A session, a call or a filter. */
  item: string | undefined;
}

const VIEWS: Record<string, View> = { s: 'sessions', changes: 'changes', tools: 'tools', audit: 'audit', settings: 'settings', traffic: 'traffic' };

export function parse(hash: string): Route {
  const [, name = '', item] = /^#\/([a-z]*)(?:\/([^/]{1,128}))?$/.exec(hash) ?? [];
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  return { view: view ?? 'sessions', item: view && item ? decode(item) : undefined };
}

function decode(item: string): string | undefined {
  try {
    return decodeURIComponent(item);
  } catch {
    return undefined;
  }
}

export function address(view: View, item?: string): string {
  const name = view === 'sessions' ? 's' : view;
  return item ? `#/${name}/${encodeURIComponent(item)}` : `#/${name}`;
}

export function go(view: View, item?: string) {
  location.hash = address(view, item);
}

function subscribe(listener: () => void) {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  return parse(hash);
}

/** The token of the printed address, taken out of it before anything else happens. */
export function takeToken(): string | undefined {
  const token = /^#token=([A-Za-z0-9._~+/=-]{8,4096})$/.exec(location.hash)?.[1];
  if (token) history.replaceState(null, '', location.pathname + address('sessions'));
  return token;
}
