import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

const DIST = join(import.meta.dirname, 'dist');

/** Every file below a directory, as paths with `/`. */
function files(directory: string): string[] {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => relative(directory, join(entry.parentPath, entry.name)));
  return names.map((name) => name.split(sep).join('/')).filter((name) => name !== '.gitignore');
}

/**
 * Writes what the crate `toolgate-web` embeds: each file also as gzip and Brotli, and, last, `files.txt` with the path and the entity tag of each.
 * `dist/.gitignore` is committed and stays.
 */
function embed(): Plugin {
  return {
    name: 'toolgate-embed',
    apply: 'build',
    buildStart() {
      for (const name of files(DIST)) rmSync(join(DIST, name));
    },
    closeBundle() {
      const list = files(DIST).sort().map((name) => {
        const content = readFileSync(join(DIST, name));
        const options = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
        writeFileSync(join(DIST, `${name}.br`), brotliCompressSync(content, options));
        writeFileSync(join(DIST, `${name}.gz`), gzipSync(content, { level: 9 }));
        return `${name}\t${createHash('sha256').update(content).digest('hex').slice(0, 32)}\n`;
      });
      writeFileSync(join(DIST, 'files.txt'), list.join(''));
    },
  };
}

export default defineConfig({
  plugins: [react(), embed()],
  build: {
    outDir: DIST,
    emptyOutDir: false,
    target: 'es2022',
    // Nothing inline: the content security policy has no `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { port: 5173, strictPort: true },
  test: { include: ['tests/unit/**/*.test.{ts,tsx}'] },
} as Parameters<typeof defineConfig>[0]);
