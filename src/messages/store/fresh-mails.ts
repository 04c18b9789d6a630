/** Mails just accepted: bounded memory has them for the first attempt, which reads nothing back. What is not here or used is in the database. */
import { LRUCache } from 'lru-cache';
import type { BodyFacts } from '../../mail/body-facts.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../storage/tables.ts';

/** A text, or its UTF-8 if it is long: V8 copies long strings that live on, and bytes are handed to a thread without a copy. */
export type TextOrBytes = string | Uint8Array;

export interface FreshMail<Text extends TextOrBytes = TextOrBytes> {
  message: MessageRow;
  delivery: DeliveryRow;
  content: Omit<ContentRow, 'html' | 'text'> & Record<'html' | 'text', Text | null>;
  attachments: readonly AttachmentRow[];
  /** Those of a submitted mail; null for any other content. */
  facts: BodyFacts | null;
}

/** A larger mail is kept, alone: to read it back would take its memory again. */
const MOST_BYTES = 20 * 1024 * 1024;
/** The weight of a mail beside its text and bytes, and that of a file. */
const ENTRY_BYTES = 2_000;
const FILE_BYTES = 500;
/** Characters of the texts that become bytes. V8 does not copy longer ones, and to encode one of 5 MB would hold the main loop for some milliseconds. */
const IN_BYTES = { least: 32 * 1024, most: 128 * 1024 };

export class FreshMails {
  private readonly kept = new LRUCache<string, FreshMail>({
    maxSize: MOST_BYTES,
    sizeCalculation: (mail) => Math.min(weightOf(mail), MOST_BYTES),
  });

  /** Adds a mail with one delivery that is due, once it is stored. Those that waited longest make room. */
  add({ content, ...fresh }: FreshMail<string>): void {
    const texts = { html: longInBytes(content.html), text: longInBytes(content.text) };
    this.kept.set(fresh.delivery.id, { content: { ...content, ...texts }, ...fresh });
  }

  /** Returns the mail of a delivery, which is then not kept any longer: its bytes may be handed to a thread. */
  take(deliveryId: string): FreshMail | null {
    const fresh = this.kept.get(deliveryId);
    if (fresh === undefined) return null;
    this.kept.delete(deliveryId);
    return fresh;
  }

  get bytes(): number {
    return this.kept.calculatedSize;
  }
}

const longInBytes = (text: string | null): TextOrBytes | null =>
  text === null || text.length < IN_BYTES.least || text.length > IN_BYTES.most ? text : Buffer.from(text);

/** A text has two bytes a character at most. */
const sizeOf = (text: TextOrBytes | null): number => (text?.length ?? 0) * (typeof text === 'string' ? 2 : 1);

function weightOf({ content: { html, text, raw }, attachments }: FreshMail): number {
  const files = attachments.reduce((sum, { bytes }) => sum + bytes.length + FILE_BYTES, 0);
  return ENTRY_BYTES + sizeOf(html) + sizeOf(text) + sizeOf(raw) + files;
}
