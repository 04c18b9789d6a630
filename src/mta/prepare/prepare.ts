/**
 * From a delivery's id to the bytes on the wire: load, compose, sign. What was loaded for several deliveries in the same
 * turn of the loop is one query; a content that goes to many is encoded and hashed once while it is in use.
 */
import type { DkimSigner } from '../../mail/dkim/sign.ts';
import { signHeaders } from '../../mail/dkim/sign.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import { writeHead } from '../../mail/mime-write.ts';
import type { Mailbox } from '../../mail/address.ts';
import { createBatchLoader } from '../../base/batch-loader.ts';
import type { Clock } from '../../base/clock.ts';
import { ThreadRefusal } from '../../base/threads.ts';
import { storedMailboxes, type StoredMailbox } from '../../messages/store/message.ts';
import { bodyOf } from '../../messages/store/stored-content.ts';
import { COPY_FIELD, marksFor, type ReturnPathKey } from '../../messages/delivery/return-path.ts';
import type { Tracking } from '../../tracking/track.ts';
import type { Connection } from '../../storage/connection.ts';
import { columnsFrom, jsonReader } from '../../storage/json-rows.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../storage/tables.ts';
import { createComposer, Unencodable } from './composer.ts';
import type { Composed } from './compose.ts';
import type { Hold, HoldOf } from '../../messages/delivery/holds.ts';
import type { TrackingKey } from '../../tracking/token.ts';
import type { TlsWish } from '../connection/tls-policy.ts';
import { listHeaders, trackingOf } from './tracking.ts';

export type Signing = { kind: 'ready'; signers: readonly DkimSigner[] } | { kind: 'unavailable'; why: string };

export interface PrepareDeps {
  db: { prepared: Connection };
  clock: Clock;
  /** The DKIM signers of a sending domain of an account, urgent mail first. */
  signersFor(accountId: string, domain: string, order: number): Promise<Signing>;
  /** The host in the return path of a sending domain of an account. */
  returnPathDomain(accountId: string, domain: string): Promise<string>;
  returnPathKey: ReturnPathKey;
  /** Signs tracked links and unsubscribe links. */
  trackingKey: TrackingKey;
  /** What holds this mail now, or null. */
  holdOf?: HoldOf;
  /** Our own name, `smtp.hostname`: mail of our own from it may go unsigned. */
  ownName?: string;
}

/** A mail ready to be sent. */
export interface Ready {
  kind: 'ready';
  messageId: string;
  envelopeFrom: string;
  recipient: string;
  data: readonly Buffer[];
  size: number;
  smtpUtf8: boolean;
  eightBit: boolean;
  /** What it asks of TLS (RFC 8689). */
  tlsWish?: TlsWish | null;
  test: boolean;
  testOutcome: string | null;
}

export type Prepared =
  | Ready
  /** The rows are gone: nothing to send and nobody to tell. */
  | { kind: 'gone' }
  /** Cannot be signed now: waits, never leaves unsigned. */
  | { kind: 'unsigned'; why: string }
  /** Something of ours failed in the middle of it: waits. */
  | { kind: 'unready'; why: string }
  /** Cannot be built at all. */
  | { kind: 'unbuildable'; why: string };

/** It is not to be tried now: a pause, a domain that is not verified. */
export interface Held {
  kind: 'held';
  hold: Hold;
}

const DELIVERY_COLUMNS = [
  'id',
  'message_id',
  'type',
  'address',
  'domain',
  'test',
  'class',
] as const satisfies readonly (keyof DeliveryRow)[];
const MESSAGE_COLUMNS = [
  'account_id',
  'content_id',
  'from_name',
  'from_address',
  'from_domain',
  'to_name',
  'to_address',
  'cc_json',
  'reply_to_json',
  'subject',
  'headers_json',
  'stream',
  'test_outcome',
  'rfc_message_id',
  'created_at',
  'batch_id',
  'track_opens',
  'track_clicks',
  'tracking_url',
  'unsubscribe_json',
  'null_sender',
  'require_tls',
] as const satisfies readonly (keyof MessageRow)[];

