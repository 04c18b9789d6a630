import assert from 'node:assert/strict';
import fc from 'fast-check';
import { balance } from '../../../src/messages/store/books.ts';
import { createRecorder, type Recorder } from '../../../src/messages/delivery/record.ts';
import type { DeliveryChange, Outcome } from '../../../src/messages/delivery/delivery.ts';
import type { AttemptRow, DeliveryRow, EventRow, MessageRow, SuppressionRow } from '../../../src/storage/tables.ts';
import { ERASED_ADDRESS } from '../../../src/mail/address.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { ACCOUNT, HOUR, NOW, acceptedMail } from '../../support/harness/mail-rows.ts';
import { accepted, deferred, factsOf, failed, refused, uncertain } from '../../support/harness/outcomes.ts';
import { tables, type TableName } from '../../../src/storage/tables.ts';
import { openTempDatabase, ROW_ORDER, type TempDatabase } from '../../support/harness/temp-database.ts';

const EPOCH = 7;
const claimed: DeliveryChange = { kind: 'claimed', epoch: EPOCH, leaseUntil: NOW + HOUR };
const outcome = (of: Outcome, attempt = 1): DeliveryChange => ({ kind: 'outcome', epoch: EPOCH, attempt, outcome: of });
const bounceMail: DeliveryChange = {
  kind: 'bounced',
  verdict: { class: 'hard', reason: 'mailbox_not_found' },
  smtpCode: 550,
  enhancedCode: '5.1.1',
  smtpReply: 'unknown',
};
const complaint: DeliveryChange = {
  kind: 'complained',
  feedbackType: 'abuse',
  source: 'arf',
  arrivalDate: NOW,
  userAgent: null,
};
/** Longer after a delivery than a machine waits. */
const LOOKED = NOW + 3000;
const opened = (bot: 'scanner' | null = null, at = LOOKED): DeliveryChange => ({
  kind: 'opened',
  hit: { at, ip: '192.0.2.1', userAgent: 'Reader', bot },
  client: null,
  os: null,
  device: null,
});

