/**
 * Characters that a reader cannot see, made visible: control characters, bidirectional overrides, zero-width and tag characters. A model or a server
 * could use them to show another command or path than the one that runs.
 */

/** What is invisible or reorders text wherever it stands. */
// oxlint-disable no-control-regex, no-misleading-character-class
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
// oxlint-enable no-control-regex, no-misleading-character-class

/** The same, and what joins letters and emoji in prose but has no place in commands and paths. */
const INVISIBLE_IN_CODE = new RegExp(`${INVISIBLE.source}|[\\u00a0\\u1680\\u2000-\\u200a\\u200c\\u200d\\u202f\\u205f\\u3000\\ufe00-\\ufe0f]`, 'u');

export type Kind = 'prose' | 'code';

/** A piece of text, and whether it stands for a hidden character. */
export interface Piece {
  text: string;
  hidden?: string;
}

/** Splits text at hidden characters. Line breaks and tabs stay. */
export function reveal(text: string, kind: Kind = 'code'): Piece[] {
  const pattern = new RegExp(kind === 'code' ? INVISIBLE_IN_CODE : INVISIBLE, 'gu');
  const plain = text.includes('\r') ? text.replaceAll('\r\n', '\n') : text;
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of plain.matchAll(pattern)) {
    if (match.index > from) pieces.push({ text: plain.slice(from, match.index) });
    const code = match[0].codePointAt(0) ?? 0;
    pieces.push({ text: `\\u{${code.toString(16)}}`, hidden: `U+${code.toString(16).toUpperCase().padStart(4, '0')}` });
    from = match.index + match[0].length;
  }
  if (from < plain.length || pieces.length === 0) pieces.push({ text: plain.slice(from) });
  return pieces;
}

/** The same as plain text, for attributes. */
export function revealed(text: string, kind: Kind = 'code'): string {
  return reveal(text, kind).map((piece) => piece.text).join('');
}

/** Text in which hidden characters are marked. */
export function Revealed({ text, kind = 'code' }: { text: string; kind?: Kind }) {
  const pieces = reveal(text, kind);
  if (pieces.length === 1 && !pieces[0]?.hidden) return <>{pieces[0]?.text}</>;
  return (
    <>
      {pieces.map((piece, index) =>
        piece.hidden ? (
          <span key={index} className="hidden-char" title={`hidden character ${piece.hidden}`}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}
