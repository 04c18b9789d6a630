/**
 * Erases the body of one message, or a person. The facts that the books and the numbers need (that a mail was sent, when, and with which outcome)
 * remain, without its recipient or content. Mail that the delivery engine still needs is not erased: a body can be erased when its message is
 * finished, and a person's waiting mail is canceled first.
 */
import { Problem } from '../../base/problem.ts';
import { addressKey, ERASED_ADDRESS, parseMailbox, shownAddress } from '../../mail/address.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Committer } from '../../storage/commit.ts';
import { insertRows, type Rows } from '../../storage/rows.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import { text } from '../../storage/table.ts';
import type { DeliveryRow, EventRow, MessageRow } from '../../storage/tables.ts';
import { statement } from '../../storage/sql.ts';
import type { ChangeDeps } from '../delivery/change-message.ts';
import { erasedDetail } from '../../events/event.ts';
import { eraseReceivedFrom } from '../received/received-store.ts';
import type { MailReach } from './message-store.ts';
import { storedMailboxes } from './message.ts';
import { retentionPlaceOf } from './purge.ts';
import { removeContents } from './stored-content.ts';
import { escapeLike, subjectWords } from '../list/message-filter.ts';
import { idFloor, idTime, MOST_AHEAD_MS } from '../../base/id.ts';

export interface EraseDeps extends Pick<ChangeDeps, 'recorder'> {
  db: { commit: Committer; prepared: Connection; maintenance: Connection };
  /** Resolves when the request log holds what requests before this one have said. */
  requestsWritten: () => Promise<void>;
}

type BodyOwner = Pick<MessageRow, 'id' | 'account_id' | 'content_id' | 'batch_id'>;

/** Recipients erased in one step: each takes well under a millisecond of the writer's time. */
const AT_ONCE = 25;

/**
 * Removes the stored body and files of a message. Throws `invalid_state` while a recipient waits. A bulk send's shared body is removed
 * with the last of its messages; the other messages keep theirs until then.
 */
export async function eraseContent(
  { db }: { db: Pick<EraseDeps['db'], 'commit'> },
  message: BodyOwner,
  alsoCommit: () => Rows = () => ({}),
): Promise<void> {
  await db.commit.transact(async (tx) => {
    const [waiting] = await tx.all('SELECT 1 FROM deliveries WHERE message_id = ? AND due_at IS NOT NULL LIMIT 1', [
      message.id,
    ]);
    if (waiting !== undefined)
      throw new Problem('invalid_state', 'The message is not finished: cancel it first, or wait until it is.');
    await cutContents(tx, message.account_id, [message]);
    await insertRows(tx, [alsoCommit()]);
  });
}

/** Clears the messages' link to their bodies, and removes bodies that no message needs any more. */
async function cutContents(
  tx: Connection,
  accountId: string,
  messages: readonly Omit<BodyOwner, 'account_id'>[],
): Promise<void> {
  await tx.run(
    statement(({ among }) => `UPDATE messages SET content_id = '' WHERE id ${among('text')}`),
    [JSON.stringify(messages.map(({ id }) => id))],
  );
  await removeContents(tx, messages, await retentionPlaceOf(tx, accountId));
}

/**
 * Erases a person from all mail within reach; returns the number of recipients and of received mails from them. Waiting mail to them is canceled. Throws `invalid_state` while one is on the
 * wire: ask again when it is over. Entries of the suppression list stay, since without them the person would be mailed again.
 */
export async function erasePerson(
  deps: EraseDeps,
  reach: MailReach,
  email: string,
  alsoCommit: () => Rows = () => ({}),
): Promise<{ recipients: number }> {
  const parsed = parseMailbox(email, { smtputf8: true });
  // Other text was never mailed, and would be found inside of what is not about a person.
  if (parsed.kind === 'bad') return { recipients: 0 };
  const key = addressKey(parsed.mailbox.address);
  // Those who were erased have this address: each step would find them again.
  if (key === ERASED_ADDRESS) return { recipients: 0 };
  await cancelWaiting(deps, reach, key);
  // Those who erase a person have often looked them up just before, in a request that names them.
  await deps.requestsWritten();
  await eraseRequestDetails(deps, reach, [key, shownAddress(key)]);
  let recipients = await eraseReceived(deps, reach, key);
  for (;;) {
    const before = recipients;
    const done = await deps.db.commit.transact(async (tx) => {
      const some = await eraseSome(tx, reach, key);
      // Written with the last step: after an interruption the caller asks again for the rest.
      if (some < AT_ONCE && before + some > 0) await insertRows(tx, [alsoCommit()]);
      return some;
    });
    recipients += done;
    if (done < AT_ONCE) return { recipients };
  }
}

async function eraseReceived({ db }: EraseDeps, reach: MailReach, key: string): Promise<number> {
  for (let erased = 0; ;) {
    const some = await db.commit.transact((tx) => eraseReceivedFrom(tx, reach, key));
    if (some === 0) return erased;
    erased += some;
  }
}

