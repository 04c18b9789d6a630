/** Makes mails from drafts: composes the content, unless it was for another recipient, and signs the header. Loads of one turn share one query. */
import { LRUCache } from 'lru-cache';
import { createBatchLoader, type BatchLoader } from '../../base/batch-loader.ts';
import { createLru } from '../../base/lru.ts';
import type { FreshMail } from '../../messages/store/fresh-mails.ts';
import { isSealedContent, openContent } from '../../messages/store/stored-content.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import type { Tracking } from '../../tracking/rewrite.ts';
import { composeKnown, type Composed, type Signed, type StoredContent } from './compose.ts';
import { createComposer, isLarge, isLongHead, Unencodable, type Composer, type Made, type Order } from './composer.ts';
import type { PrepareDeps } from './prepare.ts';
import { failureOf, readyMail, Unbuildable, type Draft, type Prepared } from './ready-mail.ts';
import {
  attachmentOf,
  loadAttachments,
  loadContents,
  loadRaw,
  writtenAt,
  type StoredMail,
  type StoredText,
} from './stored-mail.ts';

/** Encoded contents of several recipients that are kept, in bytes. */
const CACHE_BYTES = 32 * 1024 * 1024;

export class Drafts {
  private readonly deps: Pick<PrepareDeps, 'db' | 'clock' | 'log' | 'keyring'>;
  private readonly composer: Composer;
  private readonly contents: BatchLoader<StoredText<string>>;
  private readonly encodedContents = new EncodedContents(CACHE_BYTES);

  constructor(deps: Drafts['deps']) {
    this.deps = deps;
    this.composer = createComposer(deps);
    this.contents = createBatchLoader<StoredText<string>>((ids) => loadContents(deps.db.prepared, ids));
  }

  /** Begins to make a mail, and returns whether that may take long. The mail rejects if storage fails. */
  async begin(draft: Draft, fresh: FreshMail | null): Promise<{ mail: Promise<Prepared>; mayTakeLong: boolean }> {
    const { row, tracking } = draft;
    const composed = tracking === null ? (this.encodedContents.made(row.content_id) ?? knownOf(fresh)) : undefined;
    const isLong = isLongHead(row.headers_json.length + (composed?.content.headers.length ?? 0));
    if (composed !== undefined)
      return { mail: this.finish(draft, this.makeFrom(draft, composed)), mayTakeLong: isLong };
    const text = fresh === null ? await this.textOf(row.content_id) : textOfFresh(fresh);
    const mayTakeLong = isLong || hasBytes(text) || isLarge(storedText(text, tracking));
    return { mail: this.finish(draft, this.make(draft, text, fresh)), mayTakeLong };
  }

  close(): Promise<void> {
    return this.composer.close();
  }

  private async finish(draft: Draft, made: Promise<Prepared>): Promise<Prepared> {
    try {
      const mail = await made;
      if (mail.kind !== 'ready' || !mail.eightBit) return mail;
      mail.inSevenBits = () => this.makeSevenBit(draft);
      return mail;
    } catch (error) {
      return failureOf(error);
    }
  }

  /** Composes and makes a mail. If others of the same content ask for it meanwhile, one composes and each signs for itself. */
  private async make(draft: Draft, text: StoredText, fresh: FreshMail | null): Promise<Prepared> {
    const isShared = draft.tracking === null;
    const encoded = isShared ? this.encodedContents.find(text.id) : null;
    if (encoded !== null) return this.makeFrom(draft, await encoded);
    const front = draft.addressed.frontOf(text.is_raw === 1);
    const made = this.compose(draft, text, front, { fresh });
    return readyMail(draft, front, await (isShared ? this.encodedContents.add(text.id, made) : made));
  }

  private async makeFrom(draft: Draft, composed: Composed): Promise<Prepared> {
    const { row, keys, addressed } = draft;
    const front = addressed.frontOf(composed.isWhole === true);
    const unsigned = {
      head: front + composed.content.headers,
      bodyHash: composed.bodyHash,
      timestamp: signedAt(row),
      keys,
    };
    const signed = keys.length === 0 ? NOT_SIGNED : await this.composer.sign(unsigned, orderOf(row));
    return readyMail(draft, front, { composed, signed });
  }

  /** Makes a submitted mail once more, for a host that takes 7 bits only (RFC 6152 section 3). Never rejects: an attempt is under way. */
  private async makeSevenBit(draft: Draft): Promise<Prepared> {
    const { row, addressed } = draft;
    try {
      const text = await this.textOf(row.content_id);
      const front = addressed.frontOf(true);
      return readyMail(draft, front, await this.compose(draft, text, front, { form: { sevenBit: true } }));
    } catch (error) {
      if (error instanceof Unbuildable) return failureOf(error);
      const facts = { event: 'composing_failed', recipient_id: row.id, delivery_id: row.id, err: error };
      this.deps.log.error(facts, 'a mail waits because it could not be brought into 7 bits');
      return { kind: 'unready', why: 'it could not be brought into 7 bits' };
    }
  }

