/** Keeps compiled templates for the next mail: a bulk send needs the same one a thousand times. */
import type { Compilation, Part } from './mixed/index.ts';

export type Compile = (source: string, part: Part) => Compilation;

export interface CompiledCache {
  compile: Compile;
  /** Number of templates in the cache. */
  readonly size: number;
  /** Characters of their sources. */
  readonly characters: number;
}

interface Entry {
  part: Part;
  source: string;
  compilation: Compilation;
}

/** Characters of all sources; a tree takes about ten times the memory of its source. */
const MOST_CHARACTERS = 2 * 1024 * 1024;
const MOST_TEMPLATES = 500;

/** Returns a `compile` that remembers the sources used last. */
export function createCompiledCache(compile: Compile): CompiledCache {
  const byPart = new Map<Part, Map<string, Entry>>();
  /** The entries, least recently used first. */
  const order = new Set<Entry>();
  let characters = 0;

  function forgetOldest(): void {
    for (const oldest of order) {
      if (order.size <= MOST_TEMPLATES && characters <= MOST_CHARACTERS) return;
      byPart.get(oldest.part)?.delete(oldest.source);
      order.delete(oldest);
      characters -= oldest.source.length;
    }
  }

  return {
    compile(source, part) {
      // The source itself is the key: the engine keeps its hash.
      const ofPart = byPart.get(part) ?? new Map<string, Entry>();
      byPart.set(part, ofPart);
      const cached = ofPart.get(source);
      if (cached !== undefined) {
        order.delete(cached);
        order.add(cached);
        return cached.compilation;
      }
      const compilation = compile(source, part);
      // A source that was only too slow may be compiled elsewhere, or later.
      if (!compilation.ok && compilation.slow) return compilation;
      const entry = { part, source, compilation };
      ofPart.set(source, entry);
      order.add(entry);
      characters += source.length;
      forgetOldest();
      return compilation;
    },
    get size() {
      return order.size;
    },
    get characters() {
      return characters;
    },
  };
}
