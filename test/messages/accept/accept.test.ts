import { auditRow } from '../../../src/operations/audit-row.ts';
import { StorageUnavailable } from '../../../src/storage/commit.ts';
import assert from 'node:assert/strict';
import { createNotifier } from '../../../src/scheduling/notifier.ts';
import { Problem } from '../../../src/base/problem.ts';
import type { Mailbox } from '../../../src/mail/address.ts';
import { acceptBulk, acceptSingle, type AcceptDeps } from '../../../src/messages/accept/accept.ts';
import type { DueHint } from '../../../src/messages/delivery/due-hint.ts';
import type { Sender } from '../../../src/messages/accept/may-send.ts';
import { balance } from '../../../src/messages/store/books.ts';
import type { BulkDraft, MessageContent, MessageDraft } from '../../../src/messages/request/message-draft.ts';
import type { Rows } from '../../../src/storage/rows.ts';
import type {
  AuditRow,
  CounterRow,
  DeliveryRow,
  EventRow,
  IdempotencyRow,
  MessageRow,
} from '../../../src/storage/tables.ts';
import { addSuppression, findSuppressed } from '../../../src/suppressions/suppression-store.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { ACCOUNT, HOUR, NOW } from '../../support/harness/mail-rows.ts';
import { databaseBytes, openTempDatabase, ROW_ORDER, type TempDatabase } from '../../support/harness/temp-database.ts';

const mailbox = (address: string, name: string | null = null): Mailbox => {
  const at = address.lastIndexOf('@');
  return { name, address, local: address.slice(0, at), domain: address.slice(at + 1) };
};
const contentOf = (html = '<p>hi</p>'): MessageContent => ({ html, text: null, autoText: true, attachments: [] });
const draftOf = (changes: Partial<MessageDraft> = {}): MessageDraft => ({
  from: mailbox('hi@acme.test', 'Acme ž'),
  to: mailbox('Ana@dest.test', 'Ana'),
  cc: [],
  bcc: [],
  replyTo: [],
  subject: 'Welcome 💌',
  content: contentOf(),
  headers: [],
  tags: [],
  metadata: {},
  sendAt: null,
  expiresAt: null,
  stream: null,
  trackOpens: null,
  trackClicks: null,
  unsubscribe: null,
  onSuppressed: 'accept',
  test: null,
  ...changes,
});
const bulkOf = (drafts: readonly MessageDraft[], changes: Partial<BulkDraft> = {}): BulkDraft => ({
  kind: 'bulk',
  onError: 'skip',
  allowDuplicates: false,
  entries: drafts.map((draft, index) => ({ kind: 'ok', index, draft })),
  ...changes,
});
const sender: Sender = { accountId: ACCOUNT, keyId: 'key_1', mode: 'live', domains: [], requestId: 'req_1' };
const nothing = (): Rows => ({});

const idempotencyRow = (key: string): IdempotencyRow => ({
  key,
  body_hash: 'h',
  status: 202,
  headers_json: '{}',
  body: '{}',
  created_at: NOW,
  expires_at: NOW + HOUR,
  key_id: null,
});
const sendRow = (id: string): AuditRow => ({
  ...auditRow({
    at: NOW,
    accountId: ACCOUNT,
    keyId: 'key_1',
    actor: 'key:x',
    method: 'POST',
    endpoint: '/v1/messages',
    status: 202,
    requestId: 'req_1',
    operation: 'sendMessage',
  }),
  id,
});

