/** A mail beside its content: envelope, header, facts for the session, and what differs by recipient: tracked links, pixel, unsubscribe headers. */
import { ThreadRefusal } from '../../base/threads.ts';
import { trackingHostOf } from '../../domains/dns-records.ts';
import type { Mailbox } from '../../mail/address.ts';
import { LONGEST_UNSUBSCRIBE_URL, unsubscribeHeaders, unsubscribeUrlsIn } from '../../mail/list-unsubscribe.ts';
import { writeHead } from '../../mail/mime-write.ts';
import { storedMailboxes, type StoredMailbox } from '../../messages/store/message.ts';
import type { SigningKey } from '../../mail/dkim/sign.ts';
import {
  COPY_FIELD,
  marksFor,
  unsubscribeAddressFor,
  type ReturnPathKey,
} from '../../messages/delivery/return-path.ts';
import { storedUnsubscribe } from '../../messages/request/unsubscribe.ts';
import { trackPaths, type Tracking } from '../../tracking/rewrite.ts';
import type { TrackingKey } from '../../tracking/token.ts';
import { unsubscribeToken } from '../../tracking/unsubscribe-link.ts';
import type { TlsRequest } from '../connection/tls-policy.ts';
import type { Signed } from './compose.ts';
import type { Made } from './composer.ts';
import type { PrepareDeps } from './prepare.ts';
import { writtenAt, type StoredMail } from './stored-mail.ts';

export interface Ready {
  kind: 'ready';
  messageId: string;
  /** The API request that made the message; null if none did, such as for a notice of failure. */
  requestId: string | null;
  stream: string;
  envelopeFrom: string;
  recipient: string;
  data: readonly Buffer[];
  /** No other mail has the memory of `data`. */
  isOwn?: boolean;
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
  const { content, eightBit = false, isWhole = false, isOwn = false } = composed;
  const headBytes = Buffer.from(`${signed.signatures}${front}${content.headers}\r\n`);
  return {
    kind: 'ready',
    messageId: row.message_id,
    requestId: row.request_id,
    stream: row.stream,
    envelopeFrom,
    recipient,
    smtpUtf8: smtpUtf8 || (isWhole && ADDRESS_BEYOND_ASCII.test(content.headers)),
    data: [headBytes, content.body],
    isOwn,
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

/** Returns null if nothing is tracked, as in nearly every mail: its content is the same for all recipients. */
export function trackingOf(key: TrackingKey, row: StoredMail, unsubscribeUrl: string | null): Tracking | null {
  const base = row.tracking_url ?? '';
  const isTracked = (row.track_opens === 1 || row.track_clicks === 1) && base !== '';
  if (!isTracked && unsubscribeUrl === null) return null;
  return {
    key,
    stamp: { deliveryId: row.id, host: base === '' ? null : ownHost(base, row.from_domain) },
    base,
    opens: isTracked && row.track_opens === 1,
    clicks: isTracked && row.track_clicks === 1,
    unsubscribeUrl,
    untouched: unsubscribeUrls(row),
  };
}

/** Returns the tracking host if it belongs to the sending domain, else null. */
function ownHost(base: string, fromDomain: string): string | null {
  const { hostname } = new URL(base);
  return hostname === trackingHostOf(fromDomain) ? hostname : null;
}

/** The ways in which this recipient unsubscribes. */
interface Unsubscribing {
  /** List-Unsubscribe and List-Unsubscribe-Post; empty if unsubscribing is off. */
  headers: string;
  /** The address for the link in the body; null if it has none. Recipients may have no page to open: then it is a mail. */
  bodyUrl: string | null;
}

function unsubscribingOf(
  keys: { trackingKey: TrackingKey; returnPathKey: ReturnPathKey },
  row: StoredMail,
  returnPathDomain: string,
): Unsubscribing {
  const unsubscribe = storedUnsubscribe(row);
  if (unsubscribe === null) return { headers: '', bodyUrl: null };
  const { url, mailto, oneClick, inBody = false } = unsubscribe;
  const token = url === null || mailto === null ? tokenOf(keys.trackingKey, row) : '';
  const hosted = hostedMailto(`${unsubscribeAddressFor(keys.returnPathKey, row.id)}@${returnPathDomain}`, token);
  const headers = unsubscribeHeaders({ url: url ?? hostedUrl(row, token), mailto: mailto ?? hosted, oneClick });
  const page = row.tracking_url === null ? null : `${row.tracking_url}${trackPaths.unsubscribe}${token}`;
  return { headers, bodyUrl: inBody ? (url ?? page ?? `mailto:${mailto ?? hosted}`) : null };
}

const tokenOf = (key: TrackingKey, row: StoredMail): string =>
  unsubscribeToken(key, {
    deliveryId: row.id,
    accountId: row.account_id,
    stream: row.stream,
    fromDomain: row.from_domain,
    email: row.address,
  });

/** The subject (RFC 6068) tells whom the mail is from and what it ends, for as long as it is in a mailbox; the address only tells which mail it was. */
function hostedMailto(address: string, token: string): string {
  const whole = `${address}?subject=unsubscribe%20${token}`;
  return `mailto:${whole}`.length > LONGEST_UNSUBSCRIBE_URL ? address : whole;
}

/** Returns an https URL or null: the request must not be readable or changeable on its way (RFC 8058 section 3.1). */
function hostedUrl({ tracking_url: base }: StoredMail, token: string): string | null {
  if (base?.startsWith('https://') !== true) return null;
  const url = `${base}${trackPaths.unsubscribe}${token}`;
  // The longest possible names make it too long; the mailto address remains.
  return url.length > LONGEST_UNSUBSCRIBE_URL ? null : url;
}

/** Returns the unsubscribe URLs that the sender gave, in a header or as a member of the request: clicks on them are not counted. */
function unsubscribeUrls(row: StoredMail): string[] {
  const own = storedUnsubscribe(row)?.url ?? null;
  if (own !== null) return [own];
  const headers = JSON.parse(row.headers_json) as [string, string][];
  const [, list = ''] = headers.find(([name]) => name.toLowerCase() === 'list-unsubscribe') ?? [];
  return unsubscribeUrlsIn(list);
}
