/** The parts of a mail beside its content: the envelope, the header, and the facts of its row that a session needs. */
import { ThreadRefusal } from '../../base/threads.ts';
import type { Mailbox } from '../../mail/address.ts';
import { writeHead } from '../../mail/mime-write.ts';
import { storedMailboxes, type StoredMailbox } from '../../messages/store/message.ts';
import type { SigningKey } from '../../mail/dkim/sign.ts';
import { COPY_FIELD, marksFor } from '../../messages/delivery/return-path.ts';
import type { Tracking } from '../../tracking/rewrite.ts';
import type { TlsRequest } from '../connection/tls-policy.ts';
import type { Made } from './composer.ts';
import type { Signed } from './mail-job.ts';
import type { PrepareDeps } from './prepare.ts';
import { writtenAt, type StoredMail } from './stored-mail.ts';
import { unsubscribingOf } from './tracking.ts';

/** A mail ready to be sent. */
export interface Ready {
  kind: 'ready';
  messageId: string;
  /** The API request that made the message; null if none did, such as for a notice of failure. */
  requestId: string | null;
  envelopeFrom: string;
  recipient: string;
  data: readonly Buffer[];
  size: number;
  smtpUtf8: boolean;
  eightBit: boolean;
  /** Makes a mail with `eightBit` again for a host without 8BITMIME; what cannot be encoded keeps its octets. */
  inSevenBits?: () => Promise<Prepared>;
  /** The TLS request of the message (RFC 8689). */
  tlsRequest?: TlsRequest | null;
  test: boolean;
  testOutcome: string | null;
}

/** Why a mail cannot be sent. */
export type Failure =
  /** The rows are gone: there is nothing to send. */
  | { kind: 'gone' }
  /** The mail cannot be signed now: it waits, and never leaves unsigned. */
  | { kind: 'unsigned'; why: string }
  /** A fault of ours kept it from being loaded or composed: it waits. */
  | { kind: 'unready'; why: string }
  /** The mail can never be built. */
  | { kind: 'unbuildable'; why: string };

export type Prepared = Ready | Failure;

/** A mail that no later try could build either, unlike one for which storage or keys failed. */
export class Unbuildable extends Error {}

/** Returns what an error says about the mail; throws all errors again that are not about it. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Unbuildable) return { kind: 'unbuildable', why: error.message };
  if (error instanceof ThreadRefusal) return { kind: 'unready', why: `it could not be composed: ${error.message}` };
  throw error;
}

type Addressed = Pick<Ready, 'envelopeFrom' | 'recipient' | 'smtpUtf8'> & {
  /** The address for the unsubscribe link in the body; null if it has none. */
  unsubscribeUrl: string | null;
  frontOf: (isWhole: boolean) => string;
};

/** The parts that a mail is made from, beside its content. */
export interface Draft {
  row: StoredMail;
  /** The keys that sign it; none if it goes unsigned. */
  keys: readonly SigningKey[];
  addressed: Addressed;
  /** The tracking of this recipient's copy; null if nothing is tracked, and the content is then the same for all. */
  tracking: Tracking | null;
}

/** Returns the envelope of a mail, and what writes its header up to the lines of the content. */
export async function addressedOf(
  deps: Pick<PrepareDeps, 'returnPathDomain' | 'returnPathKey' | 'trackingKey'>,
  row: StoredMail,
): Promise<Addressed> {
  const returnPath = await deps.returnPathDomain(row.account_id, row.from_domain);
  const marks = marksFor(deps.returnPathKey, row.id);
  const unsubscribing = unsubscribingOf(deps, row, returnPath);
  const lines = `${COPY_FIELD}: ${marks.copy}\r\n${unsubscribing.headers}`;
  return {
    envelopeFrom: row.null_sender === 1 ? '' : `${marks.returnPath}@${returnPath}`,
    recipient: row.address,
    unsubscribeUrl: unsubscribing.bodyUrl,
    smtpUtf8: ![row.address, ...addressesIn(row)].every(isAscii),
    // A mail that was submitted whole has its own header.
    frontOf: (isWhole) => (isWhole ? lines : headOrNot(row) + lines),
  };
}

/** An address in the header of a submitted mail that needs SMTPUTF8 (RFC 6531). */
const ADDRESS_BEYOND_ASCII = /[^\x00-\x7f][^\s<>,;"]{0,64}@/;

/** Returns the mail, or why it cannot be signed. */
export function readyMail(
  { row, addressed: { envelopeFrom, recipient, smtpUtf8 } }: Draft,
  front: string,
  { composed, signed }: Made,
): Ready | Extract<Signed, { kind: 'unsigned' }> {
  if (signed.kind === 'unsigned') return signed;
  const { content, eightBit = false, isWhole = false } = composed;
  const headBytes = Buffer.from(`${signed.signatures}${front}${content.headers}\r\n`);
  return {
    kind: 'ready',
    messageId: row.message_id,
    requestId: row.request_id,
    envelopeFrom,
    recipient,
    smtpUtf8: smtpUtf8 || (isWhole && ADDRESS_BEYOND_ASCII.test(content.headers)),
    data: [headBytes, content.body],
    size: headBytes.length + content.body.length,
    eightBit,
    tlsRequest: tlsRequestOf(row),
    test: row.test === 1,
    testOutcome: row.test_outcome,
  };
}

export const tlsRequestOf = ({ require_tls: asks }: StoredMail): TlsRequest | null =>
  asks === null ? null : asks === 1 ? 'require' : 'waive';

function headOrNot(row: StoredMail): string {
  try {
    return headOf(row);
  } catch (error) {
    throw new Unbuildable(`the header of ${row.message_id} cannot be written`, { cause: error });
  }
}

const isAscii = (text: string): boolean => /^[\x00-\x7f]*$/.test(text);

function headOf(row: StoredMail): string {
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
const addressesIn = (row: StoredMail): string[] => [
  row.from_address,
  row.to_address,
  ...storedMailboxes(row.cc_json).map(([, address]) => address),
  ...storedMailboxes(row.reply_to_json).map(([, address]) => address),
];
