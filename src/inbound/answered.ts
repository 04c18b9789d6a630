/**
 * Finds the message of ours that a mail answers: by In-Reply-To and References, then by the mark of a copy that it brings. Only messages
 * of the account whose domain received it count, since anyone can write a Message-ID.
 */
import { addressKey } from '../mail/address.ts';
import type { ReceivedMail } from '../mail/received-mail.ts';
import { deliveryOfCopy, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { Connection } from '../storage/connection.ts';

export interface Answered {
  messageId: string;
  /** The delivery to the author if it was opened by machines alone; null without one. */
  unseenDelivery: string | null;
}

interface AnsweredDeps {
  db: { prepared: Connection };
  keys: readonly ReturnPathKey[];
}

const OWN_ID = /^<(msg_[0-7][0-9a-hjkmnp-tv-z]{25})@/;

export async function answeredBy(
  { db, keys }: AnsweredDeps,
  accountId: string,
  mail: Pick<ReceivedMail, 'in_reply_to' | 'references' | 'copy' | 'from'>,
): Promise<Answered | null> {
  const messageId = await messageOf(db.prepared, keys, accountId, mail);
  if (messageId === null) return null;
  const key = mail.from === null ? '' : addressKey(mail.from.email);
  const [unseen] = await db.prepared.all<{ id: string }>(
    `SELECT d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
     WHERE d.message_id = ? AND d.address_key = ? AND m.opens = 0 AND m.bot_opens > 0 LIMIT 1`,
    [messageId, key],
  );
  return { messageId, unseenDelivery: unseen?.id ?? null };
}

async function messageOf(
  db: Connection,
  keys: readonly ReturnPathKey[],
  accountId: string,
  { in_reply_to: first, references, copy }: Pick<ReceivedMail, 'in_reply_to' | 'references' | 'copy'>,
): Promise<string | null> {
  const named = new Set([...(first === null ? [] : [first]), ...[...references].reverse()]);
  for (const id of named) {
    const [, own] = OWN_ID.exec(id) ?? [];
    const [row] = await db.all<{ id: string }>(
      own === undefined
        ? "SELECT id FROM messages WHERE rfc_message_id = ? AND substr(rfc_message_id, 1, 5) <> '<msg_' AND account_id = ? LIMIT 1"
        : 'SELECT id FROM messages WHERE id = ? AND account_id = ?',
      [own ?? id, accountId],
    );
    if (row !== undefined) return row.id;
  }
  const delivery = copy === null ? null : deliveryOfCopy(keys, copy);
  if (delivery === null) return null;
  const [row] = await db.all<{ message_id: string }>(
    'SELECT message_id FROM deliveries WHERE id = ? AND account_id = ?',
    [delivery, accountId],
  );
  return row?.message_id ?? null;
}
