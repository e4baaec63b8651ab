/** How tools look: an icon, and the one argument that says what a call is about. */
import type { IconName } from '../ui/Icon';
import type { CallBlock } from './model';

const ICONS: [RegExp, IconName][] = [
  [/command|bash|shell|exec/, 'terminal'],
  [/edit|write|append|patch/, 'pencil'],
  [/delete|remove/, 'trash'],
  [/list|find|tree|plan/, 'list'],
  [/search|grep/, 'search'],
  [/web|fetch|http/, 'globe'],
  [/read|file|move/, 'file'],
];

export function iconOf(name: string): IconName {
  return ICONS.find(([pattern]) => pattern.test(name))?.[1] ?? 'plug';
}

function field(input: unknown, name: string): string | undefined {
  const value = typeof input === 'object' && input !== null ? (input as Record<string, unknown>)[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** The command line of a call that runs one. */
export function commandOf({ name, input, inputText }: CallBlock): string | undefined {
  return /command|bash/.test(name) && !inputText ? field(input, 'command') : undefined;
}

export function subject(call: CallBlock): string {
  const { input, metadata } = call;
  for (const name of ['command', 'path', 'from', 'pattern', 'glob', 'query', 'url']) {
    const value = field(input, name);
    if (value !== undefined) return value.split('\n')[0] ?? '';
  }
  return typeof metadata?.path === 'string' ? metadata.path : '';
}
