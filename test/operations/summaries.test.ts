/** The table of summaries: each belongs to an operation, and each is shown by the API's description or by a command that performs it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { serverRouteNamed } from '../../src/operator/routes.ts';
import { presentations } from '../../src/presentations/index.ts';
import { apiSummaries, machineSummaries, partSummaries } from '../../src/operations/summaries.ts';

const cli = path.resolve(import.meta.dirname, '../../src/cli');
const api = path.resolve(import.meta.dirname, '../../src/api');
const textsOf = (folder: string): { file: string; text: string }[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .map((file) => ({ file, text: readFileSync(path.join(folder, file), 'utf8') }));

const found = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name = '']) => name);
const sorted = (names: readonly string[]): string[] => [...new Set(names)].sort();

describe('operations/summaries', () => {
  it('has one for each operation of the API, and no other', () => {
    const declared = textsOf(api).flatMap(({ text }) => found(text, /\boperationId: '(\w+)'/g));
    assert.deepEqual(sorted(declared), sorted(Object.keys(apiSummaries)));
  });

  it('has none for the machine without an operation', () => {
    assert.deepEqual(
      Object.keys(machineSummaries).filter((name) => serverRouteNamed(name) === null),
      [],
    );
  });

  it('has none for a command that nobody added', () => {
    const byHand = textsOf(cli).flatMap(({ text }) => [...text.matchAll(/\bhelpOf\('([\w.]+)'(?:, '(\w+)')?\)/g)]);
    const shown = [
      ...byHand.map(([, operation = '', part]) => ({ operation, part })),
      ...Object.values(presentations)
        .flat()
        .flatMap(({ operation, instead = { operation }, command }) =>
          [operation, instead.operation].map((one) => ({ operation: one, part: command.split(' ').at(-1) })),
        ),
    ];
    assert.deepEqual(
      Object.keys(machineSummaries).filter((name) => !shown.some(({ operation }) => operation === name)),
      [],
    );
    for (const [name, parts] of Object.entries(partSummaries))
      for (const word of Object.keys(parts))
        assert.ok(
          shown.some(({ operation, part }) => operation === name && part === word),
          `${name}: ${word}`,
        );
  });

  it('is one short line for each', () => {
    const parts = Object.values(partSummaries).flatMap((one) => Object.values(one) as string[]);
    for (const text of [...Object.values(apiSummaries), ...Object.values(machineSummaries), ...parts])
      assert.match(text, /^[A-Z][^\n]{5,118}[^.]$/);
  });
});