type Loaded = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]> & Pick<MessageRow, (typeof MESSAGE_COLUMNS)[number]>;

/** It may be tried. Composed it is; signing goes on, which takes longer than all else and fails nearly never. */
export interface Making {
  kind: 'making';
  /** What a connection for it has to satisfy; null where there is nothing to send. */
  wanted: Pick<Ready, 'messageId' | 'tlsWish'> | null;
  /** Rejects where storage fails. */
  mail: Promise<Prepared>;
}

/** A mail that no later try could build either. What storage or keys fail at is another matter: it passes. */
class Unbuildable extends Error {}

/** Encoded contents kept while they are in use: enough for the lanes' windows, small beside the process. */
const CACHE_BYTES = 32 * 1024 * 1024;

export interface Prepare {
  /** Resolves when it is known whether the mail may be tried, and what may take long is done. */
  begin(deliveryId: string): Promise<Making | Held>;
  /** The bytes, for who wants to see them: whatever holds the mail back. */
  look(deliveryId: string): Promise<Prepared>;
  /** Ends what runs apart from the main loop. */
  close(): Promise<void>;
}

export function createPrepare(deps: PrepareDeps): Prepare {
  const composer = createComposer(deps);
  const deliveries = createBatchLoader<Loaded>((ids) => loadDeliveries(deps.db.prepared, ids));
  const contents = createBatchLoader<StoredText>((ids) => loadContents(deps.db.prepared, ids));
  const cache = new Map<string, { encoded: Promise<Composed>; bytes: number }>();
  let cached = 0;

  function encodedOf(contentId: string): Promise<Composed> {
    const known = cache.get(contentId);
    if (known !== undefined) return known.encoded;
    const entry = { encoded: encode(contentId), bytes: 0 };
    cache.set(contentId, entry);
    entry.encoded.then(
      ({ content }) => {
        entry.bytes = content.body.length + 500;
        cached += entry.bytes;
        shrink();
      },
      () => cache.delete(contentId),
    );
    return entry.encoded;
  }

  function shrink(): void {
    for (const [id, { bytes }] of cache) {
      if (cached <= CACHE_BYTES) return;
      if (bytes === 0) continue;
      cache.delete(id);
      cached -= bytes;
    }
  }

  async function encode(contentId: string, tracking: Tracking | null = null): Promise<Composed> {
    const row = await contents.load(contentId);
    if (row === undefined) throw new Unbuildable(`content ${contentId} is not stored`);
    const done = row.attachment_count === 0 && row.is_raw === 0 ? null : await composer.room();
    try {
      return await composer.compose({
        id: contentId,
        ...(row.is_raw === 0 ? {} : { raw: await loadRaw(deps.db.prepared, contentId) }),
        html: row.html,
        text: row.text,
        autoText: row.auto_text === 1,
        attachments: row.attachment_count === 0 ? [] : await loadAttachments(deps.db.prepared, contentId),
        ...(tracking === null ? {} : { tracking }),
      });
    } catch (error) {
      if (error instanceof Unencodable)
        throw new Unbuildable(`content ${contentId} cannot be encoded`, { cause: error });
      throw error;
    } finally {
      done?.();
    }
  }

  async function making(row: Loaded): Promise<Making> {
    try {
      const tracking = trackingOf(deps.trackingKey, row);
      const composed = await (tracking === null ? encodedOf(row.content_id) : encode(row.content_id, tracking));
      const signers = await signersOf(deps, row);
      // Without a signature it goes nowhere, so nobody is dialled for it.
      if (signers.kind === 'unsigned') return { kind: 'making', wanted: null, mail: Promise.resolve(signers) };
      const wanted = { messageId: row.message_id, tlsWish: tlsWishOf(row) };
      return { kind: 'making', wanted, mail: build(deps, row, composed, signers.signers).catch(failure) };
    } catch (error) {
      return { kind: 'making', wanted: null, mail: Promise.resolve(failure(error)) };
    }
  }

  return {
    async begin(deliveryId) {
      const row = await deliveries.load(deliveryId);
      if (row === undefined) return { kind: 'making', wanted: null, mail: Promise.resolve({ kind: 'gone' }) };
      const hold = await heldBy(deps, row);
      return hold === null ? making(row) : { kind: 'held', hold };
    },
    async look(deliveryId) {
      const row = await deliveries.load(deliveryId);
      return row === undefined ? { kind: 'gone' } : (await making(row)).mail;
    },
    close: () => composer.close(),
  };
}

