/**
 * Makes the bytes on the wire from a delivery's id: load, compose, sign. Deliveries that are loaded in the same turn of the event
 * loop share one query.
 */
import type { SigningKey } from '../../mail/dkim/sign.ts';
import { createBatchLoader } from '../../base/batch-loader.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { ThreadRefusal } from '../../base/threads.ts';
import type { ReturnPathKey } from '../../messages/delivery/return-path.ts';
import type { Tracking } from '../../tracking/track.ts';
import type { Connection } from '../../storage/connection.ts';
import { createComposer, isLarge, isLongHead, Unencodable, type Made } from './composer.ts';
import type { Composed, StoredContent } from './compose.ts';
import { EncodedContents } from './encoded-contents.ts';
import type { Order } from './mail-batches.ts';
import type { Signed, UnsignedFront } from './mail-job.ts';
import type { Hold, HoldOf } from '../../messages/delivery/holds.ts';
import type { TrackingKey } from '../../tracking/token.ts';
import { addressedOf, readyMail, tlsRequestOf, Unbuildable, type Addressed, type Ready } from './ready-mail.ts';
import {
  loadAttachments,
  loadContents,
  loadRaw,
  loadStoredMails,
  type StoredMail,
  type StoredText,
} from './stored-mail.ts';
import { trackingOf } from './tracking.ts';

export type Signing = { kind: 'ready'; keys: readonly SigningKey[] } | { kind: 'unavailable'; why: string };

export interface PrepareDeps {
  db: { prepared: Connection };
  clock: Clock;
  log: Log;
  /** Returns the DKIM keys of a sending domain of an account. */
  keysFor(accountId: string, domain: string): Promise<Signing>;
  /** Returns the host in the return path of a sending domain of an account. */
  returnPathDomain(accountId: string, domain: string): Promise<string>;
  returnPathKey: ReturnPathKey;
  /** Signs tracked links and unsubscribe links. */
  trackingKey: TrackingKey;
  /** Returns what holds this mail now, or null. */
  holdOf?: HoldOf;
  /** `smtp.hostname`: mail of ours from this name may go unsigned. */
  ownName?: string;
}

export type { Ready } from './ready-mail.ts';

export type Prepared =
  | Ready
  /** The rows are gone: there is nothing to send. */
  | { kind: 'gone' }
  /** The mail cannot be signed now: it waits, and never leaves unsigned. */
  | { kind: 'unsigned'; why: string }
  /** A fault of ours kept it from being composed: it waits. */
  | { kind: 'unready'; why: string }
  /** The mail can never be built. */
  | { kind: 'unbuildable'; why: string };

/** The mail may not be tried now: a pause, a domain that is not verified. */
export interface Held {
  kind: 'held';
  hold: Hold;
}

/** The mail may be tried. It is being composed and signed, which takes longer than all else and hardly ever fails; a large one is composed. */
export interface Preparing {
  kind: 'preparing';
  /** The conditions of a connection for it; null where there is nothing to send. */
  wanted: Pick<Ready, 'messageId' | 'tlsRequest'> | null;
  /** Rejects where storage fails. */
  mail: Promise<Prepared>;
  /** Tells what holds the mail by now; absent where nothing was asked before. */
  heldNow?: () => Promise<Hold | null>;
}

/** Encoded contents of several recipients that are kept, in bytes. */
const CACHE_BYTES = 32 * 1024 * 1024;

export type Prepare = ReturnType<typeof createPrepare>;

