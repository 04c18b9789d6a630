/** Pages of the audit log: in both directions, with filters that few entries fit, and never more than a bounded number of entries tested. */
import assert from 'node:assert/strict';
import { pageOfAudit, type AuditFilter } from '../../src/accounts/audit-list.ts';
import { newId } from '../../src/base/id.ts';
import { auditRow } from '../../src/operations/audit-row.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const ACCOUNT = 'acc_1';
const START = Date.parse('2026-01-31T09:00:00.000Z');
const SLICES = [10, 20];

describe('accounts/audit-list', () => {
  let temp: TempDatabase;
  const requests: string[] = [];
  before(async () => {
    temp = await openTempDatabase();
    await temp.db.commit.insert({
      audit: Array.from({ length: 100 }, (_, n) => {
        const at = START + n * 60_000;
        requests.push(newId('req', at));
        const isPerson = n % 10 === 5;
        return auditRow({
          at,
          accountId: ACCOUNT,
          keyId: isPerson ? null : 'key_1',
          actor: isPerson ? 'member:ana@acme.test' : 'key:shop',
          method: 'GET',
          endpoint: '/v1/messages',
          status: n === 3 ? 404 : 200,
          requestId: requests[n] ?? '',
          operation: 'listMessages',
        });
      }),
    });
  });
  after(() => temp.close());

  const page = (filter: Partial<AuditFilter>, part: { limit: number; after?: string; before?: string }) =>
    pageOfAudit({ db: temp.db }, { of: { accountId: ACCOUNT }, ...filter }, part, SLICES);

  /** Reads all pages from one end, and returns the places of their entries in the order of time. */
  async function places(filter: Partial<AuditFilter>, direction: 'after' | 'before'): Promise<number[][]> {
    const pages: number[][] = [];
    // Ids are never above this one: backwards the list is read from its oldest entry.
    let edge: string | undefined = direction === 'after' ? undefined : 'aud_0';
    for (;;) {
      const { rows, hasMore, first, last } = await page(filter, {
        limit: 4,
        ...(edge === undefined ? {} : { [direction]: edge }),
      });
      pages.push(rows.map(({ at }) => (at - START) / 60_000));
      edge = (direction === 'after' ? last : first) ?? undefined;
      if (!hasMore) return pages;
      assert.ok(pages.length < 100 && edge !== undefined);
    }
  }

  it('reads all in both directions', async () => {
    const all = Array.from({ length: 100 }, (_, n) => n);
    assert.deepEqual((await places({}, 'after')).flat(), all.toReversed());
    assert.deepEqual(
      (await places({}, 'before')).flatMap((one) => one.toReversed()),
      all,
    );
    assert.deepEqual((await places({ by: 'person' }, 'after')).flat(), [95, 85, 75, 65, 55, 45, 35, 25, 15, 5]);
  });

  it('stops where it has tested enough, and goes on from there', async () => {
    for (const direction of ['after', 'before'] as const) {
      const found = await places({ status: 404 }, direction);
      assert.deepEqual(found.flat(), [3]);
      assert.equal(found.length, 4, 'slices of 30 of 100 entries');
    }
  });

  it('finds the entry of a request where the request was, by a key or a person', async () => {
    for (const n of [0, 5, 50, 99]) {
      const { rows, hasMore } = await page({ request_id: requests[n] ?? '' }, { limit: 4 });
      assert.deepEqual([rows.map(({ at }) => (at - START) / 60_000), hasMore], [[n], false]);
    }
  });

  it('keeps to the times', async () => {
    const span = { since: START + 10 * 60_000, until: START + 13 * 60_000 };
    assert.deepEqual((await places(span, 'after')).flat(), [12, 11, 10]);
  });
});
