import assert from 'node:assert/strict';
import { createLog } from '../../src/base/log.ts';
import { createDiskGuard } from '../../src/storage/disk-guard.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

describe('disk guard', () => {
  const lines: string[] = [];
  const log = createLog({ level: 'debug', format: 'json', stream: { write: (line) => void lines.push(line) } });
  let retries = 0;
  const commit = {
    retry: (): Promise<void> => {
      retries++;
      return new Promise(() => undefined);
    },
  };
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('refuses below the limit and recovers by itself, telling each change once', async () => {
    lines.length = 0;
    let free = 1000;
    const clock = new FakeClock();
    const guard = createDiskGuard({ clock, log, commit }, { dir: '/', minFreeBytes: 500 }, () => Promise.resolve(free));
    await guard.look();
    assert.equal(guard.hasRoom(), true);
    for (const [bytes, room] of [
      [499, false],
      [10, false],
      [500, true],
    ] as const) {
      free = bytes;
      clock.advance(5_000);
      await settled();
      assert.equal(guard.hasRoom(), room, `${String(bytes)} bytes free`);
    }
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { event: string }).event),
      ['disk_low', 'disk_low_for_strangers', 'disk_room'],
    );
    assert.equal(guard.hasRoomForStrangers(), false);
    assert.equal(retries, 4, 'each look has a database tried again that took no writes, and does not wait for it');
    guard.stop();
    assert.equal(clock.nextAt(), null);
  });

  it('keeps its last answer where the disk cannot be asked, and says so', async () => {
    lines.length = 0;
    const clock = new FakeClock();
    const guard = createDiskGuard({ clock, log, commit }, { dir: '/', minFreeBytes: 1 }, () =>
      Promise.reject(new Error('EIO')),
    );
    await guard.look();
    assert.equal(guard.hasRoom(), true);
    assert.match(lines.join(''), /disk_unknown/);
    guard.stop();
  });

  it('reads a real disk', async () => {
    const guard = createDiskGuard(
      { clock: new FakeClock(), log, commit },
      { dir: '/', minFreeBytes: Number.MAX_SAFE_INTEGER },
    );
    await guard.look();
    assert.equal(guard.hasRoom(), false);
    guard.stop();
  });
});