describe('messages/record', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let recorder: Recorder;
  let rings = 0;

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    rings = 0;
    recorder = createRecorder({ commit: temp.db.commit, clock, written: () => rings++ });
    await temp.db.commit.insert({ accounts: [{ id: ACCOUNT, name: 'acme', plan: 'pro', created_at: NOW, paused: 0 }] });
  });
  afterEach(async () => {
    const books = await balance(temp.db.reader);
    await temp.close();
    assert.deepEqual(books.faults, []);
  });

  const accept = async (...changes: Partial<DeliveryRow>[]): Promise<string[]> => {
    const { rows, deliveries } = acceptedMail(...(changes.length === 0 ? [{}] : changes));
    await temp.db.commit.insert(rows);
    return deliveries.map(({ id }) => id);
  };
  const record = (deliveryId: string, ...changes: DeliveryChange[]) =>
    recorder.record(changes.map((change) => ({ deliveryId, change })));
  const all = <Row>(table: TableName, order = ROW_ORDER): Promise<Row[]> =>
    temp.db.prepared.all(
      `SELECT ${[...tables[table].names, ...(table === 'events' ? ['sequence'] : [])].join(', ')} FROM ${table} ORDER BY ${order}`,
    );
  const delivery = async (id: string): Promise<DeliveryRow> => {
    const [row] = await temp.db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE id = ?', [id]);
    assert.ok(row);
    return row;
  };
  const message = async (): Promise<MessageRow> => (await all<MessageRow>('messages'))[0]!;
  const counts = async (): Promise<Record<string, number>> => {
    const rows = await temp.db.prepared.all<{ way: string; n: number }>(
      "SELECT from_status || ' ' || to_status AS way, sum(n) AS n FROM counters GROUP BY 1 ORDER BY 1",
    );
    return Object.fromEntries(rows.map(({ way, n }) => [way, n]));
  };

  it('counts what happens later in the hour of the mail, and a recipient who was put off once', async () => {
    const [id = ''] = await accept();
    for (const result of [deferred(NOW + HOUR), deferred(NOW + 2 * HOUR), accepted()]) {
      const attempt = (await delivery(id)).attempt_count + 1;
      await record(id, claimed, outcome(result, attempt));
      clock.advance(HOUR);
    }
    await record(id, opened(null, clock.now()), complaint);
    assert.deepEqual(
      await temp.db.prepared.all(
        "SELECT at, sent, deferred, delivered, unique_opened, complained FROM event_counts WHERE span = 'whole_hour'",
      ),
      [{ at: NOW - (NOW % HOUR), sent: 1, deferred: 1, delivered: 1, unique_opened: 1, complained: 1 }],
    );
  });

  it('counts by the source that mail left from: tries, ends, and what comes back later: what bounces then was not delivered', async () => {
    const bySource = () =>
      temp.db.prepared.all<Record<string, unknown>>(
        "SELECT tag, sum(sent) AS tries, sum(delivered) AS delivered, sum(deferred) AS deferred, sum(bounced) AS bounced, sum(complained) AS complained, sum(opened) AS opened FROM event_counts WHERE span = 'source_day' GROUP BY tag ORDER BY tag",
      );
    const [one = '', two = '', three = ''] = await accept(
      {},
      { address: 'bo@dest.test', lead: 0 },
      { address: 'cy@dest.test', lead: 0 },
    );
    await record(
      one,
      claimed,
      outcome({
        kind: 'deferred',
        facts: factsOf({ source: 'out1' }),
        verdict: { class: 'soft', reason: 'other' },
        retryAt: NOW + HOUR,
      }),
    );
    clock.advance(HOUR);
    await record(
      one,
      { kind: 'claimed', epoch: EPOCH, leaseUntil: NOW + 2 * HOUR },
      outcome(accepted({ source: 'out1' }), 2),
    );
    await record(two, claimed, outcome(accepted({ source: 'out2' })));
    // The address that the system chooses has no name.
    await record(three, claimed, outcome(accepted()));
    clock.advance(LOOKED - NOW);
    // In one group with what counts against a source, what only a reader did must not.
    await Promise.all([record(one, complaint), record(two, opened())]);
    await record(two, bounceMail);
    assert.deepEqual(await bySource(), [
      { tag: 'out1', tries: 2, delivered: 1, deferred: 1, bounced: 0, complained: 1, opened: 0 },
      { tag: 'out2', tries: 1, delivered: 0, deferred: 0, bounced: 1, complained: 0, opened: 0 },
    ]);
  });

  it('writes a delivery’s whole way: row, attempt, events, message and books in step', async () => {
    const [id] = await accept();
    clock.advance(10);
    const [claim] = await record(id!, claimed);
    assert.deepEqual([claim?.applied, claim?.state?.attemptCount], [true, 1]);
    const between = await delivery(id!);
    assert.deepEqual([between.status, between.claim_epoch, between.due_at], ['sent', EPOCH, NOW + HOUR]);
    clock.advance(300);
    await record(id!, outcome(accepted()));

    const row = await delivery(id!);
    assert.deepEqual(
      [
        row.status,
        row.status_at,
        row.due_at,
        row.claim_epoch,
        row.attempt_count,
        row.smtp_code,
        row.enhanced_code,
        row.smtp_reply,
        row.mx,
        row.tls,
      ],
      ['delivered', NOW + 310, null, null, 1, 250, '2.0.0', '2.0.0 OK', 'mx1.dest.test', 'TLSv1.3'],
    );
    const [attempt, ...more] = await all<AttemptRow>('attempts');
    assert.equal(more.length, 0);
    assert.deepEqual(
      { ...attempt, id: '' },
      {
        id: '',
        delivery_id: id,
        message_id: row.message_id,
        number: 1,
        started_at: NOW,
        ended_at: NOW + 310,
        mx: 'mx1.dest.test',
        ip: '192.0.2.25',
        source: null,
        tls_json: JSON.stringify(factsOf().tls),
        timings_json: '{"connect":1.5}',
        outcome: 'accepted',
        smtp_code: 250,
        enhanced_code: '2.0.0',
        smtp_reply: '2.0.0 OK',
        class: null,
        reason: null,
        next_attempt_at: null,
      },
    );
    const events = await all<EventRow & { sequence: number }>('events', 'sequence');
    assert.deepEqual(
      events.map(({ type, status, at, sequence }) => [sequence, type, status, at]),
      [
        [1, 'sent', 'sent', NOW + 10],
        [2, 'delivered', 'delivered', NOW + 310],
      ],
    );
    const { status, status_at, last_event_type, last_event_at } = await message();
    assert.deepEqual(
      [status, status_at, last_event_type, last_event_at],
      ['delivered', NOW + 310, 'delivered', NOW + 310],
    );
    assert.deepEqual(await counts(), { 'none queued': 1, 'queued sent': 1, 'sent delivered': 1 });
    assert.equal(rings, 2);
  });

  it('writes an outcome and the next claim of the same worker in one transaction', async () => {
    const [first] = await accept();
    const [second] = await accept();
    await record(first!, claimed);
    const groups = temp.db.commit.stats.groups;
    const [done, claim] = await recorder.record([
      { deliveryId: first!, change: outcome(accepted()) },
      { deliveryId: second!, change: claimed },
    ]);
    assert.deepEqual([done?.state?.status, claim?.state?.status], ['delivered', 'sent']);
    assert.equal(temp.db.commit.stats.groups, groups + 1);
  });

  it('folds several changes of one delivery in order', async () => {
    const [id] = await accept();
    await record(id!, claimed);
    const results = await record(id!, outcome(accepted()), opened(), opened('scanner'), opened(), complaint);
    assert.deepEqual(
      results.map(({ state }) => state?.status),
      ['delivered', 'delivered', 'delivered', 'delivered', 'complained'],
    );
    const row = await message();
    assert.deepEqual(
      [row.status, row.opens, row.bot_opens, row.first_opened_at, row.last_opened_at, row.last_event_type],
      ['complained', 2, 1, LOOKED, LOOKED, 'complained'],
    );
    const firsts = (await all<EventRow>('events', 'sequence')).filter(({ type }) => type === 'opened');
    assert.deepEqual(
      firsts.map(({ detail_json, machine }) => [(JSON.parse(detail_json) as { first: boolean }).first, machine]),
      [
        [true, 0],
        [false, 1],
        [false, 0],
      ],
    );
    const { reason } = (await all<SuppressionRow>('suppressions'))[0]!;
    assert.equal(reason, 'complaint');
  });

  it('counts one first open where two recipients open it in the same commit', async () => {
    const ids = await accept({}, {});
    for (const id of ids) await record(id, claimed, outcome(accepted()));
    await recorder.record(ids.map((deliveryId) => ({ deliveryId, change: opened() })));
    const firsts = (await all<EventRow>('events', 'sequence')).filter(({ type }) => type === 'opened');
    assert.deepEqual(
      firsts.map(({ detail_json }) => (JSON.parse(detail_json) as { first: boolean }).first),
      [true, false],
    );
    assert.equal((await message()).opens, 2);
  });

  it('keeps the first time it was opened', async () => {
    const [id] = await accept();
    await record(id!, claimed, outcome(accepted()), opened());
    clock.advance(5000);
    await record(id!, opened(null, NOW + 5000));
    const row = await message();
    assert.deepEqual([row.opens, row.first_opened_at, row.last_opened_at], [2, LOOKED, NOW + 5000]);
  });

  it('flags what opens a mail that has hardly arrived, and what machines do is no news of the message', async () => {
    const [id] = await accept();
    await record(id!, claimed);
    await record(id!, opened(null, NOW));
    await record(id!, outcome(accepted()));
    await record(id!, opened(null, clock.now() + 1999));
    const row = await message();
    assert.deepEqual([row.opens, row.bot_opens, row.last_event_type], [0, 2, 'delivered']);
    const seen = (await all<EventRow>('events', 'sequence')).filter(({ type }) => type === 'opened');
    assert.deepEqual(
      seen.map(({ machine, detail_json }) => [machine, (JSON.parse(detail_json) as { bot: string }).bot]),
      [
        [1, 'prefetch'],
        [1, 'prefetch'],
      ],
    );
    await record(id!, opened(null, clock.now() + 2000));
    assert.deepEqual([(await message()).opens, (await message()).last_event_type], [1, 'opened']);
  });

  it('unsubscribes from the stream of the message alone, in the words of the recipient', async () => {
    const [id] = await accept();
    await record(id!, claimed);
    await record(id!, { kind: 'unsubscribed', method: 'one_click' });
    const [entry] = await all<SuppressionRow>('suppressions');
    assert.deepEqual(
      [entry?.reason, entry?.scope, entry?.created_by, entry?.source_message_id],
      ['unsubscribe', 'stream:transactional', 'recipient', (await message()).id],
    );
    const event = (await all<EventRow>('events', 'sequence')).at(-1);
    assert.equal(event?.type, 'unsubscribed');
    assert.deepEqual(JSON.parse(event.detail_json), { stream: 'transactional', method: 'one_click' });
  });

  for (const reason of ['manual', 'hard_bounce', 'unsubscribe', 'complaint'] as const)
    it(`a complaint takes the place of the entry of the account with the reason ${reason}`, async () => {
      const [id] = await accept();
      const { address, address_key } = await delivery(id!);
      const more = { scope: 'account', source_message_id: null, note: null, created_by: 'operator', expires_at: null };
      const before = { id: 'sup_before', account_id: ACCOUNT, email: address, address_key, created_at: NOW };
      await record(id!, claimed, outcome(accepted()));
      await temp.db.commit.insert({ suppressions: [{ ...before, ...more, reason }] });
      await record(id!, complaint);
      const [entry, ...others] = await all<SuppressionRow>('suppressions');
      assert.deepEqual(others, []);
      const [source, by] = reason === 'complaint' ? [null, 'operator'] : [(await message()).id, 'posthorn'];
      assert.deepEqual([entry?.reason, entry?.source_message_id, entry?.created_by], ['complaint', source, by]);
    });

  it('keeps no reply, and suppresses no address, of a recipient who was erased', async () => {
    const [id] = await accept({ address: ERASED_ADDRESS, address_key: ERASED_ADDRESS });
    await record(id!, claimed, outcome(accepted()), bounceMail);
    assert.deepEqual([(await delivery(id!)).status, (await delivery(id!)).smtp_reply], ['bounced', null]);
    const texts = JSON.stringify([await all('attempts'), await all('events', 'sequence')]);
    assert.doesNotMatch(texts, /"smtp_reply\\?":\\?"/);
    assert.match(texts, /"suppression_added\\?":false/);
    assert.deepEqual(await all('suppressions'), []);
  });

  it('a complaint and a bounce of one address in one commit leave the complaint', async () => {
    const [bounced, complained] = await accept({}, { lead: 0 });
    await Promise.all([record(bounced!, claimed), record(complained!, claimed, outcome(accepted()))]);
    await Promise.all([record(bounced!, outcome(refused())), record(complained!, complaint)]);
    assert.deepEqual(
      (await all<SuppressionRow>('suppressions')).map(({ reason }) => reason),
      ['complaint'],
    );
  });

  it('knows several recipients of one message in one group; its status is that of `to`', async () => {
    const ids = await accept(
      { type: 'to' },
      { type: 'cc', address: 'bo@dest.test' },
      { type: 'bcc', address: 'cy@dest.test' },
    );
    await Promise.all(ids.map((id) => record(id, claimed)));
    assert.equal((await message()).status, 'sent');
    await Promise.all([
      record(ids[1]!, outcome(refused())),
      record(ids[0]!, outcome(deferred(NOW + HOUR))),
      record(ids[2]!, outcome(accepted()), opened()),
    ]);
    const row = await message();
    assert.deepEqual([row.status, row.opens], ['deferred', 1]);
    assert.deepEqual(await counts(), {
      'none queued': 3,
      'queued sent': 3,
      'sent bounced': 1,
      'sent deferred': 1,
      'sent delivered': 1,
    });
    assert.deepEqual((await all<EventRow>('events', 'sequence')).map(({ type }) => type).slice(3), [
      'bounced',
      'deferred',
      'delivered',
      'opened',
    ]);
  });

  it('answers for what is not there', async () => {
    assert.deepEqual(await record('dlv_00000000000000000000000000', claimed), [{ applied: false, state: null }]);
    assert.deepEqual(await recorder.record([]), []);
  });

  it('writes the rows that belong to it, or nothing of it', async () => {
    const [id] = await accept();
    await recorder.record([{ deliveryId: id!, change: { kind: 'canceled' } }], {
      settings: [{ name: 'audit', value: '1' }],
    });
    assert.equal((await delivery(id!)).status, 'canceled');
    const [other] = await accept();
    const twice = recorder.record([{ deliveryId: other!, change: { kind: 'canceled' } }], {
      settings: [{ name: 'audit', value: '2' }],
    });
    await assert.rejects(twice, /unique/i);
    assert.equal((await delivery(other!)).status, 'queued');
  });

  describe('races', () => {
    it('a bounce mail before our own note of the 250 wins; the 250 is logged only', async () => {
      const [id] = await accept();
      await record(id!, claimed);
      const [bounce, late] = await Promise.all([record(id!, bounceMail), record(id!, outcome(accepted()))]);
      assert.deepEqual([bounce[0]?.applied, late[0]?.applied], [true, false]);
      assert.deepEqual([(await delivery(id!)).status, (await message()).status], ['bounced', 'bounced']);
      assert.deepEqual(
        (await all<AttemptRow>('attempts')).map((row) => row.outcome),
        ['accepted'],
      );
      assert.deepEqual(
        (await all<EventRow>('events', 'sequence')).map(({ type }) => type),
        ['sent', 'bounced'],
      );
    });

    it('a cancel while the mail is on its way is refused, before that it stops the claim', async () => {
      const [id] = await accept();
      const [claim, cancel] = await Promise.all([record(id!, claimed), record(id!, { kind: 'canceled' })]);
      assert.deepEqual([claim[0]?.applied, cancel[0]?.applied], [true, false]);
      const [other] = await accept();
      const [first, second] = await Promise.all([record(other!, { kind: 'canceled' }), record(other!, claimed)]);
      assert.deepEqual([first[0]?.applied, second[0]?.applied], [true, false]);
    });

    it('two claims in one group: one gets it', async () => {
      const [id] = await accept();
      const results = await Promise.all([record(id!, claimed), record(id!, claimed)]);
      assert.deepEqual(
        results.map(([result]) => result?.applied),
        [true, false],
      );
      assert.equal((await delivery(id!)).attempt_count, 1);
    });

    it('the outcome of an older run of the program moves nothing', async () => {
      const [id] = await accept();
      await record(id!, claimed);
      await record(id!, { kind: 'orphaned', epoch: EPOCH, retryAt: NOW + 1000 });
      clock.advance(1000);
      await record(id!, { ...claimed, epoch: EPOCH + 1 });
      await record(id!, outcome(accepted()));
      const row = await delivery(id!);
      assert.deepEqual([row.status, row.claim_epoch, row.attempt_count], ['deferred', EPOCH + 1, 2]);
      assert.deepEqual(
        (await all<AttemptRow>('attempts')).map(({ number, outcome: of }) => [number, of]),
        [
          [1, 'uncertain'],
          [1, 'accepted'],
        ],
      );
    });

    it('what outlives its lease can be claimed again', async () => {
      const [id] = await accept();
      await record(id!, claimed);
      clock.advance(HOUR - 1);
      assert.equal((await record(id!, claimed))[0]?.applied, false);
      clock.advance(1);
      const again = await record(id!, { ...claimed, leaseUntil: NOW + 2 * HOUR });
      assert.deepEqual([again[0]?.applied, again[0]?.state?.attemptCount], [true, 2]);
    });
  });

  describe('suppression', () => {
    const suppressions = (): Promise<SuppressionRow[]> => all('suppressions');
    const listed = (changes: Partial<SuppressionRow> = {}): SuppressionRow => ({
      id: 'sup_1',
      account_id: ACCOUNT,
      email: 'ana@dest.test',
      address_key: 'ana@dest.test',
      scope: 'account',
      reason: 'manual',
      source_message_id: null,
      note: null,
      created_at: NOW,
      created_by: 'operator',
      expires_at: null,
      ...changes,
    });

    it('of an invalid address: once, with what it came from', async () => {
      const [id] = await accept();
      await record(id!, claimed, outcome(refused()));
      const [other] = await accept();
      // Accepted before the bounce and already claimed: its own bounce adds no second entry.
      await record(other!, { ...claimed }, bounceMail);
      const rows = await suppressions();
      assert.equal(rows.length, 1);
      const { reason, scope, address_key, source_message_id, created_by } = rows[0]!;
      const { message_id } = await delivery(id!);
      assert.deepEqual(
        [reason, scope, address_key, source_message_id, created_by],
        ['hard_bounce', 'account', 'ana@dest.test', message_id, 'posthorn'],
      );
    });

    it('is never added by test mail, nor does it stop test mail', async () => {
      await temp.db.commit.insert({ suppressions: [listed()] });
      const [id] = await accept({ test: 1 });
      const [claim] = await record(id!, claimed);
      assert.equal(claim?.state?.status, 'sent');
      const [other] = await accept({ test: 1, address: 'bo@dest.test', address_key: 'bo@dest.test' });
      await record(other!, claimed, outcome(refused()));
      assert.equal((await suppressions()).length, 1);
    });

    for (const [reason, entry, stops] of [
      ['for the account', {}, true],
      ['for its stream', { scope: 'stream:transactional' }, true],
      ['for another stream', { scope: 'stream:news' }, false],
      ['of another account', { account_id: 'acc_2' }, false],
      ['of another address', { address_key: 'bo@dest.test' }, false],
      ['that has ended', { expires_at: NOW }, false],
      ['that ends later', { expires_at: NOW + 1 }, true],
    ] as const) {
      it(`an entry ${reason} ${stops ? 'stops' : 'does not stop'} mail that was accepted before`, async () => {
        const [id] = await accept();
        await temp.db.commit.insert({
          accounts: [{ id: 'acc_2', name: 'other', plan: 'pro', created_at: NOW, paused: 0 }],
          suppressions: [listed(entry)],
        });
        const [claim] = await record(id!, claimed);
        assert.equal(claim?.state?.status, stops ? 'suppressed' : 'sent');
        const [event] = await all<EventRow>('events', 'sequence');
        if (stops) {
          assert.deepEqual(
            [event?.type, JSON.parse(event?.detail_json ?? '')],
            ['suppressed', { reason: 'manual', suppression_id: 'sup_1' }],
          );
          assert.equal((await message()).status, 'suppressed');
        }
      });
    }
  });

  it('cuts what a hostile server said', async () => {
    const [id] = await accept();
    await record(id!, claimed, outcome({ ...refused(), facts: factsOf({ smtpReply: 'x'.repeat(5000) }) }));
    assert.equal((await delivery(id!)).smtp_reply?.length, 1000);
    assert.equal((await all<AttemptRow>('attempts'))[0]?.smtp_reply?.length, 1000);
  });

  it('writes a full group of 500 in few statements, all of it right', async () => {
    const mails = Array.from({ length: 500 }, () => acceptedMail({}));
    await Promise.all(mails.map(({ rows }) => temp.db.commit.insert(rows)));
    const ids = mails.map(({ deliveries }) => deliveries[0]!.id);
    await Promise.all(ids.map((id) => record(id, claimed)));
    const outcomes = [accepted(), refused(), deferred(NOW + HOUR), uncertain(NOW + HOUR), failed()];
    await Promise.all(ids.map((id, at) => record(id, outcome(outcomes[at % 5]!))));
    assert.deepEqual(await temp.db.prepared.all('SELECT status, count(*) AS n FROM deliveries GROUP BY 1 ORDER BY 1'), [
      { status: 'bounced', n: 100 },
      { status: 'deferred', n: 200 },
      { status: 'delivered', n: 100 },
      { status: 'failed', n: 100 },
    ]);
    assert.deepEqual(
      await temp.db.prepared.all(
        'SELECT count(*) AS n FROM messages m JOIN deliveries d ON d.message_id = m.id WHERE d.status = m.status',
      ),
      [{ n: 500 }],
    );
  });

  it('balances the books whatever happens to whom in whatever groups', async () => {
    const ids = (
      await Promise.all(
        Array.from({ length: 6 }, (_, at) =>
          accept(
            { type: 'to', address: `a${at}@dest.test`, address_key: `a${at}@dest.test` },
            {
              type: 'cc',
              address: `b${at}@dest.test`,
              address_key: `b${at}@dest.test`,
              status: at === 0 ? 'scheduled' : 'queued',
            },
          ),
        ),
      )
    ).flat();
    const anyChange = fc.oneof(
      { weight: 3, arbitrary: fc.constant(claimed) },
      {
        weight: 4,
        arbitrary: fc
          .tuple(
            fc.constantFrom(accepted(), refused(), deferred(NOW + 60_000), uncertain(NOW + 60_000), failed()),
            fc.integer({ min: 1, max: 3 }),
          )
          .map(([of, attempt]) => outcome(of, attempt)),
      },
      fc.constantFrom<DeliveryChange>(
        { kind: 'released', epoch: EPOCH, attempt: 1, dueAt: NOW },
        { kind: 'orphaned', epoch: EPOCH, retryAt: NOW },
        { kind: 'flushed' },
        { kind: 'aged' },
        { kind: 'came_due' },
        { kind: 'canceled' },
        bounceMail,
        complaint,
        opened(),
      ),
    );
    const happened = fc.tuple(fc.constantFrom(...ids), anyChange);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(happened, { minLength: 1, maxLength: 3 }), { maxLength: 8 }),
        fc.nat({ max: 60_000 }),
        async (units, wait) => {
          clock.advance(wait);
          await Promise.all(
            units.map((unit) => recorder.record(unit.map(([deliveryId, change]) => ({ deliveryId, change })))),
          );
          const books = await balance(temp.db.reader);
          assert.deepEqual(books.faults, []);
          assert.equal(books.accepted, 12);
          const apart = await temp.db.prepared.all(
            "SELECT d.id FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.type = 'to' AND d.status <> m.status",
          );
          assert.deepEqual(apart, []);
        },
      ),
      { numRuns: 60 },
    );
  });
});
