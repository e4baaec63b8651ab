/** Unified differences as rows, for the unified and the side-by-side view. */

export type RowKind = 'context' | 'added' | 'removed' | 'hunk' | 'note';

export interface DiffRow {
  kind: RowKind;
  text: string;
  /** Line numbers, where the row has them. */
  before?: number;
  after?: number;
  /** The part that differs from the line on the other side: from, to. */
  changed?: [number, number];
}

export interface FileDiff {
  path: string;
  rows: DiffRow[];
  added: number;
  removed: number;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** Parses a unified diff of one or several files. Lines outside of any hunk that are no headers are dropped. */
export function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let [before, after] = [0, 0];
  let [oldPath, isInHunk] = ['', false];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  for (const [index, line] of lines.entries()) {
    const hunk = HUNK.exec(line);
    if (line.startsWith('--- ') && (lines[index + 1] ?? '').startsWith('+++ ')) {
      [oldPath, isInHunk] = [line.slice(4), false];
    } else if (line.startsWith('+++ ') && !isInHunk) {
      const path = shownPath(oldPath, line.slice(4));
      file = { path, rows: [], added: 0, removed: 0 };
      files.push(file);
    } else if (hunk) {
      file ??= push(files);
      [before, after, isInHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      file.rows.push({ kind: 'hunk', text: line });
    } else if (file && isInHunk) {
      [before, after] = addRow(file, line, before, after);
    }
  }
  files.forEach((one) => markChanges(one.rows));
  return files;
}

/** The new path, or the old one of a file that is gone; without the `a/` and `b/` that some programs write. */
function shownPath(before: string, after: string): string {
  if (after === '/dev/null') return before.replace(/^a\//, '');
  const isPrefixed = after.startsWith('b/') && (before.startsWith('a/') || before === '/dev/null');
  return isPrefixed ? after.slice(2) : after;
}

function push(files: FileDiff[]): FileDiff {
  const file: FileDiff = { path: '', rows: [], added: 0, removed: 0 };
  files.push(file);
  return file;
}

function addRow(file: FileDiff, line: string, before: number, after: number): [number, number] {
  const text = line.slice(1);
  switch (line[0]) {
    case '+':
      file.added += 1;
      file.rows.push({ kind: 'added', text, after });
      return [before, after + 1];
    case '-':
      file.removed += 1;
      file.rows.push({ kind: 'removed', text, before });
      return [before + 1, after];
    case '\\':
      file.rows.push({ kind: 'note', text: line });
      return [before, after];
    default:
      file.rows.push({ kind: 'context', text, before, after });
      return [before + 1, after + 1];
  }
}

/** Runs of removed rows followed by as many added ones: marks what differs within each pair. */
function markChanges(rows: DiffRow[]) {
  for (const [removed, added] of pairs(rows)) {
    if (!removed || !added) continue;
    const [start, endRemoved, endAdded] = difference(removed.text, added.text);
    const kept = start + (removed.text.length - endRemoved);
    // Where little is common, marking nearly all of the line says nothing.
    if (kept * 3 < Math.max(removed.text.length, added.text.length)) continue;
    if (endRemoved > start) removed.changed = [start, endRemoved];
    if (endAdded > start) added.changed = [start, endAdded];
  }
}

/** Common prefix, and the ends of what differs on both sides. */
function difference(left: string, right: string): [number, number, number] {
  let start = 0;
  while (start < left.length && left[start] === right[start]) start += 1;
  let [endLeft, endRight] = [left.length, right.length];
  while (endLeft > start && endRight > start && left[endLeft - 1] === right[endRight - 1]) {
    endLeft -= 1;
    endRight -= 1;
  }
  return [start, endLeft, endRight];
}

/** The rows of a difference as left and right columns. */
export function pairs(rows: DiffRow[]): [DiffRow | undefined, DiffRow | undefined][] {
  const result: [DiffRow | undefined, DiffRow | undefined][] = [];
  let [removed, added]: [DiffRow[], DiffRow[]] = [[], []];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) result.push([removed[index], added[index]]);
    [removed, added] = [[], []];
  };
  for (const row of rows) {
    if (row.kind === 'removed') {
      if (added.length > 0) flush();
      removed.push(row);
    } else if (row.kind === 'added') added.push(row);
    else {
      flush();
      result.push([row, row]);
    }
  }
  flush();
  return result;
}

/** The diff inside a tool's answer, if there is one, and the text before it. */
export function splitDiff(text: string): { before: string; diff: string } | undefined {
  const start = /^--- .*\n\+\+\+ .*\n@@ /m.exec(text);
  return start ? { before: text.slice(0, start.index).trim(), diff: text.slice(start.index) } : undefined;
}

/** The difference that takes the other one back: before and after change places. */
export function reversed(text: string): string {
  const lines = text.split('\n');
  const result: string[] = [];
  let [removed, added]: [string[], string[]] = [[], []];
  let isInHunk = false;
  const flush = () => {
    result.push(...removed, ...added);
    [removed, added] = [[], []];
  };
  const noteFor = (line = '') => {
    if (line.startsWith('-')) return added;
    return line.startsWith('+') ? removed : result;
  };
  for (const [index, line] of lines.entries()) {
    const next = lines[index + 1] ?? '';
    const [, before = '', after = '', rest = ''] = /^@@ -(\S+) \+(\S+) @@(.*)$/.exec(line) ?? [];
    if (before) {
      flush();
      isInHunk = true;
      result.push(`@@ -${after} +${before} @@${rest}`);
    } else if (line.startsWith('--- ') && next.startsWith('+++ ') && (lines[index + 2] ?? '').startsWith('@@ ')) {
      flush();
      isInHunk = false;
      result.push(`--- ${next.slice(4).replace(/^b\//, 'a/')}`, `+++ ${line.slice(4).replace(/^a\//, 'b/')}`);
    } else if (!isInHunk && line.startsWith('+++ ')) continue;
    else if (isInHunk && line.startsWith('-')) added.push(`+${line.slice(1)}`);
    else if (isInHunk && line.startsWith('+')) removed.push(`-${line.slice(1)}`);
    else if (isInHunk && line.startsWith('\\')) noteFor(lines[index - 1]).push(line);
    else {
      flush();
      result.push(line);
    }
  }
  flush();
  return result.join('\n');
}