async function cancelWaiting({ db, recorder }: EraseDeps, reach: MailReach, key: string): Promise<void> {
  const waiting = await db.prepared.all<Pick<DeliveryRow, 'id'>>(
    `SELECT id FROM deliveries WHERE address_key = ? AND account_id = ? AND due_at IS NOT NULL${within(reach)}`,
    [key, reach.accountId],
  );
  const AT_A_TIME = 200;
  for (let at = 0; at < waiting.length; at += AT_A_TIME) {
    const part = waiting.slice(at, at + AT_A_TIME);
    const recorded = await recorder.record(part.map(({ id }) => ({ deliveryId: id, change: { kind: 'canceled' } })));
    if (recorded.some(({ applied, state }) => !applied && state !== null && state.dueAt !== null))
      throw new Problem('invalid_state', 'Mail to this address is being sent right now: ask again in a moment.');
  }
}

type ErasedDelivery = Pick<DeliveryRow, 'id' | 'message_id' | 'type' | 'lead'>;

/** Live mail may have simulated recipients as well; a test key does not reach them. */
const within = ({ onlyTest }: MailReach): string =>
  onlyTest ? ' AND EXISTS (SELECT 1 FROM messages m WHERE m.id = deliveries.message_id AND m.test = 1)' : '';

async function eraseSome(tx: Connection, reach: MailReach, key: string): Promise<number> {
  const found = await tx.all<ErasedDelivery>(
    `SELECT id, message_id, type, lead FROM deliveries WHERE address_key = ? AND account_id = ? AND due_at IS NULL${within(reach)} LIMIT ?`,
    [key, reach.accountId, AT_ONCE],
  );
  if (found.length === 0) return 0;
  const ids = JSON.stringify(found.map(({ id }) => id));
  await tx.run(
    statement(
      ({ among }) =>
        `UPDATE deliveries SET name = NULL, address = ?, address_key = ?, smtp_reply = NULL WHERE id ${among('text')}`,
    ),
    [ERASED_ADDRESS, ERASED_ADDRESS, ids],
  );
  await tx.run(
    statement(({ among }) => `UPDATE attempts SET smtp_reply = NULL WHERE delivery_id ${among('text')}`),
    [ids],
  );
  await eraseEvents(tx, found);
  // A bounce contains the mail, a complaint names the person.
  await tx.run(
    statement(({ among }) => `DELETE FROM reports WHERE delivery_id ${among('text')}`),
    [ids],
  );
  await eraseMessages(tx, reach.accountId, found, key);
  return found.length;
}

async function eraseEvents(tx: Connection, found: readonly ErasedDelivery[]): Promise<void> {
  const messages = JSON.stringify([...new Set(found.map(({ message_id }) => message_id))]);
  const own = new Set(found.map(({ id }) => id));
  const ofMessages = await tx.all<Pick<EventRow, 'id' | 'delivery_id' | 'type' | 'detail_json'> & { sequence: number }>(
    statement(
      ({ among }) =>
        `SELECT id, sequence, delivery_id, type, detail_json FROM events WHERE message_id ${among('text')}`,
    ),
    [messages],
  );
  const events = ofMessages.filter(({ delivery_id }) => own.has(delivery_id));
  const changed = events.map(({ id, type, detail_json }) => ({
    id,
    detail_json: JSON.stringify(erasedDetail(type, JSON.parse(detail_json) as Record<string, unknown>)),
  }));
  // A receiver may repeat in its answer what it was sent.
  await tx.run(
    statement(({ among }) => `UPDATE webhook_deliveries SET answer = NULL WHERE sequence ${among('integer')}`),
    [JSON.stringify(events.map(({ sequence }) => sequence))],
  );
  await tx.run(
    statement(
      (sql) =>
        `UPDATE events SET detail_json = j.detail_json FROM ${newDetails.table(sql, 'j')} WHERE events.id = j.id`,
    ),
    [newDetails.json(changed)],
  );
}

const newDetails = rowsParameter({ id: text(), detail_json: text() });

type Named = Pick<
  MessageRow,
  'id' | 'account_id' | 'batch_id' | 'content_id' | 'cc_json' | 'bcc_json' | 'metadata_json' | 'subject'
> & { waits: number; others: number };

