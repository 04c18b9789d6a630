/** A bounded memory for many entries that is small while it has few. */
import { LRUCache } from 'lru-cache';

/** Creates a cache of at most `most` entries. With `max`, lru-cache allocates for all at once (3.5 MB here); with sizes of 1 it grows with use. */
export function createLru<K extends string, V extends object | number | boolean>(most: number): LRUCache<K, V> {
  return new LRUCache<K, V>({ maxSize: most, sizeCalculation: () => 1 });
}
