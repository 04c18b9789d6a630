/** A file that has as much coming as going stops growing. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { live, type Day } from '../bench/life.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

describe('housekeeping: the life of a database', () => {
  it('grows until what comes in is as old as what goes, and no further', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-life-'));
    try {
      const days = await live(folder, {
        days: 48,
        messagesADay: 40,
        keep: { content: 2, messages: 5 },
        clock: new FakeClock(),
      });
      const largest = (from: number, to: number, of: (day: Day) => number): number =>
        Math.max(...days.filter(({ day }) => day >= from && day <= to).map(of));
      assert.ok(days.length >= 47, `${String(days.length)} days`);
      // Numbers by the hour are kept for 32 days: until then the file grows by them, and afterwards a little by those of each day.
      const [before, after] = [largest(33, 40, ({ bytes }) => bytes), largest(41, 48, ({ bytes }) => bytes)];
      assert.ok(after <= before * 1.1, `${String(before)} then ${String(after)} bytes`);
      for (const of of [
        ({ messages }: Day) => messages,
        ({ events }: Day) => events,
        ({ contents }: Day) => contents,
      ]) {
        assert.ok(largest(6, 48, of) > 0);
        assert.ok(largest(41, 48, of) <= largest(6, 14, of) * 1.5, `${String(of)}: ${String(largest(41, 48, of))}`);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
