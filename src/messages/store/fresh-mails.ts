/** Mails just accepted: bounded memory has them for the first attempt, which reads nothing back. What is not here or used is in the database. */
import type { Clock } from '../../base/clock.ts';
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

const MOST_BYTES = 28 * 1024 * 1024;
/** A mail that has waited longer, as at a slow receiver, makes room for others. Mails of 4 KB do not fill the memory in this time. */
const OLD_MS = 3_000;
/** The weight of a mail beside its text and bytes, and that of a file. */
const ENTRY_BYTES = 2_000;
const FILE_BYTES = 500;
/** Characters of the texts that become bytes. V8 does not copy longer ones, and to encode one of 5 MB would hold the main loop for some milliseconds. */
const IN_BYTES = { least: 32 * 1024, most: 128 * 1024 };

interface Kept {
  mail: FreshMail;
  weight: number;
  /** On the monotonic clock. */
  since: number;
}

export class FreshMails {
  /** Oldest first. */
  private readonly kept = new Map<string, Kept>();
  private readonly clock: Pick<Clock, 'monotonic'>;
  bytes = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.clock = clock;
  }

  /**
   * Adds a mail with one delivery that is due, once it is stored, if there is room. While more come than go out, the oldest are kept, as they go next:
   * the newest would be dropped for still newer ones before their turn. A mail that is larger than the memory is kept alone.
   */
  add(mail: FreshMail<string>): void {
    const weight = weightOf(mail);
    const since = this.clock.monotonic();
    for (const [id, oldest] of this.kept) {
      if (this.bytes + weight <= MOST_BYTES || since - oldest.since < OLD_MS) break;
      this.remove(id, oldest);
    }
    if (this.kept.size > 0 && this.bytes + weight > MOST_BYTES) return;
    const { html, text } = mail.content;
    const content = { ...mail.content, html: longInBytes(html), text: longInBytes(text) };
    this.bytes += weight;
    this.kept.set(mail.delivery.id, { mail: { ...mail, content }, weight, since });
  }

  /** Returns the mail of a delivery, which is then not kept any longer: its bytes may be handed to a thread. */
  take(deliveryId: string): FreshMail | null {
    const found = this.kept.get(deliveryId);
    if (found === undefined) return null;
    this.remove(deliveryId, found);
    return found.mail;
  }

  private remove(deliveryId: string, { weight }: Kept): void {
    this.kept.delete(deliveryId);
    this.bytes -= weight;
  }
}

const isInBytes = ({ length }: string): boolean => length >= IN_BYTES.least && length <= IN_BYTES.most;
const longInBytes = (text: string | null): TextOrBytes | null =>
  text === null || !isInBytes(text) ? text : Buffer.from(text);

/** A text has two bytes a character at most, or those of its UTF-8. */
const sizeOf = (text: string | null): number =>
  text === null ? 0 : isInBytes(text) ? Buffer.byteLength(text) : 2 * text.length;

function weightOf({ content: { html, text, raw }, attachments }: FreshMail<string>): number {
  const files = attachments.reduce((sum, { bytes }) => sum + bytes.length + FILE_BYTES, 0);
  return ENTRY_BYTES + sizeOf(html) + sizeOf(text) + (raw?.length ?? 0) + files;
}
