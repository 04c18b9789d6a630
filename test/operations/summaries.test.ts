/** Summaries: one for each operation of the API, and one for each command. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { serverRouteNamed } from '../../src/operator/routes.ts';
import { presentations } from '../../src/presentations/index.ts';
import { apiSummaries } from '../../src/operations/summaries.ts';

const api = path.resolve(import.meta.dirname, '../../src/api');
const textsOf = (folder: string): { file: string; text: string }[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .map((file) => ({ file, text: readFileSync(path.join(folder, file), 'utf8') }));

const found = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name = '']) => name);
const sorted = (names: readonly string[]): string[] => [...new Set(names)].sort();

describe('operations/summaries', () => {
  it('has one for each operation of the API, and no other', () => {
    const declared = textsOf(api).flatMap(({ text }) => found(text, /\b(?:operationId: |pageAt\()'(\w+)'/g));
    assert.deepEqual(sorted(declared), sorted(Object.keys(apiSummaries)));
  });

  it('is one short line for each, and for each command', () => {
    const lines = Object.values(presentations).flatMap((all) => all.flatMap(({ says }) => says ?? []));
    for (const text of Object.values(apiSummaries)) assert.match(text, /^[A-Z][^\n]{5,118}[^.]$/);
    for (const text of lines) assert.match(text, /^[a-z][^\n]{5,118}[^.]$/);
  });

  it('or one of its own has each command, whose operation there is', () => {
    for (const { command, operation, says } of Object.values(presentations).flat()) {
      assert.ok(says !== undefined || Object.hasOwn(apiSummaries, operation), command);
      assert.ok(serverRouteNamed(operation) !== null || Object.hasOwn(apiSummaries, operation), command);
    }
  });
});
