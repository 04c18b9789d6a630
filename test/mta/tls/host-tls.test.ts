import assert from 'node:assert/strict';
import { createHostTls, type HostTls } from '../../../src/mta/connection/dial.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const DAY = 86_400_000;

describe('mta/tls/host-tls', () => {
  let temp: TempDatabase;
  let db: TempDatabase['db'];
  let clock: FakeClock;
  let warnings: Record<string, unknown>[];

  beforeEach(async () => {
    temp = await openTempDatabase();
    ({ db } = temp);
    clock = new FakeClock();
    warnings = [];
  });
  afterEach(() => temp.close());

  const log = {
    debug() {},
    info() {},
    warn: (fields: object) => void warnings.push({ ...fields }),
    error() {},
    child: () => log,
  };

  /** As after a restart: what was written is read again. */
  async function started(): Promise<HostTls> {
    // Work that was not waited for is done after this.
    await db.commit.transact(() => Promise.resolve());
    const hostTls = createHostTls({ db, clock, log });
    await hostTls.load();
    return hostTls;
  }

  it('keeps the hello that a host needs over a restart, for a day', async () => {
    const { memory } = await started();
    memory.set('old.test:25', 'legacy', clock.now());
    memory.set('odd.test:25', 'reduced', clock.now());
    clock.advance(DAY - 1);
    const later = await started();
    const hellos = () => ['old.test:25', 'odd.test:25'].map((host) => later.memory.get(host, clock.now()));
    assert.deepEqual(hellos(), ['legacy', 'reduced']);
    clock.advance(1);
    assert.deepEqual(hellos(), ['full', 'full']);
  });

  it('forgets one that is not needed any more, over a restart as well', async () => {
    const { memory } = await started();
    memory.set('old.test:25', 'legacy', clock.now());
    memory.set('old.test:25', 'full', clock.now());
    assert.equal((await started()).memory.get('old.test:25', clock.now()), 'full');
  });

  it('does not keep plaintext over a restart, nor take over what an earlier version kept for three days', async () => {
    const { memory } = await started();
    memory.set('now.test:25', 'none', clock.now());
    assert.equal(memory.get('now.test:25', clock.now()), 'none');
    const row = {
      host: 'before.test:25',
      workaround: 'none' as const,
      workaround_until: clock.now() + 3 * DAY,
      offered_at: clock.now(),
    };
    await db.commit.insert({ host_tls: [row, { ...row, host: 'odd.test:25', workaround: 'reduced' }] });
    const later = await started();
    for (const host of ['now.test:25', 'before.test:25']) assert.equal(later.memory.get(host, clock.now()), 'full');
    clock.advance(DAY);
    assert.equal(later.memory.get('odd.test:25', clock.now()), 'full', 'a hello of three days is cut to one');
  });

  it('warns of plaintext after broken handshakes, once a day for each host', async () => {
    const { memory, noteUse } = await started();
    noteUse('mx.test:25', true);
    memory.downgraded('mx.test:25', 'read ECONNRESET');
    memory.downgraded('mx.test:25', 'read ECONNRESET');
    noteUse('mx.test:25', false);
    assert.deepEqual(warnings, [{ event: 'tls_downgrade', host: 'mx.test:25', reason: 'read ECONNRESET' }]);
    clock.advance(DAY);
    noteUse('mx.test:25', false);
    assert.equal(warnings.length, 2);
  });
});
