/**
 * Encoded contents in memory. A content that goes to many recipients is encoded and hashed once while it is in use; one that is asked for
 * only once is not kept, since most transactional mail has a content of its own.
 */
import { LRUCache } from 'lru-cache';
import { createLru } from '../../base/lru.ts';
import type { Composed } from './compose.ts';
import type { Made } from './composer.ts';

/** Bytes of one entry beside its body: the header lines, the hash and the entry itself. */
const ENTRY_BYTES = 500;
/** The contents that were asked for once, whose ids are remembered: some seconds of mail at the highest rate, in half a megabyte. */
const MOST_SEEN = 5000;

const SEEN = {};

interface Encoding {
  composed: Promise<Composed>;
  /** It was asked for again, now or before. */
  isShared: boolean;
}

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
    return encoding.composed;
  }

  /** Adds a content that is being encoded and was not found; a failure is not kept. */
  add(contentId: string, made: Promise<Pick<Made, 'composed'>>): void {
    const encoding = { composed: made.then(({ composed }) => composed), isShared: this.seen.has(contentId) };
    this.encoding.set(contentId, encoding);
    encoding.composed.then(
      (composed) => {
        this.encoding.delete(contentId);
        if (encoding.isShared) this.kept.set(contentId, composed);
        this.seen.set(contentId, SEEN);
      },
      () => this.encoding.delete(contentId),
    );
  }

  /** Returns the content if it is kept. */
  made(contentId: string): Composed | undefined {
    return this.kept.get(contentId);
  }

  /** The bytes in memory of the contents that are kept. */
  get bytes(): number {
    return this.kept.calculatedSize;
  }
}
