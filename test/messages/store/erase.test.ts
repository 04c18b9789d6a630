/** Erasing a person, on the tables themselves: every column that may name a person, and the rows of others beside it. */
import assert from 'node:assert/strict';
import { newId } from '../../../src/base/id.ts';
import { createRecorder } from '../../../src/messages/delivery/record.ts';
import { erasePerson } from '../../../src/messages/store/erase.ts';
import type { Rows } from '../../../src/storage/rows.ts';
import { tables } from '../../../src/storage/tables.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { ACCOUNT, contentRow, deliveryRow, messageRow, NOW } from '../../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const OTHER_ACCOUNT = 'acc_00000000000000000000000002';

describe('messages/store/erase', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  /** The delivery to the other recipient, whom the message is to. */
  const others = (messageId: string) => ({
    id: newId('dlv', NOW),
    message_id: messageId,
    type: 'to' as const,
    name: null,
    address: 'team@dest.test',
    address_key: 'team@dest.test',
    smtp_reply: null,
  });

  /** Mail to a person with their address wherever an address may be: `place` is the member that they are a recipient of. */
  function mailTo(person: string, place: 'to' | 'cc' | 'bcc', accountId = ACCOUNT): Rows {
    const address = `${person}@dest.test`;
    const content = contentRow({ account_id: accountId, text: `Dear ${person}`, html: null });
    const message = messageRow({
      account_id: accountId,
      content_id: content.id,
      to_name: place === 'to' ? person : null,
      to_address: place === 'to' ? address : 'team@dest.test',
      cc_json: place === 'cc' ? JSON.stringify([[person, address]]) : '[]',
      bcc_json: place === 'bcc' ? JSON.stringify([[person, address]]) : '[]',
      subject: place === 'to' ? `Hello ${person}` : 'Hello',
      metadata_json: place === 'to' ? JSON.stringify({ customer: person }) : '{}',
      status: 'bounced',
    });
    const delivery = deliveryRow({
      message_id: message.id,
      account_id: accountId,
      type: place,
      name: person,
      address,
      address_key: address,
      status: 'bounced',
      due_at: null,
      smtp_reply: `<${address}> no such user`,
    });
    const of = { message_id: message.id, delivery_id: delivery.id };
    return {
      contents: [content],
      messages: [message],
      deliveries: [delivery, ...(place === 'to' ? [] : [{ ...delivery, ...others(message.id) }])],
      message_metadata:
        place === 'to' ? [{ account_id: accountId, name: 'customer', value: person, message_id: message.id }] : [],
      message_words: place === 'to' ? [{ account_id: accountId, word: person, message_id: message.id }] : [],
      attempts: [
        {
          ...of,
          ...{
            id: newId('att', NOW),
            number: 1,
            started_at: NOW,
            ended_at: NOW,
            outcome: 'refused',
            timings_json: '{}',
          },
          ...{ mx: null, ip: null, source: null, tls_json: null, smtp_code: 550, enhanced_code: null },
          ...{ smtp_reply: `<${address}> no such user`, class: 'hard', reason: 'other', next_attempt_at: null },
        },
      ],
      events: [
        {
          ...of,
          ...{ id: newId('evt', NOW), account_id: accountId, type: 'bounced', at: NOW, test: 0, status: 'bounced' },
          ...{ machine: 0, detail_json: JSON.stringify({ class: 'hard', smtp_reply: `<${address}> no such user` }) },
        },
      ],
      reports: [
        {
          ...of,
          ...{ id: newId('rep', NOW), received_at: NOW, client_ip: '192.0.2.1', sender: '', recipients_json: '[]' },
          ...{ size: 3, state: 'done', kind: 'bounce', account_id: accountId, detail_json: '{}' },
          raw: Buffer.from(`about ${address}`),
        },
      ],
      request_details: [
        {
          ...{ request_id: newId('req', NOW), account_id: accountId, query: `to=${address}` },
          ...{ error_message: null, body: null },
        },
      ],
    };
  }

  const erase = (): Promise<{ recipients: number }> => {
    const clock = new FakeClock(NOW);
    const recorder = createRecorder({ commit: temp.db.commit, clock, written: () => undefined });
    const deps = { db: temp.db, recorder, requestsWritten: () => Promise.resolve() };
    return erasePerson(deps, { accountId: ACCOUNT, onlyTest: false }, 'Gone@dest.test');
  };

  /** The number of rows of each table that have this text anywhere. */
  async function naming(text: string): Promise<Record<string, number>> {
    const found: Record<string, number> = {};
    for (const name of Object.keys(tables)) {
      const rows = await temp.db.reader<Record<string, unknown>>(name);
      const texts = rows.map((row) =>
        Object.values(row)
          .map((value) => (Buffer.isBuffer(value) ? value.toString() : String(value)))
          .join(' '),
      );
      const count = texts.filter((one) => one.includes(text)).length;
      if (count > 0) found[name] = count;
    }
    return found;
  }

  for (const place of ['to', 'cc', 'bcc'] as const)
    it(`leaves nothing of a person in ${place}, and all of others`, async () => {
      for (const rows of [mailTo('gone', place), mailTo('stays', place), mailTo('gone', place, OTHER_ACCOUNT)])
        await temp.db.commit.insert(rows);
      const before = await naming('stays');
      assert.deepEqual(await erase(), { recipients: 1 });
      assert.deepEqual(await naming('stays'), before);
      // The body of a mail to someone else stays, also with what the account wrote there about the person.
      const { contents: ownBody = 0, ...left } = await naming('gone');
      assert.deepEqual(
        { ...left, contents: ownBody - (place === 'to' ? 0 : 1) },
        before,
        'only those of the other account',
      );
    });

  it('takes the body once its last recipient is erased, whoever was erased first', async () => {
    const rows = mailTo('gone', 'cc');
    await temp.db.commit.insert({ ...rows, deliveries: rows.deliveries?.slice(0, 1) ?? [] });
    await erase();
    assert.deepEqual(await naming('Dear'), {});
  });
});
