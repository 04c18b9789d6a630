import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { generatedDocs } from './support/generated-docs.ts';

describe('generated documents', () => {
  for (const [file, make] of generatedDocs) {
    it(`${file} is what \`npm run docs\` makes`, () => {
      assert.equal(readFileSync(path.resolve(import.meta.dirname, '..', file), 'utf8'), make());
    });
  }
});

describe('docs/dependencies.md', () => {
  it('names each package with its reason, and no other', () => {
    const read = (file: string): string => readFileSync(path.resolve(import.meta.dirname, '..', file), 'utf8');
    const { dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
      string,
      Record<string, string>
    >;
    const named = [...read('docs/dependencies.md').matchAll(/^\| `([^`]+)` +\| \S/gm)].map(([, name]) => name);
    assert.deepEqual(named.sort(), Object.keys({ ...dependencies, ...devDependencies }).sort());
  });
});
