import assert from 'node:assert/strict';
import { newId } from '../../../src/base/id.ts';
import { type MessageFilter, wordRows } from '../../../src/messages/list/message-filter.ts';
import { listMessages, type PageRequest } from '../../../src/messages/list/message-list.ts';
import {
  attemptsOf,
  contentOf,
  findAnyMessage,
  findMessage,
  recipientsOf,
} from '../../../src/messages/store/message-store.ts';
import type { AttemptRow, MessageRow } from '../../../src/storage/tables.ts';
import { ACCOUNT, NOW, contentRow, deliveryRow, messageRow } from '../../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const newest: PageRequest = { newestFirst: true, limit: 100 };

describe('messages/message-store', () => {
  let temp: TempDatabase;
  before(async () => {
    temp = await openTempDatabase();
  });
  after(() => temp.close());

  let messages: MessageRow[];
  beforeEach(async () => {
    const tables = [
      'messages',
      'deliveries',
      'attempts',
      'message_tags',
      'message_metadata',
      'message_words',
      'contents',
    ];
    await temp.db.commit.transact(async (tx) => {
      for (const table of tables) await tx.run(`DELETE FROM ${table}`);
    });
    const base = Math.max(NOW, Date.now());
    const made = (at: number, changes: Partial<MessageRow>): MessageRow => {
      const row = messageRow({ created_at: base + at * 10, ...changes });
      const id = newId('msg', base + at * 10);
      return { ...row, id, rfc_message_id: `<${id}@${row.from_domain}>` };
    };
    messages = [
      made(0, { subject: 'Your order 17', status: 'delivered', opens: 1, from_address: 'Shop@acme.test' }),
      made(1, { subject: 'Ärger mit 100%_sicher', status: 'bounced', stream: 'news', batch_id: 'bat_1' }),
      made(2, { subject: 'border control', status: 'queued', test: 1, clicks: 2, template_id: 'tpl_1' }),
      made(3, { subject: 'your ORDER', status: 'deferred', from_domain: 'acme.org', from_address: 'hi@acme.org' }),
      made(4, { subject: 'Your order', account_id: 'acc_2' }),
    ];
    const [first, second] = messages;
    await temp.db.commit.insert({
      messages,
      deliveries: messages.map(({ id }, at) =>
        deliveryRow({ message_id: id, address: `R${at}@dest.test`, address_key: `r${at}@dest.test` }),
      ),
      message_words: messages.flatMap((row) => wordRows(row.account_id, row.id, row.subject)),
      message_tags: [
        { account_id: ACCOUNT, tag: 'a', message_id: first!.id },
        { account_id: ACCOUNT, tag: 'b', message_id: first!.id },
        { account_id: ACCOUNT, tag: 'a', message_id: second!.id },
      ],
      message_metadata: [
        { account_id: ACCOUNT, name: 'order', value: '17', message_id: first!.id },
        { account_id: ACCOUNT, name: 'order', value: '18', message_id: second!.id },
      ],
    });
  });

  /** The places of the messages in the list above, as the page has them. */
  const list = async (
    filter: Partial<MessageFilter> = {},
    page: PageRequest = newest,
  ): Promise<{ found: number[]; hasMore: boolean }> => {
    const { rows, hasMore } = await listMessages(temp.db.reader, { accountId: ACCOUNT, ...filter }, page);
    return { found: rows.map(({ id }) => messages.findIndex((one) => one.id === id)), hasMore };
  };

  describe('pages', () => {
    it('are newest first or oldest first, of one account', async () => {
      assert.deepEqual(await list(), { found: [3, 2, 1, 0], hasMore: false });
      assert.deepEqual((await list({}, { ...newest, newestFirst: false })).found, [0, 1, 2, 3]);
    });

    it('go on after a message, and back before it, in the same order', async () => {
      for (const newestFirst of [true, false]) {
        const order = newestFirst ? [3, 2, 1, 0] : [0, 1, 2, 3];
        const first = await list({}, { newestFirst, limit: 2 });
        assert.deepEqual(first, { found: order.slice(0, 2), hasMore: true });
        const second = await list({}, { newestFirst, limit: 2, after: messages[order[1]!]!.id });
        assert.deepEqual(second, { found: order.slice(2), hasMore: false });
        const back = await list({}, { newestFirst, limit: 2, before: messages[order[2]!]!.id });
        assert.deepEqual(back, { found: order.slice(0, 2), hasMore: false });
        assert.equal((await list({}, { newestFirst, limit: 1, before: messages[order[2]!]!.id })).hasMore, true);
      }
    });
  });

  const filters: readonly (readonly [reason: string, filter: Partial<MessageFilter>, found: number[]])[] = [
    ['status', { status: ['bounced', 'queued'] }, [2, 1]],
    ['no status at all', { status: [] }, []],
    ['recipient, whatever its case', { to: 'r1@DEST.test' }, [1]],
    ['sender, whatever its case', { from: 'SHOP@acme.test' }, [0]],
    ['the beginnings of words in the subject', { subject: 'ord you' }, [3, 0]],
    ['words beyond ASCII as they are written', { subject: 'Ärger' }, [1]],
    ['words beyond ASCII in small letters', { subject: 'ärger' }, [1]],
    ['words beyond ASCII in capitals', { subject: 'ÄRGER' }, [1]],
    ['signs that mean something to LIKE', { subject: '100%_s' }, [1]],
    ['signs that would match anything', { subject: '%' }, []],
    ['one tag', { tag: ['a'] }, [1, 0]],
    ['several tags, all of them', { tag: ['a', 'b'] }, [0]],
    ['metadata', { metadata: { order: '18' } }, [1]],
    ['metadata of another name', { metadata: { size: '18' } }, []],
    ['template', { template_id: 'tpl_1' }, [2]],
    ['batch', { batch_id: 'bat_1' }, [1]],
    ['stream', { stream: 'news' }, [1]],
    ['domain', { domain: 'acme.org' }, [3]],
    ['opened', { opened: true }, [0]],
    ['not clicked', { clicked: false }, [3, 1, 0]],
    ['test', { test: true }, [2]],
    ['a text that is no address', { to: "' OR 1=1 --" }, []],
    ['two things at once', { tag: ['a'], status: ['delivered'] }, [0]],
  ];
  for (const [reason, filter, found] of filters) {
    it(`are filtered by ${reason}`, async () => {
      assert.deepEqual((await list(filter)).found, found);
    });
  }

  it('are filtered by a half-open range of times', async () => {
    const [, second, third] = messages;
    assert.deepEqual((await list({ created_after: second!.created_at })).found, [3, 2, 1]);
    assert.deepEqual((await list({ created_before: third!.created_at })).found, [1, 0]);
    assert.deepEqual((await list({ created_after: second!.created_at, created_before: third!.created_at })).found, [1]);
    assert.deepEqual((await list({ created_after: Number.MAX_SAFE_INTEGER })).found, []);
  });

  it('are filtered by the Message-ID', async () => {
    assert.deepEqual((await list({ rfc_message_id: messages[2]!.rfc_message_id })).found, [2]);
  });

  describe('one message', () => {
    it('is found by its account, and by the operator', async () => {
      const { id } = messages[4]!;
      assert.equal(await findMessage(temp.db.reader, { accountId: ACCOUNT, onlyTest: false }, id), undefined);
      assert.equal((await findMessage(temp.db.reader, { accountId: 'acc_2', onlyTest: false }, id))?.id, id);
      assert.equal((await findAnyMessage(temp.db.reader, id))?.id, id);
      assert.equal(await findAnyMessage(temp.db.reader, 'msg_none'), undefined);
    });

    it('has its content', async () => {
      const content = contentRow({ html: '<p>ž</p>' });
      await temp.db.commit.insert({ contents: [content] });
      assert.deepEqual(await contentOf(temp.db.reader, content.id), content);
      assert.equal(await contentOf(temp.db.reader, 'cnt_none'), undefined);
    });

    it('shows its recipients: what the last server said, and when they are tried again', async () => {
      const { id } = messageRow();
      await temp.db.commit.insert({
        deliveries: [
          deliveryRow({
            message_id: id,
            status: 'deferred',
            due_at: NOW + 1000,
            attempt_count: 2,
            smtp_code: 451,
            enhanced_code: '4.3.0',
            smtp_reply: 'later',
            mx: 'mx1',
          }),
          deliveryRow({ message_id: id, type: 'cc', status: 'sent', due_at: NOW + 9000, claim_epoch: 1 }),
        ],
      });
      const [to, cc] = await recipientsOf(temp.db.reader, id);
      assert.deepEqual(to, {
        email: 'ana@dest.test',
        type: 'to',
        status: 'deferred',
        status_at: '2026-01-31T09:30:00.000Z',
        attempt_count: 2,
        next_attempt_at: '2026-01-31T09:30:01.000Z',
        smtp: { code: 451, enhanced: '4.3.0', reply: 'later', mx: 'mx1', tls: null },
      });
      assert.deepEqual(
        [cc?.type, cc?.next_attempt_at, cc?.smtp],
        ['cc', null, null],
        'a lease is no time of a next try',
      );
    });

    it('shows its last attempts, oldest first', async () => {
      const { id } = messageRow();
      const delivery = deliveryRow({ message_id: id });
      const attempt = (number: number): AttemptRow => ({
        id: newId('att', NOW + number),
        delivery_id: delivery.id,
        message_id: id,
        number,
        started_at: NOW,
        ended_at: NOW + 5,
        mx: 'mx1',
        ip: '192.0.2.1',
        source: null,
        tls_json: number === 1 ? null : '{"protocol":"TLSv1.3","cipher":"X","verified":false,"policy":"opportunistic"}',
        timings_json: '{"connect":1.5}',
        outcome: 'deferred',
        smtp_code: 451,
        enhanced_code: null,
        smtp_reply: 'later',
        class: 'soft',
        reason: 'other',
        next_attempt_at: NOW + 60_000,
      });
      await temp.db.commit.insert({
        deliveries: [delivery],
        attempts: Array.from({ length: 25 }, (_, at) => attempt(at + 1)),
      });
      const shown = await attemptsOf(temp.db.reader, id);
      assert.deepEqual(
        shown.map(({ number }) => number),
        Array.from({ length: 20 }, (_, at) => at + 6),
      );
      const { tls, timings_ms, recipient, next_attempt_at } = shown[0]!;
      assert.deepEqual(tls, { protocol: 'TLSv1.3', cipher: 'X', verified: false, policy: 'opportunistic' });
      assert.deepEqual(timings_ms, { dns: 0, connect: 1.5, banner: 0, tls: 0, mail: 0, rcpt: 0, data: 0, dot: 0 });
      assert.deepEqual([recipient, next_attempt_at], ['ana@dest.test', '2026-01-31T09:31:00.000Z']);
    });
  });
});
