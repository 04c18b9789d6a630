import assert from 'node:assert/strict';
import { budgets } from '../../src/base/budgets.ts';
import { newId } from '../../src/base/id.ts';
import { createLog } from '../../src/base/log.ts';
import type { Aggregate } from '../../src/inbound/aggregate.ts';
import { createAggregateStore } from '../../src/inbound/aggregate-store.ts';
import { StorageUnavailable, type Committer } from '../../src/storage/commit.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { NOW } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const HOUR = 3_600_000;

describe('inbound/aggregate-store', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  const reportOf = (records: number): Aggregate => ({
    kind: 'dmarc',
    isUnsound: false,
    report: {
      organization: 'receiver.test',
      id: 'r1',
      domain: 'shop.test',
      from: NOW - 2 * HOUR,
      until: NOW - HOUR,
      policy: 'none',
      unsound: 0,
      records: Array.from({ length: records }, (_, n) => ({
        source_ip: `192.0.2.${String(n % 250)}`,
        count: 1,
        disposition: 'none',
        dkim: 'pass',
        spf: 'pass',
        header_from: 'shop.test',
        envelope_from: 'shop.test',
        dkim_domain: 'shop.test',
        dkim_selector: 's',
        dkim_result: 'pass',
        spf_domain: 'shop.test',
        spf_result: 'pass',
      })),
    },
  });

  it('does not count a report twice against the budget of its domain where it could not be written', async () => {
    const budget = budgets.aggregate_rows_domain.most;
    const records = Math.floor(budget / 2) + 1;
    let fails = 1;
    const commit: Committer = {
      ...temp.db.commit,
      transact: (run) =>
        fails-- > 0 ? Promise.reject(new StorageUnavailable('disk full')) : temp.db.commit.transact(run),
    };
    const store = createAggregateStore({
      clock: new FakeClock(NOW),
      db: { commit, prepared: temp.db.prepared, maintenance: temp.db.maintenance },
      log: createLog({ level: 'error', format: 'json' }),
      usedUp: () => undefined,
      isOurHost: () => Promise.resolve(true),
    });
    const id = newId('rep', NOW);
    const keep = async () => {
      const countIn = await store.open(id, reportOf(records));
      const counted = await commit.transact(countIn);
      await counted.done();
      return counted;
    };
    await assert.rejects(keep(), /disk full/);
    const { refused, rows } = await keep();
    assert.deepEqual([refused, rows.dmarc_rows?.length], [null, records]);
  });
});