describe('messages/accept', () => {
  let temp: TempDatabase;
  let deps: AcceptDeps;
  let hints: (readonly DueHint[])[];
  let eventRings = 0;
  const asked: string[] = [];

  let hasRoom = true;
  beforeEach(async () => {
    temp = await openTempDatabase();
    const clock = new FakeClock(NOW);
    const { db } = temp;
    await db.commit.insert({ accounts: [{ id: ACCOUNT, name: 'acme', plan: 'pro', created_at: NOW, paused: 0 }] });
    hints = [];
    eventRings = 0;
    asked.length = 0;
    const notifiers = { deliveries: createNotifier<readonly DueHint[]>(), events: createNotifier() };
    notifiers.deliveries.listen((heard) => hints.push(heard));
    notifiers.events.listen(() => eventRings++);
    deps = {
      commit: db.commit,
      clock,
      notifiers,
      findStream: async (_, slug) => {
        asked.push(`stream ${slug}`);
        if (slug === 'transactional') return { priority: 0, paused: 0 };
        return slug === 'news' ? { priority: 1, paused: 0 } : null;
      },
      trackingRule: async () => ({ opens: false, clicks: false, base: 'https://mail.posthorn.test' }),
      isVerified: async (_, domain) => {
        asked.push(`domain ${domain}`);
        return domain === 'acme.test';
      },
      findSuppressed: (questions) => {
        asked.push(...questions.map(({ addressKeys }) => `suppressed ${addressKeys.length}`));
        return findSuppressed(db.prepared, clock.now(), questions);
      },
      hasRoom: () => hasRoom,
      retry: { maxAge: 72 * HOUR, rules: [] },
      simulatorDomain: 'simulator.posthorn.test',
    };
  });
  afterEach(() => {
    hasRoom = true;
  });
  afterEach(async () => {
    const books = await balance(temp.db.reader);
    await temp.close();
    assert.deepEqual(books.faults, []);
  });

  describe('tracking and unsubscribing', () => {
    const columns = (): Promise<Record<string, unknown>[]> =>
      temp.db.prepared.all(
        'SELECT track_opens, track_clicks, tracking_url, unsubscribe_json FROM messages ORDER BY ' + ROW_ORDER,
      );
    const BASE = 'https://mail.posthorn.test';
    const hosted = '{"url":null,"mailto":null,"oneClick":true}';

    for (const [changes, rule, stream, expected, why] of [
      [{}, {}, 'transactional', [0, 0, null, null], 'nothing by default'],
      [{}, { opens: true }, 'transactional', [1, 0, BASE, null], 'as domain or account say'],
      [
        { trackOpens: false, trackClicks: true },
        { opens: true },
        'transactional',
        [0, 1, BASE, null],
        'the send over them',
      ],
      [{ stream: 'news' }, {}, 'broadcast', [0, 0, BASE, hosted], 'a way out of a broadcast stream'],
      [{ stream: 'news', unsubscribe: false }, {}, 'broadcast', [0, 0, null, null], 'none where the send says so'],
      [
        { unsubscribe: { url: 'https://a.test/', mailto: null, oneClick: false } },
        {},
        'transactional',
        [0, 0, BASE, '{"url":"https://a.test/","mailto":null,"oneClick":false}'],
        'one of its own',
      ],
    ] as const) {
      it(`stores ${why}`, async () => {
        deps.trackingRule = async () => ({ opens: false, clicks: false, base: BASE, ...rule });
        deps.findStream = async () => ({ priority: 0, paused: 0, type: stream });
        await acceptSingle(deps, sender, draftOf(changes), nothing);
        assert.deepEqual(
          (await columns()).map((row) => Object.values(row)),
          [expected],
        );
      });
    }

    it('asks once for each sending domain of a bulk send', async () => {
      const domains: string[] = [];
      deps.trackingRule = async (accountId, domain) => {
        domains.push(`${accountId} ${domain}`);
        return { opens: true, clicks: false, base: BASE };
      };
      await acceptBulk(deps, sender, bulkOf([draftOf(), draftOf({ to: mailbox('bo@dest.test') })]), nothing);
      assert.deepEqual(domains, [`${ACCOUNT} acme.test`]);
      assert.deepEqual(
        (await columns()).map(({ track_opens }) => track_opens),
        [1, 1],
      );
    });
  });

  const all = <Row>(table: string): Promise<Row[]> =>
    temp.db.prepared.all(`SELECT * FROM ${table} ORDER BY ${ROW_ORDER}`);
  const suppress = (email: string, stream: string | null = null) =>
    addSuppression(
      { db: temp.db, clock: deps.clock },
      { accountId: ACCOUNT, email, stream, reason: 'manual', createdBy: 'operator' },
    );
  const problemOf = async (promise: Promise<unknown>): Promise<{ code: string; field: string | null }> => {
    try {
      await promise;
    } catch (error) {
      assert.ok(error instanceof Problem, String(error));
      return { code: error.code, field: error.field };
    }
    assert.fail('was accepted');
  };
  const nothingStored = async (): Promise<void> => {
    for (const table of [
      'messages',
      'deliveries',
      'contents',
      'batches',
      'events',
      'counters',
      'message_tags',
      'audit',
    ]) {
      assert.deepEqual(await all(table), [], table);
    }
    assert.deepEqual(hints, []);
  };

  describe('without room', () => {
    it('refuses while the disk is too full, and stores nothing', async () => {
      hasRoom = false;
      assert.equal((await problemOf(acceptSingle(deps, sender, draftOf({}), nothing))).code, 'service_unavailable');
      await nothingStored();
    });

    for (const [name, error, code] of [
      ['a full disk', Object.assign(new Error('full'), { code: 'SQLITE_FULL' }), 'service_unavailable'],
      ['too many writes waiting', new StorageUnavailable('busy'), 'service_unavailable'],
    ] as const) {
      it(`answers ${code} for ${name}`, async () => {
        const commit = { ...deps.commit, submit: () => Promise.reject(error) };
        assert.equal((await problemOf(acceptSingle({ ...deps, commit }, sender, draftOf({}), nothing))).code, code);
      });
    }

    it('lets a broken constraint through as the bug it is', async () => {
      const error = Object.assign(new Error('unique'), { code: 'SQLITE_CONSTRAINT' });
      const commit = { ...deps.commit, submit: () => Promise.reject(error) };
      await assert.rejects(acceptSingle({ ...deps, commit }, sender, draftOf({}), nothing), error);
    });
  });

  describe('a single message', () => {
    it('is stored with all it says, once for each recipient, and rung for', async () => {
      const draft = draftOf({
        cc: [mailbox('bo@dest.test', 'Bo')],
        bcc: [mailbox('cy@elsewhere.test')],
        replyTo: [mailbox('help@acme.test')],
        headers: [['X-Order', '17']],
        tags: ['a', 'b'],
        metadata: { order: '17' },
      });
      const record = await acceptSingle(deps, sender, draft, nothing);
      const [message] = await all<MessageRow>('messages');
      const deliveries = await all<DeliveryRow>('deliveries');
      assert.equal(record.id, message?.id);
      assert.deepEqual([record.status, record.to, record.cc], ['queued', 'Ana <Ana@dest.test>', ['Bo <bo@dest.test>']]);
      assert.deepEqual(
        [
          message?.subject,
          message?.from_name,
          message?.headers_json,
          message?.bcc_json,
          message?.key_id,
          message?.request_id,
          message?.test,
        ],
        ['Welcome 💌', 'Acme ž', '[["X-Order","17"]]', '[[null,"cy@elsewhere.test"]]', 'key_1', 'req_1', 0],
      );
      assert.equal(message?.rfc_message_id, `<${record.id}@acme.test>`);
      assert.deepEqual(
        deliveries.map(({ type, address, address_key, domain, status, due_at, give_up_at, message_id }) => [
          type,
          address,
          address_key,
          domain,
          status,
          due_at,
          give_up_at,
          message_id === record.id,
        ]),
        [
          ['to', 'Ana@dest.test', 'ana@dest.test', 'dest.test', 'queued', NOW, NOW + 72 * HOUR, true],
          ['cc', 'bo@dest.test', 'bo@dest.test', 'dest.test', 'queued', NOW, NOW + 72 * HOUR, true],
          ['bcc', 'cy@elsewhere.test', 'cy@elsewhere.test', 'elsewhere.test', 'queued', NOW, NOW + 72 * HOUR, true],
        ],
      );
      assert.equal((await all('message_tags')).length, 2);
      assert.equal((await all('message_metadata')).length, 1);
      assert.deepEqual(
        (await all<CounterRow>('counters')).map(({ from_status, to_status, n }) => [from_status, to_status, n]),
        [['none', 'queued', 3]],
      );
      assert.deepEqual(hints, [
        [
          { domain: 'dest.test', class: 0, accountId: ACCOUNT, dueAt: NOW },
          { domain: 'elsewhere.test', class: 0, accountId: ACCOUNT, dueAt: NOW },
        ],
      ]);
      assert.equal(eventRings, 0);
    });

    it('goes once to an address that stands in two fields, whatever its case', async () => {
      await acceptSingle(
        deps,
        sender,
        draftOf({ cc: [mailbox('ana@dest.test'), mailbox('bo@dest.test')], bcc: [mailbox('BO@dest.test')] }),
        nothing,
      );
      assert.deepEqual(
        (await all<DeliveryRow>('deliveries')).map(({ type, address }) => [type, address]),
        [
          ['to', 'Ana@dest.test'],
          ['cc', 'bo@dest.test'],
        ],
      );
    });

    it('waits for its send_at, and its age counts from there', async () => {
      const record = await acceptSingle(
        deps,
        sender,
        draftOf({ sendAt: NOW + HOUR, expiresAt: NOW + 5 * HOUR }),
        nothing,
      );
      const [row] = await all<DeliveryRow>('deliveries');
      assert.deepEqual(
        [record.status, row?.status, row?.due_at, row?.queued_at, row?.give_up_at],
        ['scheduled', 'scheduled', NOW + HOUR, NOW + HOUR, NOW + 5 * HOUR],
      );
      assert.deepEqual(
        hints.flat().map(({ dueAt }) => dueAt),
        [NOW + HOUR],
      );
      assert.equal(record.send_at, '2026-01-31T10:30:00.000Z');
    });

    it('is of its stream’s class', async () => {
      await acceptSingle(deps, sender, draftOf({ stream: 'news' }), nothing);
      assert.equal((await all<DeliveryRow>('deliveries'))[0]?.class, 1);
      assert.equal(hints.flat()[0]?.class, 1);
    });

    it('has its attachments byte for byte, in order', async () => {
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      const attachment = (filename: string, content: Buffer) =>
        ({ filename, content, contentType: 'image/png', contentId: filename, disposition: 'inline' }) as const;
      const content = {
        ...contentOf(),
        attachments: [attachment('a.png', bytes), attachment('b.png', Buffer.alloc(0))],
      };
      await acceptSingle(deps, sender, draftOf({ content }), nothing);
      const rows = await all<{ filename: string; position: number; bytes: Buffer; cid: string }>('attachments');
      assert.deepEqual(
        rows.map(({ filename, position, bytes: kept, cid }) => [filename, position, kept, cid]),
        [
          ['a.png', 0, bytes, 'a.png'],
          ['b.png', 1, Buffer.alloc(0), 'b.png'],
        ],
      );
    });

    for (const [reason, by, changes, code, field] of [
      ['from a domain that is not verified', {}, { from: mailbox('hi@other.test') }, 'domain_not_verified', 'from'],
      ['from a domain that the key may not use', { domains: ['acme.org'] }, {}, 'domain_not_allowed', 'from'],
      ['on a stream that is not there', {}, { stream: 'nope' }, 'unknown_stream', 'stream'],
      [
        'from the simulator’s domain to a real address',
        {},
        { from: mailbox('hi@simulator.posthorn.test') },
        'domain_not_verified',
        'from',
      ],
    ] as const) {
      it(`is refused ${reason}, and leaves nothing`, async () => {
        assert.deepEqual(await problemOf(acceptSingle(deps, { ...sender, ...by }, draftOf(changes), nothing)), {
          code,
          field,
        });
        await nothingStored();
      });
    }
  });

  describe('simulated mail', () => {
    it('of a test key needs no verified domain and is marked throughout', async () => {
      const record = await acceptSingle(
        deps,
        { ...sender, mode: 'test' },
        draftOf({ from: mailbox('hi@other.test') }),
        nothing,
      );
      const [row] = await all<DeliveryRow>('deliveries');
      assert.deepEqual([record.test, row?.test, row?.domain], [true, 1, '~simulator']);
    });

    it('keeps the outcome that was asked for', async () => {
      await acceptSingle(deps, { ...sender, mode: 'test' }, draftOf({ test: { outcome: 'bounced' } }), nothing);
      assert.equal((await all<MessageRow>('messages'))[0]?.test_outcome, 'bounced');
    });

    it('to the simulator stands beside real mail of the same message', async () => {
      await acceptSingle(deps, sender, draftOf({ cc: [mailbox('bounced@simulator.posthorn.test')] }), nothing);
      assert.deepEqual(
        (await all<DeliveryRow>('deliveries')).map(({ test, domain }) => [test, domain]),
        [
          [0, 'dest.test'],
          [1, '~simulator'],
        ],
      );
      assert.equal((await all<MessageRow>('messages'))[0]?.test, 0);
    });

    it('asks no suppression list', async () => {
      await suppress('ana@dest.test');
      asked.length = 0;
      const record = await acceptSingle(deps, { ...sender, mode: 'test' }, draftOf(), nothing);
      assert.equal(record.status, 'queued');
      assert.deepEqual(
        asked.filter((one) => one.startsWith('suppressed')),
        [],
      );
    });
  });

  describe('suppressed recipients', () => {
    it('are accepted, told of, and never due', async () => {
      await suppress('ana@dest.test');
      const record = await acceptSingle(deps, sender, draftOf({ cc: [mailbox('bo@dest.test')] }), nothing);
      assert.deepEqual([record.status, record.last_event?.type], ['suppressed', 'suppressed']);
      assert.deepEqual(
        (await all<DeliveryRow>('deliveries')).map(({ status, due_at }) => [status, due_at]),
        [
          ['suppressed', null],
          ['queued', NOW],
        ],
      );
      const [event] = await all<EventRow>('events');
      assert.deepEqual(
        [event?.type, event?.status, (JSON.parse(event?.detail_json ?? '{}') as { reason: string }).reason],
        ['suppressed', 'suppressed', 'manual'],
      );
      assert.equal(eventRings, 1);
    });

    it('refuse the message where the sender wants that, naming the field', async () => {
      await suppress('bo@dest.test');
      const draft = draftOf({ onSuppressed: 'reject', cc: [mailbox('Bo@dest.test')] });
      assert.deepEqual(await problemOf(acceptSingle(deps, sender, draft, nothing)), {
        code: 'recipient_suppressed',
        field: 'cc',
      });
      assert.deepEqual(await all('messages'), []);
    });

    it('are found in the transaction of the mail, which goes without it and gives its quota back; others of that commit stay in it', async () => {
      await suppress('ana@dest.test');
      const settled: [number, boolean][] = [];
      const takeQuota = async (_account: string, _plan: string, mails: number) => (isAccepted: boolean) => {
        settled.push([mails, isAccepted]);
      };
      const before = temp.db.commit.stats.groups;
      const [to, plan] = [mailbox('bo@dest.test'), 'pro'];
      const records = await Promise.all([
        acceptSingle({ ...deps, takeQuota }, { ...sender, plan }, draftOf(), nothing),
        acceptSingle(deps, sender, draftOf({ to }), nothing),
      ]);
      assert.deepEqual(
        records.map(({ status }) => status),
        ['suppressed', 'queued'],
      );
      assert.deepEqual(settled, [[1, false]]);
      assert.equal((await all('messages')).length, 2);
      if (temp.db.engine === 'sqlite') assert.equal(temp.db.commit.stats.groups - before, 2);
    });

    it('of one stream get mail of another', async () => {
      await suppress('ana@dest.test', 'news');
      assert.equal((await acceptSingle(deps, sender, draftOf(), nothing)).status, 'queued');
      assert.equal((await acceptSingle(deps, sender, draftOf({ stream: 'news' }), nothing)).status, 'suppressed');
    });
  });

  describe('what has to be committed together', () => {
    it('is', async () => {
      const seen: string[] = [];
      const record = await acceptSingle(deps, sender, draftOf(), (answer) => {
        seen.push(answer.id);
        return { idempotency: [idempotencyRow('k')], audit: [sendRow('aud_1')] };
      });
      assert.deepEqual(seen, [record.id]);
      assert.equal((await all('idempotency')).length, 1);
      assert.equal((await all('audit')).length, 1);
      assert.equal(temp.db.commit.stats.failedUnits, 0);
    });

    it('leaves no trace of the mail where the idempotency key is taken', async () => {
      await temp.db.commit.insert({ idempotency: [idempotencyRow('k')] });
      const together = (): Rows => ({ idempotency: [idempotencyRow('k')], audit: [sendRow('aud_1')] });
      await assert.rejects(acceptSingle(deps, sender, draftOf({ tags: ['t'] }), together), /unique/i);
      await nothingStored();
      await assert.rejects(
        acceptBulk(deps, sender, bulkOf([draftOf(), draftOf({ to: mailbox('b@dest.test') })]), together),
        /unique/i,
      );
      await nothingStored();
    });

    it('lets exactly one of two requests with the same key through', async () => {
      const together = (): Rows => ({ idempotency: [idempotencyRow('k')] });
      const results = await Promise.allSettled([1, 2, 3].map(() => acceptSingle(deps, sender, draftOf(), together)));
      assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected']);
      assert.equal((await all('messages')).length, 1);
      assert.equal(hints.length, 1, 'nobody is rung for what was not committed');
    });

    it('cannot be rows of the mail itself', async () => {
      await assert.rejects(
        acceptSingle(deps, sender, draftOf(), () => ({ events: [] })),
        /table of the message itself/,
      );
      await nothingStored();
    });
  });

  describe('a bulk send', () => {
    it('is one transaction of messages that share their content', async () => {
      const shared = contentOf();
      const own = contentOf('<p>own</p>');
      const drafts = [
        draftOf({ content: shared }),
        draftOf({ content: shared, to: mailbox('b@dest.test') }),
        draftOf({ content: own, to: mailbox('c@dest.test') }),
      ];
      const groups = temp.db.commit.stats.groups;
      const batch = await acceptBulk(deps, sender, bulkOf(drafts), nothing);
      assert.equal(temp.db.commit.stats.groups, groups + 1);
      assert.deepEqual([batch.object, batch.accepted, batch.rejected], ['batch', 3, 0]);
      const messages = await all<MessageRow>('messages');
      assert.deepEqual(
        batch.data.map(({ id, index, status, error }) => [id, index, status, error]),
        messages.map(({ id }, index) => [id, index, 'queued', null]),
      );
      assert.ok(messages.every(({ batch_id }) => batch_id === batch.id));
      assert.equal((await all('contents')).length, 2);
      assert.equal(messages[0]?.content_id, messages[1]?.content_id);
      assert.deepEqual(hints, [[{ domain: 'dest.test', class: 0, accountId: ACCOUNT, dueAt: NOW }]]);
      assert.deepEqual(
        asked.filter((one) => one.startsWith('domain')),
        ['domain acme.test'],
        'each sender is checked once',
      );
    });

    it('of 1,000 recipients and a 50 KB body adds less than 5 MB', async () => {
      const content = contentOf('x'.repeat(50_000));
      const sizeNow = async (): Promise<number> => {
        await temp.db.commit.transact(() => Promise.resolve());
        return databaseBytes(temp.db);
      };
      const before = await sizeNow();
      const drafts = Array.from({ length: 1000 }, (_, at) =>
        draftOf({
          content,
          to: mailbox(`recipient${at}@domain${at % 50}.test`),
          tags: ['news'],
          metadata: { n: String(at) },
        }),
      );
      const batch = await acceptBulk(deps, sender, bulkOf(drafts), nothing);
      assert.equal(batch.accepted, 1000);
      const added = (await sizeNow()) - before;
      assert.ok(added < 5_000_000, `${added} bytes`);
      assert.equal(hints.flat().length, 50);
    });

    it('stores the same for each entry whether it is one of few or of many, and lets go of the drafts', async () => {
      await suppress('gone@dest.test');
      const draft = (at: number): MessageDraft =>
        draftOf({
          to: mailbox(`r${String(at)}@dest.test`),
          cc: at % 40 === 0 ? Array.from({ length: 49 }, (_, n) => mailbox(`c${String(n)}@dest.test`)) : [],
          bcc: at % 7 === 0 ? [mailbox('gone@dest.test')] : [],
          tags: ['news', `t${String(at % 3)}`],
          metadata: { at: String(at) },
        });
      const many = Array.from({ length: 130 }, (_, at) => draft(at));
      const bulk = bulkOf(many);
      const batch = await acceptBulk(deps, sender, bulk, nothing);
      assert.equal(batch.accepted, 130);
      assert.deepEqual(bulk.entries, []);
      const ids = batch.data.map(({ id }) => id);
      assert.deepEqual(
        (await all<MessageRow>('messages')).map(({ id, to_address }) => [id, to_address]),
        many.map(({ to }, at) => [ids[at], to.address]),
      );
      const recipients = many.reduce((sum, { cc, bcc }) => sum + 1 + cc.length + bcc.length, 0);
      const deliveries = await all<DeliveryRow>('deliveries');
      assert.equal(deliveries.length, recipients);
      const suppressed = deliveries.filter(({ status }) => status === 'suppressed');
      assert.equal(suppressed.length, 19);
      assert.deepEqual(
        (await all<EventRow>('events')).map(({ delivery_id }) => delivery_id),
        suppressed.map(({ id }) => id),
      );
      const count = async (table: string): Promise<unknown> =>
        (await temp.db.prepared.all<{ n: unknown }>(`SELECT count(*) AS n FROM ${table}`))[0]?.n;
      assert.deepEqual(
        [await count('message_tags'), await count('message_metadata'), await count('message_words')].map(Number),
        [260, 130, 260],
      );
    });

    it('takes as long for an entry of a long list as for one of a short list', async () => {
      const problem = new Problem('invalid_recipient', 'no address', { field: 'to' });
      const bulk = bulkOf([draftOf()]);
      for (let index = 1; index < 100_000; index++)
        bulk.entries.push({ kind: 'rejected', index, to: 'nonsense', problem });
      const before = process.cpuUsage();
      const batch = await acceptBulk(deps, sender, bulk, nothing);
      const { user, system } = process.cpuUsage(before);
      assert.deepEqual([batch.accepted, batch.rejected, batch.data[99_999]?.index], [1, 99_999, 99_999]);
      assert.ok(user + system < 1_000_000, `${String((user + system) / 1000)} ms of CPU`);
    });

    it('tells of each entry that could not be taken, and takes the others', async () => {
      await suppress('gone@dest.test');
      const problem = new Problem('invalid_recipient', 'no address', { field: 'recipients[1].to' });
      const bulk = bulkOf([draftOf(), draftOf(), draftOf({ to: mailbox('gone@dest.test'), onSuppressed: 'reject' })]);
      bulk.entries[1] = { kind: 'rejected', index: 1, to: 'nonsense', problem };
      const batch = await acceptBulk(deps, sender, bulk, nothing);
      assert.deepEqual([batch.accepted, batch.rejected], [1, 2]);
      assert.deepEqual(
        batch.data
          .slice(1)
          .map(({ index, to, id, status, error }) => [
            index,
            to,
            id,
            status,
            error?.code,
            error?.field,
            error?.request_id,
          ]),
        [
          [1, 'nonsense', null, 'rejected', 'invalid_recipient', 'recipients[1].to', 'req_1'],
          [2, 'gone@dest.test', null, 'rejected', 'recipient_suppressed', 'recipients[2].to', 'req_1'],
        ],
      );
      assert.deepEqual(
        (await all<{ accepted: number; rejected: number }>('batches')).map(({ accepted, rejected }) => [
          accepted,
          rejected,
        ]),
        [[1, 2]],
      );
    });

    it('takes nothing where the first fault is to stop it', async () => {
      await suppress('gone@dest.test');
      const bulk = bulkOf([draftOf(), draftOf({ to: mailbox('gone@dest.test'), onSuppressed: 'reject' })], {
        onError: 'abort',
      });
      assert.deepEqual(await problemOf(acceptBulk(deps, sender, bulk, nothing)), {
        code: 'recipient_suppressed',
        field: 'recipients[1].to',
      });
      await nothingStored();
    });

    it('is refused where no entry is left', async () => {
      await suppress('gone@dest.test');
      const bulk = bulkOf([draftOf({ to: mailbox('gone@dest.test'), onSuppressed: 'reject' })]);
      assert.deepEqual(await problemOf(acceptBulk(deps, sender, bulk, nothing)), {
        code: 'no_valid_recipients',
        field: 'recipients',
      });
      await nothingStored();
    });

    it('is refused as a whole where one sender may not send', async () => {
      const bulk = bulkOf([draftOf(), draftOf({ to: mailbox('b@dest.test'), from: mailbox('hi@other.test') })]);
      assert.equal((await problemOf(acceptBulk(deps, sender, bulk, nothing))).code, 'domain_not_verified');
      await nothingStored();
    });

    it('looks each stream’s addresses up at once', async () => {
      await suppress('b@dest.test', 'news');
      asked.length = 0;
      const drafts = [
        draftOf(),
        draftOf({ stream: 'news', to: mailbox('b@dest.test') }),
        draftOf({ stream: 'news', to: mailbox('c@dest.test') }),
      ];
      const batch = await acceptBulk(deps, sender, bulkOf(drafts), nothing);
      assert.deepEqual(
        batch.data.map(({ status }) => status),
        ['queued', 'suppressed', 'queued'],
      );
      assert.deepEqual(
        asked.filter((one) => one.startsWith('suppressed')),
        ['suppressed 1', 'suppressed 2'],
      );
    });

    it('lets others have their turn while its entries are built', async () => {
      let turns = 0;
      const count = (): void => {
        turns++;
        if (turns < 1000) setImmediate(count);
      };
      const drafts = Array.from({ length: 1000 }, (_, at) => draftOf({ to: mailbox(`r${at}@dest.test`) }));
      let turnsAtCommit = 0;
      setImmediate(count);
      await acceptBulk(deps, sender, bulkOf(drafts), () => {
        turnsAtCommit = turns;
        return {};
      });
      turns = 1000;
      assert.ok(turnsAtCommit >= 10, `${turnsAtCommit} turns`);
    });
  });
});
