/** Checks the texts of refusals: each is a sentence with a capital letter that says what to do, in words of today. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { catalogue } from '../../src/base/problem.ts';

const source = path.resolve(import.meta.dirname, '../../src');
/** The folders of the API; commands have a style of their own. */
const FOLDERS = ['accounts', 'api', 'domains', 'keys', 'messages', 'suppressions', 'templates', 'webhooks'];

const files = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(source, folder), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => path.join(folder, name)),
);
const NEW_PROBLEM = /new Problem\(\s*(?:'[a-z_]+'|code),\s*(['`])((?:\\.|(?!\1).)*)\1/gs;
const OLD_WORDS = /\b(?:stands|mend|mends|anew|becomes of|became of)\b/;

describe('messages of problems', () => {
  const messages = files.flatMap((file) =>
    [...readFileSync(path.join(source, file), 'utf8').matchAll(NEW_PROBLEM)].map(([, , text = '']) => ({ file, text })),
  );

  it('begin with a capital letter, or with the name of what they are about', () => {
    assert.ok(messages.length > 150, String(messages.length));
    assert.deepEqual(
      messages.filter(({ text }) => !/^(?:[A-Z]|\\?`|\$\{)/.test(text)),
      [],
    );
  });

  it('have no words that nobody uses', () => {
    assert.deepEqual(
      messages.filter(({ text }) => OLD_WORDS.test(text)),
      [],
    );
    for (const [code, { cause, cure }] of Object.entries(catalogue)) {
      assert.doesNotMatch(`${cause} ${cure}`, OLD_WORDS, code);
      assert.match(cure, /^[A-Z].*\.$/, code);
    }
  });
});