/** What is the mail's own fault, or passes by itself; throws all else again. */
function failure(error: unknown): Prepared {
  if (error instanceof Unbuildable) return { kind: 'unbuildable', why: error.message };
  if (error instanceof ThreadRefusal) return { kind: 'unready', why: `it could not be composed: ${error.message}` };
  throw error;
}

/** Simulated mail goes nowhere, so nothing needs to hold it. */
function heldBy({ holdOf }: PrepareDeps, row: Loaded): Promise<Hold | null> | null {
  if (holdOf === undefined || row.test === 1) return null;
  const { account_id: accountId, stream, from_domain: fromDomain, domain, message_id: messageId } = row;
  return holdOf({ accountId, stream, fromDomain, domain, messageId, createdAt: row.created_at });
}

async function signersOf(
  deps: PrepareDeps,
  row: Loaded,
): Promise<{ kind: 'signers'; signers: readonly DkimSigner[] } | Extract<Prepared, { kind: 'unsigned' }>> {
  const signing = await deps.signersFor(row.account_id, row.from_domain, row.class);
  // A test key may send from a domain that is not set up; that mail goes nowhere, so it needs no signature. Nor has our own
  // name a key, unless it is a sending domain too.
  const isOwn = row.null_sender === 1 && row.from_domain === deps.ownName;
  if (signing.kind === 'unavailable' && row.test === 0 && !isOwn) return { kind: 'unsigned', why: signing.why };
  return { kind: 'signers', signers: signing.kind === 'ready' ? signing.signers : [] };
}

async function build(
  deps: PrepareDeps,
  row: Loaded,
  { content, bodyHash, isWhole, eightBit = false }: Composed,
  signers: readonly DkimSigner[],
): Promise<Prepared> {
  const returnPath = await deps.returnPathDomain(row.account_id, row.from_domain);
  const marks = marksFor(deps.returnPathKey, row.id);
  const lines = `${COPY_FIELD}: ${marks.copy}\r\n${listHeaders(deps, row, returnPath)}${content.headers}`;
  const head = isWhole === true ? lines : headOrNot(row) + lines;
  // Signed with the time of acceptance, so that every try sends the same bytes.
  const signatures =
    signers.length === 0
      ? ''
      : await signHeaders({ head, bodyHash, timestamp: Math.floor(row.created_at / 1000), signers });
  const headBytes = Buffer.from(`${signatures}${head}\r\n`);
  return {
    kind: 'ready',
    messageId: row.message_id,
    envelopeFrom: row.null_sender === 1 ? '' : `${marks.returnPath}@${returnPath}`,
    recipient: row.address,
    data: [headBytes, content.body],
    size: headBytes.length + content.body.length,
    smtpUtf8: ![row.address, ...addressesIn(row)].every(isAscii),
    eightBit,
    tlsWish: tlsWishOf(row),
    test: row.test === 1,
    testOutcome: row.test_outcome,
  };
}

const tlsWishOf = ({ require_tls: asks }: Loaded): TlsWish | null =>
  asks === null ? null : asks === 1 ? 'require' : 'waive';

function headOrNot(row: Loaded): string {
  try {
    return headOf(row);
  } catch (error) {
    throw new Unbuildable(`the header of ${row.message_id} cannot be written`, { cause: error });
  }
}