export function createPrepare(deps: PrepareDeps) {
  const composer = createComposer(deps);
  const deliveries = createBatchLoader<StoredMail>((ids) => loadStoredMails(deps.db.prepared, ids));
  const contents = createBatchLoader<StoredText>((ids) => loadContents(deps.db.prepared, ids));
  const encodedContents = new EncodedContents(CACHE_BYTES);

  async function rawOf(contentId: string): Promise<Buffer> {
    const raw = await loadRaw(deps.db.prepared, contentId);
    if (raw === null) throw new Unbuildable(`content ${contentId} is not stored`);
    return raw;
  }

  async function textOf(contentId: string): Promise<StoredText> {
    const text = await contents.load(contentId);
    if (text === undefined) throw new Unbuildable(`content ${contentId} is not stored`);
    return text;
  }

  /** Composes the content, and signs the mail that it is composed for. */
  async function compose(text: StoredText, content: StoredContent, sign: UnsignedFront, order: Order): Promise<Made> {
    const done = hasBytes(text) ? await composer.room() : null;
    try {
      const stored: StoredContent = {
        ...content,
        ...(text.is_raw === 0 ? {} : { raw: await rawOf(text.id) }),
        attachments: text.attachment_count === 0 ? [] : await loadAttachments(deps.db.prepared, text.id),
      };
      return await composer.make(stored, sign.keys.length === 0 ? null : sign, order);
    } catch (error) {
      if (error instanceof Unencodable) throw new Unbuildable(`content ${text.id} cannot be encoded`, { cause: error });
      throw error;
    } finally {
      done?.();
    }
  }

  /** Makes a mail whose content is composed. */
  async function makeFrom(
    row: StoredMail,
    composed: Composed,
    keys: readonly SigningKey[],
    addressed: Addressed,
  ): Promise<Prepared> {
    const front = addressed.frontOf(composed.isWhole === true);
    const unsigned = {
      head: front + composed.content.headers,
      bodyHash: composed.bodyHash,
      timestamp: signedAt(row),
      keys,
    };
    const signed = keys.length === 0 ? NOT_SIGNED : await composer.sign(unsigned, orderOf(row));
    return readyMail(row, addressed, front, { composed, signed });
  }

  /** Composes and makes a mail. Where others of the same content ask for it meanwhile, one composes and each signs for itself. */
  async function make(
    row: StoredMail,
    text: StoredText,
    content: StoredContent,
    keys: readonly SigningKey[],
    addressed: Addressed,
  ): Promise<Prepared> {
    const front = addressed.frontOf(text.is_raw === 1);
    const own: { made?: Promise<Made> } = {};
    const encode = async (): Promise<Composed> => {
      own.made = compose(text, content, { front, timestamp: signedAt(row), keys }, orderOf(row));
      return (await own.made).composed;
    };
    const composed = await (content.tracking === undefined ? encodedContents.get(text.id, encode) : encode());
    return own.made === undefined
      ? makeFrom(row, composed, keys, addressed)
      : readyMail(row, addressed, front, await own.made);
  }

  /** Makes a submitted mail once more, for a host that takes 7 bits only (RFC 6152 section 3). Never rejects: an attempt is under way. */
  async function makeSevenBit(
    row: StoredMail,
    tracking: Tracking | null,
    keys: readonly SigningKey[],
    addressed: Addressed,
  ): Promise<Prepared> {
    try {
      const text = await textOf(row.content_id);
      const front = addressed.frontOf(true);
      const content: StoredContent = { ...storedText(text, tracking), sevenBit: true };
      const made = await compose(text, content, { front, timestamp: signedAt(row), keys }, orderOf(row));
      return readyMail(row, addressed, front, made);
    } catch (error) {
      if (error instanceof Unbuildable) return failure(error);
      const facts = { event: 'composing_failed', recipient_id: row.id, delivery_id: row.id, err: error };
      deps.log.error(facts, 'a mail waits because it could not be brought into 7 bits');
      return { kind: 'unready', why: 'it could not be brought into 7 bits' };
    }
  }

  async function prepareRow(row: StoredMail): Promise<Preparing> {
    try {
      const signing = await keysOf(deps, row);
      // Without a signature it is not sent, so no host is dialled for it.
      if (signing.kind === 'unsigned') return { kind: 'preparing', wanted: null, mail: Promise.resolve(signing) };
      const wanted = { messageId: row.message_id, tlsRequest: tlsRequestOf(row) };
      const tracking = trackingOf(deps.trackingKey, row);
      const composed = tracking === null ? encodedContents.made(row.content_id) : undefined;
      const addressed = await addressedOf(deps, row);
      let made: Promise<Prepared>;
      let mayTakeLong = isLongHead(row.headers_json.length + (composed?.content.headers.length ?? 0));
      if (composed !== undefined) made = makeFrom(row, composed, signing.keys, addressed);
      else {
        const text = await textOf(row.content_id);
        const content = storedText(text, tracking);
        mayTakeLong ||= hasBytes(text) || isLarge(content);
        made = make(row, text, content, signing.keys, addressed);
      }
      const mail: Promise<Prepared> = made
        .then((ready) => {
          if (ready.kind !== 'ready' || !ready.eightBit) return ready;
          return { ...ready, inSevenBits: () => makeSevenBit(row, tracking, signing.keys, addressed) };
        })
        .catch(failure);
      // No connection waits for the memory and the thread of large contents, or for one that cannot be composed.
      const isReady = !mayTakeLong || (await mail).kind === 'ready';
      return { kind: 'preparing', wanted: isReady ? wanted : null, mail };
    } catch (error) {
      return { kind: 'preparing', wanted: null, mail: Promise.resolve(failure(error)) };
    }
  }

  return {
    /** Resolves when it is known whether the mail may be tried; where it is large, when it is composed. */
    async begin(deliveryId: string): Promise<Preparing | Held> {
      const row = await deliveries.load(deliveryId);
      if (row === undefined) return { kind: 'preparing', wanted: null, mail: Promise.resolve({ kind: 'gone' }) };
      const heldNow = async (): Promise<Hold | null> => heldBy(deps, row);
      const hold = await heldNow();
      return hold === null ? { ...(await prepareRow(row)), heldNow } : { kind: 'held', hold };
    },
    /** Returns the bytes for display, whatever holds the mail back. */
    async look(deliveryId: string): Promise<Prepared> {
      const row = await deliveries.load(deliveryId);
      return row === undefined ? { kind: 'gone' } : (await prepareRow(row)).mail;
    },
    /** Ends the threads. */
    close: () => composer.close(),
  };
}

