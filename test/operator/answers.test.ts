/** Each operation of the server answers what its schema says, which commands print with `--json`. */
import assert from 'node:assert/strict';
import { laneWait } from '../../src/messages/delivery/why.ts';
import { serverRoutes, type ArgsOf, type OperationName } from '../../src/operator/routes.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { limitRow } from '../support/harness/limit-rows.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { Office } from './office.ts';

const LANE = 'mx.dest.test';
const REPORT = 'rep_01kg9p6je0ec0s7m42jmky5pp2';

type Asked = { [Name in OperationName]: ArgsOf<Name> };

describe('operator: the answer of each operation', () => {
  let office: Office;
  before(async () => {
    office = await Office.open();
  });
  after(() => office.close());

  /** Makes an installation that has something of everything; returns what to ask of it, in this order. */
  async function filled(): Promise<Asked> {
    const now = office.clock.now();
    const waiting = await office.mail('a@dest.test', { tags: ['order'] });
    await office.mail('b@other.test');
    await office.defer(waiting, now + 60_000);
    const limit = { what: 'connections', to: 2, by: 'receiver', cause: '421 slow down', since: now } as const;
    office.waits = [
      laneWait('receiver_resting', 'The receiver rests.', { since: now, until: now + 1, by: 'receiver' }),
    ];
    office.changes = [{ at: now, what: 'connections', to: '2 connections', cause: '421 slow down' }];
    office.lanes = [
      {
        ...{ name: LANE, source: null, waiting: 1, slots: 1, limit: 2, perMinute: 30, cause: 'start', causeAt: now },
        ...{ limits: [limit], parkedUntil: now, waits: office.waits, lastReply: '421 slow down', lastProgressAt: now },
        changes: office.changes,
      },
    ];
    office.sources = [
      {
        ...{ name: null, pool: 'default', ehlo: 'mail.test', ipv4: '192.0.2.1', ipv6: null, paused: false, absent: [] },
        blocks: [{ site: LANE, since: now, until: now + 1, reply: '550 blocked' }],
        warmUp: [{ site: LANE, sent: 3, cap: null }],
      },
    ];
    const host = { name: LANE, port: 25, preference: 10, addresses: [{ ip: '192.0.2.25', family: 4 as const }] };
    office.resolved = {
      destination: { kind: 'site', name: LANE, relay: null, hosts: [host] } as never,
      needs: [{ kind: 'refused', text: 'its policy forbids it' } as never],
      lane: null,
    };
    const [delivery] = (await office.deps.db.reader('deliveries').where({ message_id: waiting })) as DeliveryRow[];
    assert.ok(delivery);
    await office.deps.db.commit.insert({
      limits: [limitRow({ since: now, until: now + 60_000, cause: '550 blocked' })],
      reports: [
        {
          ...{
            id: REPORT,
            kind: 'bounce',
            received_at: now,
            client_ip: '192.0.2.2',
            sender: '',
            recipients_json: '[]',
          },
          ...{ size: 1, state: 'unverified', account_id: delivery.account_id, message_id: waiting },
          delivery_id: delivery.id,
          detail_json: JSON.stringify({
            recipients: [{ address: 'a@dest.test', action: 'failed', status: '5.1.1', class: 'hard', reason: 'x' }],
          }),
          raw: Buffer.from('Subject: it came back\r\n\r\nx'),
        },
      ],
      listings: [{ ip: '192.0.2.1', list: 'bl.test', since: now, until: null, codes: '127.0.0.2' }],
    });
    const entry = { email: 'c@dest.test', reason: 'manual' as const };
    return {
      'accounts.add': { name: 'Acme' },
      'accounts.list': {},
      'accounts.plan': { account: 'Acme', plan: 'pro' },
      'accounts.pause': { account: 'Acme', paused: true },
      'admin.create': { email: 'ana@acme.test' },
      'admin.reset': { email: 'ana@acme.test' },
      'team.add': { email: 'bo@acme.test', role: 'support', accounts: ['Acme'] },
      'team.link': { member: 'bo@acme.test' },
      'team.list': {},
      'team.change': { member: 'bo@acme.test', role: 'read_only' },
      'team.remove': { member: 'bo@acme.test' },
      'queue.hold': { domain: 'dest.test' },
      'queue.limit': { lane: LANE, connections: 1 },
      'queue.holds': {},
      'queue.lanes': {},
      'queue.lane': { lane: LANE },
      'queue.list': {},
      'queue.senders': { by: 'tag' },
      'queue.sources': {},
      'queue.watch': { lane: LANE },
      'queue.release': { domain: 'dest.test' },
      'queue.unblock': {},
      needs: {},
      'messages.trace': { id: waiting },
      'queue.flush': { all: true },
      resolve: { domain: 'dest.test' },
      doctor: { checks: ['secret_key'] },
      books: {},
      'backup.state': {},
      'tls.reload': {},
      'nodes.list': {},
      'nodes.drain': { node: 'office' },
      'nodes.resume': { node: 'office' },
      'nodes.remove': { node: 'office', force: true },
      'inbound.selfTest': {},
      'inbound.simulate': { to: 'a@acme.test', from: 'b@dest.test', mail: '' },
      'inbound.unverified': {},
      'inbound.show': { id: REPORT },
      'inbound.confirm': { id: REPORT },
      'suppressions.import': { entries: [entry, { email: 'no address' }] },
      reputation: {},
      stats: { by: 'account' },
      'audit.note': { operation: 'backup.create', object: 'x' },
      'audit.list': { server: true, account: 'default' },
      'audit.show': { id: '' },
      'queue.cancel': { domain: 'other.test' },
      'recipients.erase': { email: 'b@other.test' },
      'accounts.remove': { account: 'Acme', exported: true },
    };
  }
  /** A node cannot remove itself, and a server of SQLite is alone. */
  const refused = new Set(['nodes.remove', ...(isOnPostgres ? [] : ['nodes.drain', 'nodes.resume'])]);

  it('is what its schema says', async () => {
    const asked = await filled();
    assert.deepEqual(
      Object.keys(asked).sort(),
      serverRoutes(office.deps)
        .map(({ operationId }) => operationId)
        .sort(),
    );
    for (const [name, args] of Object.entries(asked) as [OperationName, never][]) {
      const [line] = name === 'audit.show' ? await office.audit() : [];
      const run = office.run(name, line === undefined ? args : { id: line.id });
      if (refused.has(name)) await assert.rejects(run, { code: 'invalid_state' });
      // Office holds each answer against the schema.
      else await run;
    }
  });
});
