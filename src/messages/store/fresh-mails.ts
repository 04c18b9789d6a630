/** Mails just accepted: bounded memory has them for the first attempt, which reads nothing back. What is not here or used is in the database. */
import { LRUCache } from 'lru-cache';
import type { BodyFacts } from '../../mail/body-facts.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../storage/tables.ts';

export interface FreshMail {
  message: MessageRow;
  delivery: DeliveryRow;
  content: ContentRow;
  attachments: readonly AttachmentRow[];
  /** Those of a submitted mail; null for any other content. */
  facts: BodyFacts | null;
}

const MOST_BYTES = 32 * 1024 * 1024;
/** The weight of a mail beside its text and bytes, and that of a file. */
const ENTRY_BYTES = 2_000;
const FILE_BYTES = 500;

export class FreshMails {
  private readonly kept = new LRUCache<string, FreshMail>({
    maxSize: MOST_BYTES,
    sizeCalculation: weightOf,
  });

  /** Adds a mail with one delivery that is due, once it is stored. Those that waited longest make room. */
  add(fresh: FreshMail): void {
    this.kept.set(fresh.delivery.id, fresh);
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

function weightOf({ content: { html, text, raw }, attachments }: FreshMail): number {
  const files = attachments.reduce((sum, { bytes }) => sum + bytes.length + FILE_BYTES, 0);
  return ENTRY_BYTES + 2 * ((html?.length ?? 0) + (text?.length ?? 0)) + (raw?.length ?? 0) + files;
}
