import assert from 'node:assert/strict';
import { ran } from './ran.ts';

describe('posthorn exports', () => {
  it('refuses a filter that is given twice: the first value would be lost without a word', async () => {
    const { code, notes } = await ran(['exports', 'create', 'messages', 'tag=invoice', 'tag=order']);
    assert.equal(code, 64);
    assert.match(notes, /tag is given twice/);
  });
});
