/**
 * Colours of a terminal as spans. Only colours and bold are obeyed, which are all that the gate lets through; anything else is dropped here once more:
 * concealed and faint text, backgrounds, underlines, cursor movement, titles and links, so output cannot hide or overwrite what stands above it, and
 * looks like nothing of the page. A lone carriage return is a line break.
 */

export interface Span {
  text: string;
  /** Names of style classes, such as `ansi-red ansi-bold`. */
  style: string;
}

const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;

/** CSI, OSC and other string sequences, two-letter escapes; an unfinished sequence extends to the end of the text. */
const ESCAPE =
  // oxlint-disable-next-line no-control-regex
  /\u001b(?:\[([0-9;:]*)([\u0020-\u003f]*[\u0040-\u007e])?|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[\u0020-\u002f]*[\u0030-\u007e]?)/g;

/** More spans than anyone reads: the rest is one plain span. */
const MAX_SPANS = 20_000;

interface Style {
  colour: string | undefined;
  flags: Set<string>;
}

/** The end of a text, at about this many characters: no sequence is cut. Every line begins in the default style. */
export function tail(text: string, most: number): string {
  const from = text.length - most;
  if (from <= 0) return text;
  // The gate's longest sequence is `ESC [ 0 ; 1 ; 9 6 m`.
  const before = text.slice(Math.max(0, from - 10), from);
  const escape = before.lastIndexOf('\u001b');
  if (escape < 0) return text.slice(from);
  const begun = from - before.length + escape;
  // oxlint-disable-next-line no-control-regex
  const [sequence = ''] = /^\u001b\[[0-9;]*m/.exec(text.slice(begun, begun + 16)) ?? [];
  return text.slice(Math.max(from, begun + sequence.length));
}

export function parseAnsi(text: string): Span[] {
  const lines = text.replaceAll('\r\n', '\n').replaceAll('\r', '\n');
  const spans: Span[] = [];
  const style: Style = { colour: undefined, flags: new Set() };
  let from = 0;
  const push = (piece: string) => {
    if (piece) spans.push({ text: piece, style: [style.colour, ...style.flags].filter(Boolean).join(' ') });
  };
  for (const match of lines.matchAll(ESCAPE)) {
    push(lines.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm') apply(style, match[1] ?? '');
    if (spans.length >= MAX_SPANS) {
      spans.push({ text: lines.slice(from).replace(ESCAPE, ''), style: '' });
      return spans;
    }
  }
  push(lines.slice(from));
  return spans;
}

function apply(style: Style, parameters: string) {
  const codes = parameters.split(/[;:]/).map((code) => Number(code || '0'));
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) {
      style.colour = undefined;
      style.flags.clear();
    } else if (code === 1) style.flags.add('ansi-bold');
    else if (code === 22) style.flags.delete('ansi-bold');
    else if (code === 39) style.colour = undefined;
    else if (code >= 30 && code <= 37) style.colour = `ansi-${COLOURS[code - 30]}`;
    else if (code >= 90 && code <= 97) style.colour = `ansi-${COLOURS[code - 90]}`;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(index + 1));
      if (code === 38) style.colour = colour;
      index += used;
    }
  }
}

/** A colour of the 256 or of 16 million as the nearest of the eight that the page shows well in light and dark. */
function extended(codes: number[]): [string | undefined, number] {
  if (codes[0] === 5) {
    const code = codes[1] ?? 0;
    if (code < 16) return [`ansi-${COLOURS[code % 8]}`, 2];
    if (code >= 232) return [undefined, 2];
    const cube = code - 16;
    return [nearest(Math.floor(cube / 36) / 5, (Math.floor(cube / 6) % 6) / 5, (cube % 6) / 5), 2];
  }
  if (codes[0] === 2) return [nearest((codes[1] ?? 0) / 255, (codes[2] ?? 0) / 255, (codes[3] ?? 0) / 255), 4];
  return [undefined, 1];
}

function nearest(red: number, green: number, blue: number): string | undefined {
  const most = Math.max(red, green, blue);
  if (most - Math.min(red, green, blue) < 0.15) return undefined;
  const bit = (value: number) => (value > most * 0.6 ? 1 : 0);
  return `ansi-${COLOURS[bit(red) + bit(green) * 2 + bit(blue) * 4]}`;
}
