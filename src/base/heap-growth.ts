/**
 * Sets how much garbage V8 keeps before it collects: with few live objects much, which saves CPU time; with many, as while mail waits for thousands
 * of domains, little, which costs up to a fifth of all CPU time and saves memory (docs/performance.md).
 */
// eslint-disable-next-line no-restricted-imports -- it reads no time
import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks';
import v8 from 'node:v8';

/** Live objects in bytes beyond which memory counts more than CPU time. What came since the collection is counted too. */
const LARGE = 100e6;
/** Live objects in bytes below which CPU time counts more again; the distance keeps it from changing with each collection. */
const SMALL = 80e6;

/** Returns whether memory counts more than CPU time with this many bytes alive; `before` is the answer until now. */
export const favoursMemory = (before: boolean, live: number): boolean => live > (before ? SMALL : LARGE);

/** Sets V8's flags after each full collection; they hold for all threads, so only `serve` calls it. Returns a function that ends it. */
export function watchHeap(setFlag: (flag: string) => void = v8.setFlagsFromString): () => void {
  let isLarge = false;
  const observer = new PerformanceObserver((list) => {
    if (!list.getEntries().some(isFull)) return;
    const { used_heap_size: live } = v8.getHeapStatistics();
    if (favoursMemory(isLarge, live) === isLarge) return;
    isLarge = !isLarge;
    setFlags(setFlag, isLarge);
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => {
    observer.disconnect();
    if (isLarge) setFlags(setFlag, false);
  };
}

const isFull = (entry: PerformanceEntry & { detail?: { kind?: number } }): boolean =>
  entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;

function setFlags(setFlag: (flag: string) => void, isLarge: boolean): void {
  // The heap may grow by this much before it is collected again; src/bin/posthorn.cjs sets the first value.
  setFlag(`--heap-growing-percent=${isLarge ? '20' : '50'}`);
  // Pages that are less than 80 % full are emptied into others; without it only those below 30 % are, and 4 MB of them at a time.
  setFlag(isLarge ? '--optimize-for-size' : '--no-optimize-for-size');
}
