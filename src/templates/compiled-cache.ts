/** Templates that were read, kept for the next mail: a bulk send needs the same one a thousand times. */
import { LRUCache } from 'lru-cache';
import type { Compilation, Part } from './mixed/index.ts';

export type Compile = (source: string, part: Part) => Compilation;

export interface CompiledCache {
  compile: Compile;
  /** Sources that are kept. */
  readonly size: number;
  /** Characters of these sources, those used for two parts counted twice. */
  readonly characters: number;
}

type Compilations = Partial<Record<Part, Compilation>>;

/** Trees take some ten times the memory of their source. */
const MOST_CHARACTERS = 2 * 1024 * 1024;
const MOST_TEMPLATES = 500;

/** Does what `compile` does, once for each source and part, as long as the source is among those that were used last. */
export function createCompiledCache(compile: Compile): CompiledCache {
  // By the text itself: the engine keeps its hash with it.
  const kept = new LRUCache<string, Compilations>({
    max: MOST_TEMPLATES,
    maxSize: MOST_CHARACTERS,
    sizeCalculation: (parts, source) => Math.max(1, source.length * Object.keys(parts).length),
  });
  return {
    compile(source, part) {
      const parts = kept.get(source);
      const before = parts?.[part];
      if (before !== undefined) return before;
      const compilation = compile(source, part);
      // What only took too long here may be read elsewhere, or later.
      if (compilation.ok || !compilation.slow) kept.set(source, { ...parts, [part]: compilation });
      return compilation;
    },
    get size() {
      return kept.size;
    },
    get characters() {
      return kept.calculatedSize;
    },
  };
}
