/** A stock generator takes the served document as it is, and what it writes compiles and says what we mean. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import ts from 'typescript';
import { publishedDocument } from '../support/tools/published.ts';

const USE = `
import type { components, operations, paths } from './api';
type Sent = operations['sendMessage']['responses'][202]['content']['application/json'];
type Event = paths['/v1/events']['get']['responses'][200]['content']['application/json']['data'][number];
export const idOf = (sent: Sent): string => sent.id;
export const typeOf = (event: Event): string => event.type;
export const failed = (error: components['schemas']['Error']): string => error.code;
// @ts-expect-error there is no such path
export type Nothing = paths['/v1/nothing'];
`;

describe('openapi-typescript', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-openapi-'));
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });

  it('writes types from the served document that compile', async () => {
    const document = await publishedDocument();
    const written = astToString(await openapiTS(structuredClone(document) as unknown as OpenAPI3));
    writeFileSync(path.join(folder, 'api.ts'), written);
    writeFileSync(path.join(folder, 'use.ts'), USE);
    const options = {
      noEmit: true,
      strict: true,
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      target: ts.ScriptTarget.ES2023,
      types: [],
    };
    const program = ts.createProgram([path.join(folder, 'use.ts')], options);
    const faults = ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
    assert.deepEqual(faults, []);
    const operations = Object.values(
      document['paths'] as Record<string, Record<string, { operationId: string }>>,
    ).flatMap((one) => Object.values(one).map(({ operationId }) => operationId));
    for (const id of operations) assert.match(written, new RegExp(`\\b${id}: \\{`), id);
  });
});
