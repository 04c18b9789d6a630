import { rowOf } from '../../src/messages/limits/book.ts';
import { insertRows } from '../../src/storage/rows.ts';
import { byHand } from '../support/harness/limit-rows.ts';
import assert from 'node:assert/strict';
import type { Family } from '../../src/operator/metrics/exposition.ts';
import { balanceFigures, hindranceFigures, reportFigures, webhookFigures } from '../../src/operator/metrics/metrics.ts';
import { Office } from './office.ts';

const valueOf = (families: readonly Family[], name: string, labels = ''): number | undefined =>
  families
    .find((family) => family.name === name)
    ?.samples.find((sample) => Object.values(sample.labels ?? {}).join() === labels)?.value;

describe('figures of the service', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());
  const write = (sql: string, values: readonly (string | number | null)[]): Promise<unknown> =>
    office.deps.db.commit.transact((tx) => tx.run(sql, [...values]));

  async function endpoint(id: string, status: string, cursor: number): Promise<void> {
    const account = (await office.deps.db.reader('accounts').first()) as { id: string };
    const columns =
      'id, account_id, url, description, events_json, streams_json, domains_json, include_machine_events, include_engagement, concurrency, header_names_json, secrets_sealed, status, cursor, failures, created_at, created_by, updated_at';
    await write(
      `INSERT INTO webhooks (${columns}) VALUES (?, ?, ?, '', '[]', '[]', '[]', 0, 0, 1, '[]', '', ?, ?, 0, 0, '', 0)`,
      [id, account.id, `https://${id}.example/`, status, cursor],
    );
  }

  it('tell holds by their end, and what block lists have', async () => {
    assert.equal(valueOf(await hindranceFigures(office.deps), 'posthorn_holds', 'none'), 0);
    await office.deps.db.commit.transact(async (tx) => {
      const limits = [
        byHand({ id: 'hld_1', domain: 'a.test' }, 0),
        byHand({ id: 'hld_2', domain: 'b.test', until: 9 }, 0),
        byHand({ id: 'hld_3', kind: 'limit', site: 'c.test' }, 0),
      ];
      await insertRows(tx, [{ limits: limits.map(rowOf) }]);
      const listing = 'INSERT INTO listings (ip, list, since, until, codes) VALUES (?, ?, 0, ?, ?)';
      await tx.run(listing, ['192.0.2.1', 'list.example', null, '127.0.0.2']);
      await tx.run(listing, ['192.0.2.1', 'old.example', 5, '127.0.0.2']);
    });
    const families = await hindranceFigures(office.deps);
    assert.deepEqual(
      [
        valueOf(families, 'posthorn_holds', 'none'),
        valueOf(families, 'posthorn_holds', 'timed'),
        valueOf(families, 'posthorn_blocklist_listings'),
      ],
      [1, 1, 1],
    );
  });

  it('tell the backlog of webhooks', async () => {
    await endpoint('whk_a', 'active', 0);
    await endpoint('whk_b', 'disabled', 0);
    const id = await office.mail('ana@dest.test');
    await office.happen(id, { kind: 'claimed', epoch: 1, leaseUntil: office.clock.now() + 60_000 });
    const newest =
      ((await office.deps.db.reader('events').max({ n: 'sequence' }).first()) as { n: number | null }).n ?? 0;
    const families = await webhookFigures(office.deps);
    assert.deepEqual(
      ['active', 'paused', 'disabled'].map((status) => valueOf(families, 'posthorn_webhook_endpoints', status)),
      [1, 0, 1],
    );
    assert.equal(valueOf(families, 'posthorn_webhook_backlog_events'), newest);
    assert.equal(valueOf(families, 'posthorn_webhook_calls_waiting'), 0);
    assert.equal(valueOf(families, 'posthorn_webhook_oldest_due_age_seconds'), 0);
  });

  it('tell how long calls are late', async () => {
    await endpoint('whk_a', 'active', 0);
    const due = office.clock.now() - 90_000;
    const { db } = office.deps;
    const columns = Object.keys(await db.reader('webhook_calls').columnInfo());
    const row: Record<string, string | number | null> = { webhook_id: 'whk_a', due_at: due };
    await write(
      `INSERT INTO webhook_calls (${columns.join()}) VALUES (${columns.map(() => '?').join()})`,
      columns.map(
        (name) => row[name] ?? (name.endsWith('_at') || name === 'attempts' || name === 'sequence' ? 1 : name),
      ),
    );
    const families = await webhookFigures(office.deps);
    assert.equal(valueOf(families, 'posthorn_webhook_calls_waiting'), 1);
    assert.equal(valueOf(families, 'posthorn_webhook_oldest_due_age_seconds'), 90);
  });

  it('tell what came back by mail', async () => {
    const report = {
      received_at: 1,
      client_ip: '',
      sender: '',
      recipients_json: '[]',
      size: 1,
      account_id: null,
      message_id: null,
      delivery_id: null,
      detail_json: '{}',
      raw: Buffer.alloc(1),
    };
    await office.deps.db.commit.insert({
      reports: [
        { ...report, id: 'rep_1', state: 'new', kind: null },
        { ...report, id: 'rep_2', state: 'done', kind: 'bounce' },
        { ...report, id: 'rep_3', state: 'done', kind: 'bounce' },
      ],
    });
    const families = await reportFigures(office.deps);
    assert.equal(valueOf(families, 'posthorn_reports', 'unread,new'), 1);
    assert.equal(valueOf(families, 'posthorn_reports', 'bounce,done'), 2);
  });

  it('tell whether the books balance', async () => {
    assert.equal(valueOf(await balanceFigures(office.deps), 'posthorn_books_balanced'), 1);
    await write(
      `INSERT INTO counters (account_id, day, from_status, to_status, n) VALUES ('a', '2026-01-01', 'none', 'queued', 3)`,
      [],
    );
    assert.equal(valueOf(await balanceFigures(office.deps), 'posthorn_books_balanced'), 0);
  });
});
