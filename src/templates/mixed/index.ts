/**
 * Handlebars and Liquid in one document: tokens (tokens.ts), one tree (tree.ts), one evaluation (evaluate.ts). `compile` and
 * `render` never throw: what is wrong with a template is a value with its place in the source.
 */
import { evaluate } from './evaluate.ts';
import { Faulty, failed, told, TooSlow, type TemplateFault } from './fault.ts';
import { arityOf, filters, helpers } from './library.ts';
import type { Node } from './node.ts';
import { parse } from './tree.ts';
import { variablesOf } from './variables.ts';

export type { TemplateFault } from './fault.ts';

/** Decides how values are escaped: `& < > " '` in html, nothing in text, and no line breaks in subject and header. */
export type Part = 'html' | 'text' | 'subject' | 'header';

export interface Compiled {
  readonly part: Part;
  readonly source: string;
  /** Names that are looked for in the data, in the order in which they first appear; names within `{{#each}}` and `{{#with}}` may be members of theirs. */
  readonly variables: readonly string[];
  readonly nodes: readonly Node[];
}

/** `slow`: only its time ran out. */
export type Compilation =
  { ok: true; template: Compiled } | { ok: false; faults: readonly TemplateFault[]; slow: boolean };
/** `slow`: only its time ran out. */
export type Rendering = { ok: true; output: string } | { ok: false; faults: readonly TemplateFault[]; slow: boolean };

export const MOST_SOURCE = 512 * 1024;
export const RENDER_LIMIT_MS = 250;

/** Milliseconds of any clock that only goes forward, and how many of them it may take. */
export interface TimeLimit {
  monotonic(): number;
  limitMs: number;
}

/** Reads a template. Linear in its length; without a limit it takes the time it takes. */
export function compile(source: string, part: Part, limit?: TimeLimit): Compilation {
  try {
    if (Buffer.byteLength(source) > MOST_SOURCE) throw failed(`the source is larger than ${String(MOST_SOURCE)} bytes`);
    const nodes = parse(source, { helpers, filters, arityOf }, lookout(limit));
    return { ok: true, template: { part, source, nodes, variables: variablesOf(nodes) } };
  } catch (error) {
    return { ok: false, faults: [faultOf(source, error)], slow: error instanceof TooSlow };
  }
}

/** Looking at the clock costs more than a tag. */
const CALLS_A_LOOK = 16;

function lookout(limit: TimeLimit | undefined): () => void {
  if (limit === undefined) return () => undefined;
  const { limitMs } = limit;
  const begun = limit.monotonic();
  let calls = 0;
  return () => {
    if (++calls % CALLS_A_LOOK === 0 && limit.monotonic() - begun > limitMs) throw new TooSlow(limitMs);
  };
}

export interface RenderOptions {
  variables: Readonly<Record<string, unknown>>;
  /** A missing variable is a fault instead of nothing. */
  strict: boolean;
  /** BCP 47, for dates and numbers. */
  locale: string;
  /** IANA name. */
  timezone: string;
  /** What `now` is, in milliseconds since the epoch: the same at every render of a message. */
  now: number;
  /** Milliseconds of any clock that only goes forward. */
  monotonic(): number;
  limitMs?: number;
  /** Values that have more characters and elements are left to who may take longer: `slow`. Default: none is. */
  mostWeight?: number;
}

export function render({ part, source, nodes }: Compiled, options: RenderOptions): Rendering {
  try {
    return { ok: true, output: evaluate(nodes, { part, limitMs: RENDER_LIMIT_MS, ...options }) };
  } catch (error) {
    return { ok: false, faults: [faultOf(source, error)], slow: error instanceof TooSlow };
  }
}

function faultOf(source: string, error: unknown): TemplateFault {
  if (error instanceof Faulty) return told(source, error);
  // Deep recursion over hostile data; anything else is a bug and must be seen as one.
  if (error instanceof RangeError) return told(source, failed('it is nested too deep'));
  throw error;
}
