/** Contents just accepted: bounded memory has them for the first attempt, which reads nothing back. What is not here or used is in the database. */
import { LRUCache } from 'lru-cache';
import type { BodyFacts } from '../../mail/body-facts.ts';
import type { AttachmentRow, ContentRow } from '../../storage/tables.ts';

export interface FreshContent {
  content: ContentRow;
  attachments: readonly AttachmentRow[];
  /** Those of a submitted mail; null for any other content. */
  facts: BodyFacts | null;
}

const MOST_BYTES = 32 * 1024 * 1024;
/** The weight of a content beside its text and bytes. */
const ENTRY_BYTES = 500;

export class FreshContents {
  private readonly kept = new LRUCache<string, FreshContent>({
    maxSize: MOST_BYTES,
    sizeCalculation: weightOf,
  });

  /** Adds the content of a mail with one recipient, once it is stored. Those that waited longest make room. */
  add(fresh: FreshContent): void {
    this.kept.set(fresh.content.id, fresh);
  }

  /** Returns the content, which is then not kept any longer: its bytes may be handed to a thread. */
  take(contentId: string): FreshContent | null {
    const fresh = this.kept.get(contentId);
    if (fresh === undefined) return null;
    this.kept.delete(contentId);
    return fresh;
  }

  get bytes(): number {
    return this.kept.calculatedSize;
  }
}

function weightOf({ content: { html, text, raw }, attachments }: FreshContent): number {
  const files = attachments.reduce((sum, { bytes }) => sum + bytes.length + ENTRY_BYTES, 0);
  return ENTRY_BYTES + 2 * ((html?.length ?? 0) + (text?.length ?? 0)) + (raw?.length ?? 0) + files;
}