async function eraseMessages(
  tx: Connection,
  accountId: string,
  found: readonly ErasedDelivery[],
  key: string,
): Promise<void> {
  // A mail submitted by SMTP is about its first recipient too if its header does not name them.
  const asLead = new Set(found.filter(({ lead }) => lead === 1).map(({ message_id }) => message_id));
  const named = new Set(
    found.filter(({ type, lead }) => type === 'to' || lead === 1).map(({ message_id }) => message_id),
  );
  const rows = await tx.all<Named>(
    statement(
      ({
        listed,
      }) => `SELECT m.id, m.account_id, m.batch_id, m.content_id, m.cc_json, m.bcc_json, m.metadata_json, m.subject,
       EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL) AS waits,
       EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.address <> '${ERASED_ADDRESS}') AS others
     FROM ${listed('w', 'text')} JOIN messages m ON m.id = w.value`,
    ),
    [JSON.stringify([...new Set(found.map(({ message_id }) => message_id))])],
  );
  // A message is about its recipient; one that has none left is removed as if it were about each.
  const isAbout = ({ id, others }: Named): boolean => named.has(id) || others === 0;
  for (const row of rows) {
    const [cc, bcc] = [without(row.cc_json, key), without(row.bcc_json, key)];
    await tx.run('UPDATE messages SET cc_json = ?, bcc_json = ? WHERE id = ?', [cc, bcc, row.id]);
    if (asLead.has(row.id))
      await tx.run('UPDATE messages SET to_name = NULL, to_address = ? WHERE id = ?', [ERASED_ADDRESS, row.id]);
    if (!isAbout(row)) continue;
    await tx.run("UPDATE messages SET metadata_json = '{}' WHERE id = ?", [row.id]);
    if (row.waits === 0) await eraseHead(tx, row);
    const names = Object.entries(JSON.parse(row.metadata_json) as Record<string, string>);
    for (const [name, value] of names)
      await tx.run('DELETE FROM message_metadata WHERE account_id = ? AND name = ? AND value = ? AND message_id = ?', [
        row.account_id,
        name,
        value,
        row.id,
      ]);
  }
  // A message that others still wait for keeps its body, subject and header fields; retention removes them later.
  await cutContents(
    tx,
    accountId,
    rows.filter((row) => isAbout(row) && row.waits === 0),
  );
}

async function eraseHead(tx: Connection, { id, account_id, subject }: Named): Promise<void> {
  await tx.run("UPDATE messages SET subject = '', headers_json = '[]' WHERE id = ?", [id]);
  for (const word of subjectWords(subject))
    await tx.run('DELETE FROM message_words WHERE account_id = ? AND word = ? AND message_id = ?', [
      account_id,
      word,
      id,
    ]);
}

/** Returns the stored mailboxes with the person's replaced. */
function without(mailboxesJson: string, key: string): string {
  const all = storedMailboxes(mailboxesJson);
  if (!all.some(([, address]) => addressKey(address) === key)) return mailboxesJson;
  return JSON.stringify(all.map((one) => (addressKey(one[1]) === key ? [null, ERASED_ADDRESS] : one)));
}

/** Rows that one statement looks at, at most 6 KB each. */
const AT_A_TIME = 500;

/**
 * Removes the details of requests that have one of these addresses in them, also as a part of a longer one. The table may be large, so it is
 * looked through in slices, by the reader that mail does not wait for.
 */
async function eraseRequestDetails(
  { db }: { db: { commit: Committer; maintenance: Connection } },
  reach: MailReach,
  addresses: readonly string[],
): Promise<void> {
  const spellings = addresses.flatMap((one) => [one, one.replace('@', '%40'), encodeURIComponent(one).toLowerCase()]);
  const patterns = [...new Set(spellings)].map((one) => `%${escapeLike(one)}%`);
  const columns = ['query', 'error_message', 'body'];
  const has = columns.flatMap((column) => patterns.map(() => `lower(${column}) LIKE ? ESCAPE '\\'`)).join(' OR ');
  const look = statement(
    ({ flag }) => `SELECT request_id, ${flag(`account_id = ? AND (${has})`)} AS is_named
      FROM request_details WHERE request_id > ? ORDER BY request_id LIMIT ?`,
  );
  const values = [reach.accountId, ...columns.flatMap(() => patterns)];
  for (let after: string | undefined = ''; after !== undefined;) {
    const slice: { request_id: string; is_named: number | null }[] = await db.maintenance.all(look, [
      ...values,
      after,
      AT_A_TIME,
    ]);
    const named = slice.filter((row) => row.is_named === 1).map((row) => row.request_id);
    const gone = reach.onlyTest ? await ofTestKeys(db.maintenance, reach.accountId, named) : named;
    if (gone.length > 0)
      await db.commit.transact((tx) =>
        tx.run(
          statement(({ among }) => `DELETE FROM request_details WHERE request_id ${among('text')}`),
          [JSON.stringify(gone)],
        ),
      );
    after = slice.length < AT_A_TIME ? undefined : slice.at(-1)?.request_id;
  }
}

/** Returns which of these requests, in their order, came with a test key. */
async function ofTestKeys(db: Connection, accountId: string, requests: readonly string[]): Promise<string[]> {
  const [first, last] = [idTime(requests[0] ?? ''), idTime(requests.at(-1) ?? '')];
  if (first === null || last === null) return [];
  // The entry of a key bears the time of its request, so an index has it.
  const rows = await db.all<{ request_id: string }>(
    statement(
      ({ among }) => `SELECT request_id FROM audit WHERE account_id = ? AND id >= ? AND id < ?
       AND key_id IN (SELECT id FROM api_keys WHERE account_id = ? AND mode = 'test') AND request_id ${among('text')}`,
    ),
    [
      accountId,
      idFloor('aud', first - MOST_AHEAD_MS),
      idFloor('aud', last + 2 * MOST_AHEAD_MS),
      accountId,
      JSON.stringify(requests),
    ],
  );
  return rows.map(({ request_id: id }) => id);
}
