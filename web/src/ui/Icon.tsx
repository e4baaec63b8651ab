/** Icons of 16 by 16, drawn with strokes in the colour of the text. */
const PATHS = {
  chat: 'M2.5 3.5h11v8h-6l-3 2.5v-2.5h-2z',
  changes: 'M8 2.5v5M5.5 5h5M5.5 12.5h5M2.5 9.5h11',
  tools: 'M9.8 2.6a3.4 3.4 0 0 0-3.6 4.7l-3.9 3.9 2.5 2.5 3.9-3.9a3.4 3.4 0 0 0 4.5-4.2L11 7.8 8.6 7.4 8.2 5z',
  audit: 'M3.5 2.500h6.500l2.5 2.500v8.500h-9zM5.5 7h5M5.5 9.500h5M5.5 12h3',
  settings: 'M2.5 4.500h6M11.5 4.500h2M2.5 11.500h2M7.5 11.500h6M8.5 4.500a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0M4.5 11.500a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0',
  pulse: 'M1.5 8h3l2-4.500 3 9 2-4.500h3',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 2.500a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.3 10.300l3.2 3.2',
  terminal: 'M2.5 3.500h11v9h-11zM5 6.500l2 1.7-2 1.700M8.5 10h2.5',
  clip: 'M12.5 7.5L7.8 12.2a2.8 2.8 0 0 1-4-4L9 3a1.9 1.9 0 0 1 2.7 2.7L6.6 10.8a.9.9 0 0 1-1.3-1.3L9.8 5',
  file: 'M3.5 2.500h6l3 3v8h-9zM9.5 2.500v3h3',
  list: 'M2.5 4h1M6 4h7.500M2.5 8h1M6 8h7.500M2.5 12h1M6 12h7.5',
  pencil: 'M10.5 3l2.5 2.5-7.5 7.500H3v-2.500z',
  trash: 'M3 4.500h10M6 4.500v-2h4v2M4.5 4.500l.5 9h6l.5-9',
  globe: 'M8 2.500a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M2.5 8h11M8 2.500c-4 4-4 7 0 11c4-4 4-7 0-11',
  plug: 'M6 2.500v3M10 2.500v3M4 5.500h8v2a4 4 0 0 1-8 0zM8 11.500v2',
  check: 'M3 8.500l3.3 3.300L13 5',
  cross: 'M4 4l8 8M12 4l-8 8',
  ban: 'M8 2.500a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M4.2 4.200l7.6 7.6',
  copy: 'M5.5 5.500h8v8h-8zM5.5 10.500h-3v-8h8v3',
  chevron: 'M6 3.500L10.5 8L6 12.5',
  down: 'M8 3v10M4 9l4 4 4-4',
  stop: 'M4.5 4.500h7v7h-7z',
  send: 'M8 13V3M4 7l4-4 4 4',
  undo: 'M3 6.500h6.500a3.5 3.5 0 0 1 0 7H6M3 6.500l3-3M3 6.500l3 3',
  download: 'M8 2.500v7.500M5 7.500l3 3 3-3M3 13.500h10',
  shield: 'M8 2l5 1.800v4c0 3-2 5-5 6.200c-3-1.2-5-3.2-5-6.200v-4z',
  key: 'M5.5 7.500a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M7.5 8.300L13 2.800M11 4.800l1.8 1.8',
  moon: 'M13 9.500A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.500z',
  sun: 'M8 5.500a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M12.6 3.400l-1 1M4.4 11.600l-1 1',
  bell: 'M4 11.500V7.500a4 4 0 0 1 8 0v4M3 11.500h10M7 13.500h2',
  clock: 'M8 2.500a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3l2 1.5',
  back: 'M10 3.500L5.5 8L10 12.5',
  pin: 'M6 2.500h4l-.5 4 2 2.500h-7l2-2.500zM8 9v4.5',
  brain: 'M8 3a2.5 2.5 0 0 0-4.5 1.500A2.5 2.5 0 0 0 3 9a2.5 2.5 0 0 0 5 3.500M8 3a2.5 2.5 0 0 1 4.5 1.500A2.5 2.5 0 0 1 13 9a2.5 2.5 0 0 1-5 3.500M8 3v9.5',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark of Toolgate: a gate with its bars closed. */
export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 20 20" fill="none" aria-hidden="true" focusable="false">
      <path d="M3.5 16.500V8.500a6.5 6.5 0 0 1 13 0v8M2 16.500h16" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" />
      <path className="mark-bars" d="M7 16V9.500M10 16V8.500M13 16V9.5" strokeWidth="1.5" strokeLinecap="round" />
    </svg>
  );
}
