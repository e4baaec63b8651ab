import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import openapiTS, { astToString, COMMENT_HEADER } from 'openapi-typescript';
import { expect, it } from 'vitest';

const WEB = join(import.meta.dirname, '../..');

it('the types of the API are those of its document; `npm run types` writes them', async () => {
  const document = pathToFileURL(join(WEB, '../crates/api/openapi.json'));
  const types = `${COMMENT_HEADER}${astToString(await openapiTS(document, { defaultNonNullable: false }))}`;
  expect(readFileSync(join(WEB, 'src/api/schema.gen.ts'), 'utf8')).toBe(types);
});
