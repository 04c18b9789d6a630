/** Templates that were read, kept for the next mail: a bulk send needs the same one a thousand times. */
import type { Compilation, Part } from './mixed/index.ts';

export type Compile = (source: string, part: Part) => Compilation;

export interface CompiledCache {
  compile: Compile;
  /** Templates that are kept. */
  readonly size: number;
  /** Of their sources. */
  readonly characters: number;
}

interface Kept {
  part: Part;
  source: string;
  compilation: Compilation;
}

/** Trees take some ten times the memory of their source. */
const MOST_CHARACTERS = 2 * 1024 * 1024;
const MOST_TEMPLATES = 500;

/** Does what `compile` does, once for each source, as long as it is among those that were used last. */
export function createCompiledCache(compile: Compile): CompiledCache {
  const byPart = new Map<Part, Map<string, Kept>>();
  /** Used longest ago first. */
  const order = new Set<Kept>();
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
      // By the text itself: the engine keeps its hash with it.
      const ofPart = byPart.get(part) ?? new Map<string, Kept>();
      byPart.set(part, ofPart);
      const known = ofPart.get(source);
      if (known !== undefined) {
        order.delete(known);
        order.add(known);
        return known.compilation;
      }
      const compilation = compile(source, part);
      // What only took too long here may be read elsewhere, or later.
      if (!compilation.ok && compilation.slow) return compilation;
      const kept = { part, source, compilation };
      ofPart.set(source, kept);
      order.add(kept);
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