  private async compose(
    { row, keys, tracking }: Draft,
    text: StoredText,
    front: string,
    { form = {}, fresh = null }: { form?: Pick<StoredContent, 'sevenBit'>; fresh?: FreshMail | null },
  ): Promise<Made> {
    const leave = hasBytes(text) ? await this.composer.room() : null;
    try {
      const stored: StoredContent = {
        ...storedText(text, tracking),
        ...form,
        ...(text.is_raw === 0 ? {} : { raw: fresh?.content.raw ?? (await this.rawOf(text.id)) }),
        attachments: await this.attachmentsOf(text, fresh),
      };
      const sign = keys.length === 0 ? null : { front, timestamp: signedAt(row), keys };
      return await this.composer.make(stored, sign, orderOf(row));
    } catch (error) {
      if (error instanceof Unencodable) throw new Unbuildable(`content ${text.id} cannot be encoded`, { cause: error });
      throw error;
    } finally {
      leave?.();
    }
  }

  private async textOf(contentId: string): Promise<StoredText<string>> {
    const text = await this.contents.load(contentId);
    if (text === undefined) throw new Unbuildable(`content ${contentId} is not stored`);
    if (!isSealedContent(contentId)) return text;
    try {
      return { ...text, text: openContent(this.deps.keyring, contentId, text.text ?? '') };
    } catch (error) {
      throw new Unbuildable(`content ${contentId} cannot be opened: its key is lost`, { cause: error });
    }
  }

  private async attachmentsOf(text: StoredText, fresh: FreshMail | null): Promise<Attachment[]> {
    if (fresh !== null) return fresh.attachments.map(attachmentOf);
    return text.attachment_count === 0 ? [] : loadAttachments(this.deps.db.prepared, text.id);
  }

  private async rawOf(contentId: string): Promise<Buffer> {
    const raw = await loadRaw(this.deps.db.prepared, contentId);
    if (raw === null) throw new Unbuildable(`content ${contentId} is not stored`);
    return raw;
  }
}

/** Returns the content if nothing is left to be composed. */
const knownOf = (fresh: FreshMail | null): Composed | undefined =>
  fresh?.facts == null || fresh.content.raw === null ? undefined : composeKnown(fresh.content.raw, fresh.facts);

const textOfFresh = ({ content: { id, html, text, auto_text, attachment_count, raw } }: FreshMail): StoredText => ({
  id,
  html,
  text,
  auto_text,
  attachment_count,
  is_raw: raw === null ? 0 : 1,
});

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
const signedAt = (row: StoredMail): number => Math.floor(writtenAt(row) / 1000);

/** Bytes of one entry beside its body: the header lines, the hash and the entry itself. */
const ENTRY_BYTES = 500;
/** The contents that were asked for once, whose ids are remembered: some seconds of mail at the highest rate, in half a megabyte. */
const MOST_SEEN = 5000;

const SEEN = {};

interface Encoding {
  made: Promise<Pick<Made, 'composed'>>;
  /** It was asked for again, now or before. */
  isShared: boolean;
}

/** Encoded contents in memory. One that goes to many is encoded and hashed once while in use; one asked for only once, as most are, is not kept. */
export class EncodedContents {
  private readonly encoding = new Map<string, Encoding>();
  private readonly kept: LRUCache<string, Composed>;
  private readonly seen = createLru<string, object>(MOST_SEEN);

  /** Keeps at most `mostBytes`; the contents not used for longest go first. */
  constructor(mostBytes: number) {
    this.kept = new LRUCache({
      maxSize: mostBytes,
      sizeCalculation: ({ content }) => content.body.length + ENTRY_BYTES,
    });
  }

  /** Returns the content if it is kept or being encoded, in which case callers share the work; null if neither is true. */
  find(contentId: string): Promise<Composed> | null {
    const kept = this.kept.get(contentId);
    if (kept !== undefined) return Promise.resolve(kept);
    const encoding = this.encoding.get(contentId);
    if (encoding === undefined) return null;
    encoding.isShared = true;
    return encoding.made.then(({ composed }) => composed);
  }

  /** Adds a content that is being encoded and was not found, and returns what is then known of it; a failure is not kept. */
  add<Of extends Pick<Made, 'composed'>>(contentId: string, making: Promise<Of>): Promise<Of> {
    const settle = (made: Of): Of => {
      this.seen.set(contentId, SEEN);
      if (encoding.isShared) this.kept.set(contentId, made.composed);
      else made.composed.isOwn = true;
      return made;
    };
    const made = making.finally(() => this.encoding.delete(contentId)).then(settle);
    const encoding: Encoding = { made, isShared: this.seen.has(contentId) };
    this.encoding.set(contentId, encoding);
    return made;
  }

  made(contentId: string): Composed | undefined {
    return this.kept.get(contentId);
  }

  get bytes(): number {
    return this.kept.calculatedSize;
  }
}
