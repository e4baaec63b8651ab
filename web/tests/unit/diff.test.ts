import { expect, test } from 'vitest';
import { parseDiff, reversed } from '../../src/text/diff';

const TWO = `--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@ fn
 same
-old
-older
+new
 same
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
---- not a header
`;

test('a reversed difference takes the change back, and reversing twice changes nothing', () => {
  const back = reversed(TWO);
  expect(back).toBe(`--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@ fn
 same
-new
+old
+older
 same
--- /dev/null
+++ b/gone.txt
@@ -0,0 +1 @@
+--- not a header
`);
  expect(reversed(back)).toBe(TWO);
  const rows = parseDiff(back).map((file) => [file.path, file.added, file.removed]);
  expect(rows).toEqual([['one.txt', 2, 1], ['gone.txt', 1, 0]]);
});

test('the mark of a missing final newline stays with its line', () => {
  const text = '--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n';
  expect(reversed(text)).toBe('--- x\n+++ x\n@@ -1 +1 @@\n-b\n+a\n\\ No newline at end of file\n');
});

test('the prefixes of git are left out of paths, and of nothing else', () => {
  const path = (before: string, after: string) => parseDiff(`--- ${before}\n+++ ${after}\n@@ -1 +1 @@\n-a\n+b\n`)[0]?.path;
  expect(path('a/x', 'b/x')).toBe('x');
  expect(path('/dev/null', 'b/x')).toBe('x');
  expect(path('a/x', '/dev/null')).toBe('x');
  expect(path('b/x', 'b/x')).toBe('b/x');
  expect(path('x', 'x')).toBe('x');
});
