/** Light, dark, or as the system has it. */
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'toolgate.theme';

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function setTheme(next: Theme) {
  localStorage.setItem(KEY, next);
  applyTheme();
}

export function applyTheme() {
  const chosen = theme();
  if (chosen === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
}