function headOf(row: Loaded): string {
  return writeHead({
    from: mailbox([row.from_name, row.from_address]),
    to: [mailbox([row.to_name, row.to_address])],
    cc: storedMailboxes(row.cc_json).map(mailbox),
    replyTo: storedMailboxes(row.reply_to_json).map(mailbox),
    subject: row.subject,
    date: new Date(row.created_at),
    messageId: row.rfc_message_id,
    extra: [
      ['X-Message-Id', row.message_id],
      ['Feedback-ID', feedbackId(row)],
      ...(JSON.parse(row.headers_json) as [string, string][]),
    ],
  });
}

/** Campaign, customer, kind of mail, sender: what Gmail groups its feedback by. Cut so that it fits in a line of 78 columns. */
function feedbackId({ batch_id: batch, account_id: account, stream }: Loaded): string {
  const kind = stream.slice(0, 18);
  return `${batch?.slice(-16) ?? kind}:${account.slice(-16)}:${kind}:posthorn`;
}

function mailbox([name, address]: StoredMailbox): Mailbox {
  const at = address.lastIndexOf('@');
  return { name, address, local: address.slice(0, at), domain: address.slice(at + 1) };
}

/** Every address of the header: names are encoded words, but an address beyond ASCII needs SMTPUTF8 (RFC 6531). */
const addressesIn = (row: Loaded): string[] => [
  row.from_address,
  row.to_address,
  ...storedMailboxes(row.cc_json).map(([, address]) => address),
  ...storedMailboxes(row.reply_to_json).map(([, address]) => address),
];

const isAscii = (text: string): boolean => /^[\x00-\x7f]*$/.test(text);

const readLoaded = jsonReader<Loaded>(
  { ...columnsFrom('d', DELIVERY_COLUMNS), ...columnsFrom('m', MESSAGE_COLUMNS) },
  'FROM json_each(?) AS w JOIN deliveries d ON d.id = w.value JOIN messages m ON m.id = d.message_id',
);

async function loadDeliveries(db: Connection, ids: readonly string[]): Promise<Map<string, Loaded>> {
  const rows = await readLoaded(db, [JSON.stringify(ids)]);
  return new Map(rows.map((row) => [row.id, row]));
}

/** A content without what may be large: that is loaded when there is room for it. */
type StoredText = Pick<ContentRow, 'id' | 'html' | 'text' | 'auto_text' | 'attachment_count' | 'base_id'> & {
  is_raw: number;
  base_html: string | null;
  base_text: string | null;
};

async function loadContents(db: Connection, ids: readonly string[]): Promise<Map<string, StoredText>> {
  const rows = await db.all<StoredText>(
    `SELECT c.id, c.html, c.text, c.auto_text, c.attachment_count, c.raw IS NOT NULL AS is_raw, c.base_id,
       b.html AS base_html, b.text AS base_text
     FROM json_each(?) AS w JOIN contents c ON c.id = w.value LEFT JOIN content_bases b ON b.id = c.base_id`,
    [JSON.stringify(ids)],
  );
  return new Map(rows.map((row) => [row.id, { ...row, ...bodyOf(row) }]));
}

async function loadRaw(db: Connection, contentId: string): Promise<Buffer> {
  const [row] = await db.all<Pick<ContentRow, 'raw'>>('SELECT raw FROM contents WHERE id = ?', [contentId]);
  if (row?.raw == null) throw new Unbuildable(`content ${contentId} is not stored`);
  return row.raw;
}

async function loadAttachments(db: Connection, contentId: string): Promise<Attachment[]> {
  const rows = await db.all<AttachmentRow>('SELECT * FROM attachments WHERE content_id = ? ORDER BY position', [
    contentId,
  ]);
  return rows.map(({ filename, content_type, cid, disposition, bytes }) => ({
    filename,
    contentType: content_type,
    contentId: cid,
    disposition,
    content: bytes,
  }));
}
