/** Keeps compiled templates for the next mail: a bulk send needs the same one a thousand times. */
import { LRUCache } from 'lru-cache';
import type { Compilation, Part } from './mixed/index.ts';

export type Compile = (source: string, part: Part) => Compilation;

type Compilations = Partial<Record<Part, Compilation>>;

/** Characters of all sources; a tree takes about ten times the memory of its source. */
const MOST_CHARACTERS = 2 * 1024 * 1024;
const MOST_TEMPLATES = 500;

/** Returns a `compile` that remembers the sources used last. */
export function createCompiledCache(compile: Compile) {
  // The source itself is the key: the engine keeps its hash.
  const cache = new LRUCache<string, Compilations>({
    max: MOST_TEMPLATES,
    maxSize: MOST_CHARACTERS,
    sizeCalculation: (parts, source) => Math.max(1, source.length * Object.keys(parts).length),
  });
  return {
    compile: (source: string, part: Part): Compilation => {
      const parts = cache.get(source);
      const before = parts?.[part];
      if (before !== undefined) return before;
      const compilation = compile(source, part);
      // A source that was only too slow may be compiled elsewhere, or later.
      if (compilation.ok || !compilation.slow) cache.set(source, { ...parts, [part]: compilation });
      return compilation;
    },
    get size(): number {
      return cache.size;
    },
    /** Characters of these sources; one that is used for two parts counts twice. */
    get characters(): number {
      return cache.calculatedSize;
    },
  };
}
