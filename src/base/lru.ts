/** A bounded memory for many entries that is small while it has few. */
import { LRUCache } from 'lru-cache';

/**
 * Creates a cache of at most `most` entries. With `max`, lru-cache allocates its arrays for all of them at once (3.5 MB for the caches of
 * this program); with a size of 1 for each entry, they grow with use.
 */
export function createLru<K extends string, V extends object | number>(most: number): LRUCache<K, V> {
  return new LRUCache<K, V>({ maxSize: most, sizeCalculation: () => 1 });
}
