import assert from 'node:assert/strict';
import { createBell } from '../../src/scheduling/bell.ts';

describe('base/bell', () => {
  it('calls everybody who listens, with the hint, until they stop', () => {
    const bell = createBell<string>();
    const heard: string[] = [];
    bell.ring('nobody there');
    const stop = bell.listen((hint) => heard.push(`one: ${hint}`));
    bell.listen((hint) => heard.push(`two: ${hint}`));
    bell.ring('a');
    stop();
    stop();
    bell.ring('b');
    assert.deepEqual(heard, ['one: a', 'two: a', 'two: b']);
  });

  it('lets a listener leave while it rings', () => {
    const bell = createBell();
    let rings = 0;
    const stop = bell.listen(() => {
      rings++;
      stop();
    });
    bell.ring();
    bell.ring();
    assert.equal(rings, 1);
  });
});
