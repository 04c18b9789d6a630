import assert from 'node:assert/strict';
import { ran } from './ran.ts';

describe('posthorn exports', () => {
  it('refuses a filter that is given twice: the first value would be lost without a word', async () => {
    const { code, notes } = await ran(['exports', 'create', 'messages', 'tag=invoice', 'tag=order']);
    assert.equal(code, 64);
    assert.match(notes, /tag is given twice/);
  });

  it('refuses a filter without a value: the export would be of all', async () => {
    const { code, notes } = await ran(['exports', 'create', 'messages', 'to=']);
    assert.equal(code, 64);
    assert.match(notes, /to has no value/);
  });
});
