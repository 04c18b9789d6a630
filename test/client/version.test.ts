/** The client tells the server its version, which is that of the whole program. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { madeFor } from '../../src/client/version.ts';

describe('version of the client', () => {
  it('is that of package.json', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    assert.equal(madeFor, version);
  });
});
