/** Encoded contents in memory. A content that goes to many recipients is encoded and hashed once while it is in use. */
import { LRUCache } from 'lru-cache';
import type { Composed } from './compose.ts';

/** Bytes of one entry beside its body: the header lines, the hash and the entry itself. */
const ENTRY_BYTES = 500;

export class EncodedContents {
  private readonly entries: LRUCache<string, { encoded: Promise<Composed>; composed?: Composed }>;

  /** Keeps at most `mostBytes`; the contents not used for longest go first. */
  constructor(mostBytes: number) {
    this.entries = new LRUCache({ maxSize: mostBytes });
  }

  /** Returns the encoded content. Callers that ask while it is being encoded share the work; a failure is not kept. */
  get(contentId: string, encode: (contentId: string) => Promise<Composed>): Promise<Composed> {
    const before = this.entries.get(contentId);
    if (before !== undefined) return before.encoded;
    const encoded = encode(contentId);
    this.entries.set(contentId, { encoded }, { size: 1 });
    encoded.then(
      // Its size is known when it is made. The entry is a new object, since lru-cache ignores the size of a value that it has.
      (composed) =>
        this.entries.set(contentId, { encoded, composed }, { size: composed.content.body.length + ENTRY_BYTES }),
      () => this.entries.delete(contentId),
    );
    return encoded;
  }

  /** Returns the content if it is encoded already. */
  made(contentId: string): Composed | undefined {
    return this.entries.get(contentId)?.composed;
  }

  /** The bytes in memory. */
  get bytes(): number {
    return this.entries.calculatedSize;
  }
}
