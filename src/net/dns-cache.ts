/** A bounded memory of DNS answers: each lives as long as its TTL allows, and the least used goes first when it is full. */
export interface DnsCache<V> {
  /** The value and the seconds it has left, or null. */
  get(key: string, now: number): { value: V; seconds: number } | null;
  set(key: string, value: V, seconds: number, now: number): void;
  delete(key: string): void;
}

/** `now` is in milliseconds on a clock that does not jump. */
export function createDnsCache<V>(maxEntries: number): DnsCache<V> {
  const entries = new Map<string, { value: V; until: number }>();
  return {
    get(key, now) {
      const entry = entries.get(key);
      if (entry === undefined) return null;
      entries.delete(key);
      if (entry.until <= now) return null;
      // A Map keeps the order of insertion, so putting an entry back makes it the youngest.
      entries.set(key, entry);
      return { value: entry.value, seconds: Math.ceil((entry.until - now) / 1000) };
    },
    set(key, value, seconds, now) {
      entries.delete(key);
      entries.set(key, { value, until: now + seconds * 1000 });
      if (entries.size <= maxEntries) return;
      for (const oldest of entries.keys()) {
        entries.delete(oldest);
        break;
      }
    },
    delete(key) {
      entries.delete(key);
    },
  };
}
