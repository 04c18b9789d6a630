import assert from 'node:assert/strict';
import type { View } from '../../src/dashboard/page.ts';
import { createShownOnce } from '../../src/dashboard/shown-once.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const page = (title: string): View => ({ kind: 'view', view: 'v', title, data: {} });

describe('dashboard/shown-once', () => {
  let clock: FakeClock;
  let once: ReturnType<typeof createShownOnce>;
  beforeEach(() => {
    clock = new FakeClock();
    once = createShownOnce({ clock });
  });

  it('gives a page once, to the session that made it', () => {
    const token = once.keep('ses_1', page('a'));
    assert.equal(once.take('ses_2', token), null, 'another session');
    assert.equal(once.take('ses_1', token)?.title, 'a');
    assert.equal(once.take('ses_1', token), null, 'a second time');
    assert.equal(once.take('ses_1', ''), null);
  });

  it('shows a page again after a second send of its form, to the same session and within the minute', () => {
    const token = once.keep('ses_1', page('a'));
    once.take('ses_1', token);
    once.showAgain('ses_2', token);
    assert.equal(once.take('ses_1', token), null, 'another session asked for it');
    once.showAgain('ses_1', token);
    assert.equal(once.take('ses_1', token)?.title, 'a');
    assert.equal(once.take('ses_1', token), null);
    clock.advance(60_000);
    once.showAgain('ses_1', token);
    assert.equal(once.take('ses_1', token), null, 'after a minute');
  });

  it('forgets a page after a minute', () => {
    const token = once.keep('ses_1', page('a'));
    clock.advance(60_000);
    assert.equal(once.take('ses_1', token), null);
  });

  it('keeps few of one session, which takes no room from others, and a bounded number of all', () => {
    const other = once.keep('ses_2', page('other'));
    const mine = Array.from({ length: 20 }, (_, n) => once.keep('ses_1', page(String(n))));
    assert.deepEqual(
      mine.map((token) => once.take('ses_1', token)?.title).filter((title) => title !== undefined),
      ['15', '16', '17', '18', '19'],
    );
    for (let n = 0; n < 999; n++) once.keep(`ses_x${String(n)}`, page('x'));
    assert.equal(once.take('ses_2', other)?.title, 'other');
    const first = once.keep('ses_y', page('first'));
    for (let n = 0; n < 1000; n++) once.keep(`ses_z${String(n)}`, page('x'));
    assert.equal(once.take('ses_y', first), null, 'the oldest of all gives way');
  });
});