/** Returns what an error says about the mail; throws all errors again that are not about it. */
function failure(error: unknown): Prepared {
  if (error instanceof Unbuildable) return { kind: 'unbuildable', why: error.message };
  if (error instanceof ThreadRefusal) return { kind: 'unready', why: `it could not be composed: ${error.message}` };
  throw error;
}

/** Simulated mail leaves nowhere, so nothing holds it. */
function heldBy({ holdOf }: PrepareDeps, row: StoredMail): Promise<Hold | null> | null {
  if (holdOf === undefined || row.test === 1) return null;
  const { account_id: accountId, stream, from_domain: fromDomain, domain, message_id: messageId } = row;
  return holdOf({ accountId, stream, fromDomain, domain, messageId, createdAt: row.created_at });
}

async function keysOf(
  deps: PrepareDeps,
  row: StoredMail,
): Promise<{ kind: 'keys'; keys: readonly SigningKey[] } | Extract<Prepared, { kind: 'unsigned' }>> {
  const signing = await deps.keysFor(row.account_id, row.from_domain);
  // A test key may send from a domain that is not set up; that mail leaves nowhere, so it needs no signature. Our own name has
  // no key either, unless it is a sending domain too.
  const isOwn = row.null_sender === 1 && row.from_domain === deps.ownName;
  if (signing.kind === 'unavailable' && row.test === 0 && !isOwn) return { kind: 'unsigned', why: signing.why };
  return { kind: 'keys', keys: signing.kind === 'ready' ? signing.keys : [] };
}

/** Returns whether the content has attachments, or is a submitted mail. */
const hasBytes = ({ attachment_count: attachments, is_raw: isRaw }: StoredText): boolean =>
  attachments > 0 || isRaw === 1;

/** Returns a content without its attachments and its bytes. */
const storedText = ({ id, html, text, auto_text: autoText }: StoredText, tracking: Tracking | null): StoredContent => ({
  id,
  html,
  text,
  autoText: autoText === 1,
  attachments: [],
  ...(tracking === null ? {} : { tracking }),
});

const NOT_SIGNED: Signed = { kind: 'signed', signatures: '' };

const orderOf = (row: StoredMail): Order => (row.class === 0 ? 0 : 1);

/** The signature has the time of acceptance, in seconds, so that every try sends the same bytes. */
const signedAt = (row: StoredMail): number => Math.floor(row.created_at / 1000);
