/** Writes the header of a mail. Pure. */
import type { Mailbox } from '../../mail/address.ts';
import { writeHead } from '../../mail/mime-write.ts';
import { storedMailboxes, type StoredMailbox } from '../../messages/store/message.ts';
import { writtenAt, type StoredMail } from './stored-mail.ts';

export function headOf(row: StoredMail): string {
  return writeHead({
    from: mailbox([row.from_name, row.from_address]),
    to: [mailbox([row.to_name, row.to_address])],
    cc: storedMailboxes(row.cc_json).map(mailbox),
    replyTo: storedMailboxes(row.reply_to_json).map(mailbox),
    subject: row.subject,
    date: new Date(writtenAt(row)),
    messageId: row.rfc_message_id,
    extra: [
      ['X-Message-Id', row.message_id],
      ['Feedback-ID', feedbackId(row)],
      ...(JSON.parse(row.headers_json) as [string, string][]),
    ],
  });
}

/** Returns campaign, customer, kind of mail and sender, by which Gmail groups its feedback, cut to a line of 78 columns. */
function feedbackId({ batch_id: batch, account_id: account, stream }: StoredMail): string {
  const kind = stream.slice(0, 18);
  return `${batch?.slice(-16) ?? kind}:${account.slice(-16)}:${kind}:posthorn`;
}

function mailbox([name, address]: StoredMailbox): Mailbox {
  const at = address.lastIndexOf('@');
  return { name, address, local: address.slice(0, at), domain: address.slice(at + 1) };
}

/** Returns every address of the header: names become encoded words, but an address beyond ASCII needs SMTPUTF8 (RFC 6531). */
export const addressesIn = (row: StoredMail): string[] => [
  row.from_address,
  row.to_address,
  ...storedMailboxes(row.cc_json).map(([, address]) => address),
  ...storedMailboxes(row.reply_to_json).map(([, address]) => address),
];
