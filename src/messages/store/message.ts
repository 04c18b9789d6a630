/** The message record of the API. */
import { rfc3339 } from '../../base/rfc3339.ts';
import { formatMailbox } from '../../mail/address.ts';
import { recordOf } from '../../storage/record.ts';
import { messages, type MessageRow } from '../../storage/tables.ts';

/** A mailbox as the `*_json` columns store it. */
export type StoredMailbox = readonly [name: string | null, address: string];

export const messageMembers = recordOf('message', messages);
export type MessageRecord = ReturnType<typeof messageRecord>;

/** `reason` is that of reasonsOf() (messages/list/message-reasons.ts). */
export function messageRecord(row: MessageRow, reason: string | null = null) {
  // It was asked for, and there is no address for its links; simulated mail needs none.
  const isTracked = row.tracking_url !== null || row.test === 1;
  return messageMembers(row, {
    reason,
    from: mailboxText([row.from_name, row.from_address]),
    to: mailboxText([row.to_name, row.to_address]),
    cc: mailboxes(row.cc_json),
    bcc: mailboxes(row.bcc_json),
    reply_to: mailboxes(row.reply_to_json),
    track_opens: isTracked && row.track_opens === 1,
    track_clicks: isTracked && row.track_clicks === 1,
    last_event:
      row.last_event_type === null || row.last_event_at === null
        ? null
        : { type: row.last_event_type, timestamp: rfc3339(row.last_event_at) },
    engagement: {
      opens: row.opens,
      clicks: row.clicks,
      first_opened_at: rfc3339(row.first_opened_at),
      last_opened_at: rfc3339(row.last_opened_at),
      first_clicked_at: rfc3339(row.first_clicked_at),
      bot_opens: row.bot_opens,
      bot_clicks: row.bot_clicks,
    },
  });
}

export const storedMailboxes = (json: string): StoredMailbox[] => JSON.parse(json) as StoredMailbox[];

const mailboxes = (json: string): string[] => (json === '[]' ? [] : storedMailboxes(json).map(mailboxText));

export function mailboxText([name, address]: StoredMailbox): string {
  if (name === null) return address;
  const at = address.lastIndexOf('@');
  return formatMailbox({ name, address, local: address.slice(0, at), domain: address.slice(at + 1) });
}
