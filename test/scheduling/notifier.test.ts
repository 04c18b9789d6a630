import assert from 'node:assert/strict';
import { createNotifier } from '../../src/scheduling/notifier.ts';

describe('scheduling/notifier', () => {
  it('calls everybody who listens, with the hint, until they stop', () => {
    const notifier = createNotifier<string>();
    const heard: string[] = [];
    notifier.notify('nobody there');
    const stop = notifier.listen((hint) => heard.push(`one: ${hint}`));
    notifier.listen((hint) => heard.push(`two: ${hint}`));
    notifier.notify('a');
    stop();
    stop();
    notifier.notify('b');
    assert.deepEqual(heard, ['one: a', 'two: a', 'two: b']);
  });

  it('lets a listener leave while it rings', () => {
    const notifier = createNotifier();
    let rings = 0;
    const stop = notifier.listen(() => {
      rings++;
      stop();
    });
    notifier.notify();
    notifier.notify();
    assert.equal(rings, 1);
  });
});
