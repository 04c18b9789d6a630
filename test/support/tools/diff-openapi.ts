/**
 * `npm run openapi:diff`: is what the code describes a breaking change to docs/openapi.json? With a commit or tag behind `--`,
 * to the document of then. Ends with 1 where it is, and says what breaks.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Json } from '../../../src/api/openapi.ts';
import { breakingChanges } from './openapi-diff.ts';
import { publishedDocument } from './published.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const [since] = process.argv.slice(2);
const text =
  since === undefined
    ? readFileSync(path.join(root, 'docs/openapi.json'), 'utf8')
    : execFileSync('git', ['show', `${since}:docs/openapi.json`], { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
const changes = breakingChanges(JSON.parse(text) as Json, await publishedDocument());
for (const change of changes) console.log(change);
if (changes.length === 0) console.log('no breaking change');
else process.exitCode = 1;
