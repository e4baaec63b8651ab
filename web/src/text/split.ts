/**
 * Splits a text that streams into blocks of bounded size, so that each frame parses and lays out only the last one. A block ends at a blank line
 * outside of code; a code block or a line that is too long is cut, and its fence is opened again.
 */

/** A block that is longer is split where it can be. */
export const SOFT_LIMIT = 4_000;
/** Code that is longer is split at a line: each of its words may be an element. */
export const CODE_LIMIT = 6_000;
/** A block that is longer is split anywhere. */
export const HARD_LIMIT = 16_000;

export interface Split {
  /** The block that is complete. */
  head: string;
  /** The rest, beginning with a fence if the cut was inside of code. */
  tail: string;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})[^\n]*$/;

/** Where to split, or nothing if the text is one block yet. */
export function split(text: string): Split | undefined {
  if (text.length <= SOFT_LIMIT) return undefined;
  let fence: { mark: string; line: string } | undefined;
  let [start, best] = [0, 0];
  while (start < text.length && start <= HARD_LIMIT) {
    const newline = text.indexOf('\n', start);
    if (newline < 0) break;
    const line = text.slice(start, Math.min(newline, start + 200));
    const mark = FENCE.exec(line)?.[1];
    if (!fence && mark) fence = { mark, line };
    else if (fence && mark && mark[0] === fence.mark[0] && mark.length >= fence.mark.length && line.trim() === mark) fence = undefined;
    else if (!fence && line.trim() === '' && start > 0 && canSplit(text, newline + 1)) best = newline + 1;
    if (best >= SOFT_LIMIT) return cut(text, best, undefined);
    start = newline + 1;
    if (fence && start > CODE_LIMIT) return best > 0 ? cut(text, best, undefined) : cut(text, start, fence);
  }
  if (text.length <= HARD_LIMIT) return undefined;
  if (best > 0) return cut(text, best, undefined);
  // One piece of code or one line: cut at the last line break, or in the line.
  const line = text.lastIndexOf('\n', HARD_LIMIT);
  const place = line > SOFT_LIMIT ? line + 1 : wholeLetter(text, HARD_LIMIT);
  return cut(text, place, openFence(text.slice(0, place)));
}

/** An indented line continues a list item or code. */
function canSplit(text: string, index: number): boolean {
  const next = text[index];
  return next !== undefined && next !== ' ' && next !== '\t' && next !== '\n';
}

function cut(text: string, place: number, fence: { mark: string; line: string } | undefined): Split {
  const [head, tail] = [text.slice(0, place), text.slice(place)];
  return fence ? { head: `${head}\n${fence.mark}`, tail: `${fence.line}\n${tail}` } : { head, tail };
}

/** Not between the halves of a surrogate pair. */
function wholeLetter(text: string, index: number): number {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff ? index - 1 : index;
}

function openFence(text: string): { mark: string; line: string } | undefined {
  let fence: { mark: string; line: string } | undefined;
  for (const line of text.split('\n')) {
    const mark = FENCE.exec(line.slice(0, 200))?.[1];
    if (!fence && mark) fence = { mark, line: line.slice(0, 200) };
    else if (fence && mark && mark[0] === fence.mark[0] && mark.length >= fence.mark.length && line.trim() === mark) fence = undefined;
  }
  return fence;
}
