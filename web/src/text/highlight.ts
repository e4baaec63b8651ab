/** Syntax colours, loaded when the first code is shown. Grammars are regular expressions, so the size of what they read is bounded. */
import type { createLowlight } from 'lowlight';

type Tree = ReturnType<ReturnType<typeof createLowlight>['highlight']>;
export type SyntaxNode = Tree['children'][number];

/** Longer text stays plain. */
const MAX_CHARS = 30_000;

const NAMES: Record<string, string> = {
  sh: 'bash', bash: 'bash', shell: 'bash', zsh: 'bash', console: 'bash',
  c: 'c', h: 'c', cpp: 'cpp', cc: 'cpp', hpp: 'cpp', 'c++': 'cpp',
  css: 'css', go: 'go', java: 'java', kt: 'java',
  js: 'javascript', jsx: 'javascript', mjs: 'javascript', javascript: 'javascript',
  ts: 'typescript', tsx: 'typescript', typescript: 'typescript',
  json: 'json', jsonl: 'json', toml: 'ini', ini: 'ini', cfg: 'ini',
  py: 'python', python: 'python', rb: 'ruby', ruby: 'ruby', rs: 'rust', rust: 'rust', sql: 'sql',
  html: 'xml', xml: 'xml', svg: 'xml', yaml: 'yaml', yml: 'yaml', md: 'markdown', markdown: 'markdown', diff: 'diff',
};

/** The grammar for a name or for the extension of a path, if there is one. */
export function languageOf(nameOrPath: string): string | undefined {
  const name = nameOrPath.toLowerCase();
  return Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
}

export function languageOfPath(path: string): string | undefined {
  return languageOf(/\.([A-Za-z0-9+]{1,8})$/.exec(path)?.[1] ?? '');
}

let loading: Promise<typeof import('./grammars')> | undefined;
let loaded: typeof import('./grammars') | undefined;

/** Loads the grammars once. */
export async function loadGrammars(): Promise<void> {
  loading ??= import('./grammars');
  loaded = await loading;
}

/** The coloured tree, or nothing while grammars are loading and for text that stays plain. */
export function highlight(text: string, language: string): SyntaxNode[] | undefined {
  if (!loaded || text.length > MAX_CHARS) return undefined;
  return loaded.lowlight.highlight(language, text).children;
}

export function isLoaded(): boolean {
  return loaded !== undefined;
}
