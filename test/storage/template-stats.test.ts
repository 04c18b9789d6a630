/** The step that makes numbers by template of the events that are there: as if they had been counted when they happened. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import knexPackage from 'knex';
import { newId } from '../../src/base/id.ts';
import { addToStats, statTypesOf } from '../../src/events/stats.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { migrateTo } from '../../src/storage/migrate.ts';
import type { EventRow, StatRow } from '../../src/storage/tables.ts';
import { ACCOUNT, deliveryRow, messageRow, NOW } from '../support/harness/mail-rows.ts';

describe('migrations/022-template-stats', () => {
  it('counts what the program would have counted', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'ph-template-stats-'));
    const url = path.join(folder, 'posthorn.db');
    const old = knexPackage({ client: 'sqlite3', connection: { filename: url }, useNullAsDefault: true });
    await migrateTo(old, '021-message-blocks');
    const happened = fc.sample(
      fc.record({
        template: fc.constantFrom(null, 'tpl_1', 'tpl_2'),
        stream: fc.constantFrom('transactional', 'news'),
        address: fc.constantFrom('a@gmail.com', 'a@web.de', 'a@elsewhere.test'),
        test: fc.constantFrom(0, 1),
        type: fc.constantFrom(
          'sent',
          'delivered',
          'deferred',
          'bounced',
          'complained',
          'suppressed',
          'failed',
          'unsubscribed',
          'opened',
          'clicked',
          'scheduled',
        ),
        detail: fc.constantFrom<Record<string, unknown>[]>(
          {},
          { class: 'hard' },
          { class: 'undetermined' },
          { first: true },
          { first: false },
        ),
        machine: fc.constantFrom(0, 1),
        at: fc.integer({ min: NOW, max: NOW + 3 * 86_400_000 }),
      }),
      { numRuns: 400, seed: 1 },
    );
    const expected = new Map<string, StatRow>();
    const written = { messages: [] as object[], deliveries: [] as object[], events: [] as object[] };
    const facts = { accountId: ACCOUNT, domain: 'acme.test', tags: [] };
    for (const { template, stream, address, test, type, detail, machine, at } of happened) {
      const message = messageRow({
        id: newId('msg', NOW),
        template_id: template,
        stream,
        test,
        from_domain: facts.domain,
      });
      const delivery = deliveryRow({ message_id: message.id, address, address_key: address, test });
      const event: EventRow = {
        id: newId('evt', NOW),
        account_id: ACCOUNT,
        type,
        at,
        test,
        message_id: message.id,
        delivery_id: delivery.id,
        status: 'sent',
        machine,
        detail_json: JSON.stringify(detail),
      };
      written.messages.push(message);
      written.deliveries.push(delivery);
      written.events.push(event);
      if (template !== null)
        addToStats(
          expected,
          { ...facts, template, stream, recipient: address, at, test: test === 1 },
          statTypesOf(type, detail, machine === 1),
        );
    }
    await old.transaction(async (tx) => {
      for (const [table, rows] of Object.entries(written)) for (const row of rows) await tx(table).insert(row);
    });
    await old.destroy();
    const db = await openDatabase({ url: `sqlite:${url}` });
    const rows = (await db.reader('event_counts').select('*')) as StatRow[];
    await db.close();
    rmSync(folder, { recursive: true, force: true });
    const inOrder = (all: readonly object[]): string[] =>
      all.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
    const templates = [...expected.values()].filter(({ span }) => span.startsWith('template'));
    assert.ok(templates.length > 50);
    // Events that no number counts leave nothing behind.
    assert.deepEqual(inOrder(rows), inOrder(templates));
  }).timeout(20_000);
});
