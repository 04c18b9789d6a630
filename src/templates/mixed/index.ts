/**
 * Handlebars and Liquid in one document: tokens (tokens.ts), one tree (tree.ts), one evaluation (evaluate.ts). `compile` and
 * `render` never throw: a fault of a template is a value with its place in the source.
 */
import { evaluate, type EvaluateOptions } from './evaluate.ts';
import { Faulty, failed, toTemplateFault, TooSlow, type TemplateFault } from './fault.ts';
import { arityOf, filters, helpers } from './library.ts';
import { printsLiteral } from './literals.ts';
import type { Node } from './node.ts';
import { parse } from './tree.ts';
import { variablesOf } from './variables.ts';

export type { TemplateFault } from './fault.ts';

/**
 * The part decides what becomes of values: html escapes `& < > " '`, text nothing; in subject, header and address they have no line breaks, and in
 * an address no character that would end a name or begin another mailbox.
 */
export type Part = 'html' | 'text' | 'subject' | 'header' | 'address';

export interface Compiled {
  readonly part: Part;
  readonly source: string;
  /**
   * Names that are read from the data, in order of first appearance; names within `{{#each}}` and `{{#with}}` may be members of
   * the values there.
   */
  readonly variables: readonly string[];
  readonly nodes: readonly Node[];
}

/** `slow`: only the time limit was reached. */
export type Compilation =
  { ok: true; template: Compiled } | { ok: false; faults: readonly TemplateFault[]; slow: boolean };
/** `slow`: only the time limit was reached. */
export type Rendering = { ok: true; output: string } | { ok: false; faults: readonly TemplateFault[]; slow: boolean };

/** In bytes of UTF-8. */
export const MOST_SOURCE = 512 * 1024;
export const RENDER_LIMIT_MS = 250;

/** A monotonic clock in milliseconds, and the time allowed. */
export interface TimeLimit {
  monotonic(): number;
  limitMs: number;
}

/** Compiles a template, in time linear in its length. */
export function compile(source: string, part: Part, limit?: TimeLimit): Compilation {
  try {
    // A character has a byte at least, so that a long source is refused without counting.
    if (source.length > MOST_SOURCE || Buffer.byteLength(source) > MOST_SOURCE)
      throw failed(`the source is larger than ${String(MOST_SOURCE)} bytes`);
    const nodes = parse(source, { helpers, filters, arityOf }, timeLimiter(limit));
    return { ok: true, template: { part, source, nodes, variables: variablesOf(nodes) } };
  } catch (error) {
    return { ok: false, faults: [faultOf(source, error)], slow: error instanceof TooSlow };
  }
}

/** Returns whether a template prints a text of its own that matches, in some of its branches; false if it cannot be compiled. */
export function hasLiteral(source: string, part: Part, pattern: RegExp): boolean {
  const compiled = compile(source, part);
  return compiled.ok && printsLiteral(compiled.template.nodes, pattern);
}

/** Tags between two looks at the clock, which cost more than a tag. */
const CALLS_A_LOOK = 16;

function timeLimiter(limit: TimeLimit | undefined): () => void {
  if (limit === undefined) return () => undefined;
  const { limitMs } = limit;
  const begun = limit.monotonic();
  let calls = 0;
  return () => {
    if (++calls % CALLS_A_LOOK === 0 && limit.monotonic() - begun > limitMs) throw new TooSlow(limitMs);
  };
}

export type RenderOptions = Omit<EvaluateOptions, 'part' | 'limitMs'> & { limitMs?: number };

export function render({ part, source, nodes }: Compiled, options: RenderOptions): Rendering {
  try {
    return { ok: true, output: evaluate(nodes, { part, limitMs: RENDER_LIMIT_MS, ...options }) };
  } catch (error) {
    return { ok: false, faults: [faultOf(source, error)], slow: error instanceof TooSlow };
  }
}

function faultOf(source: string, error: unknown): TemplateFault {
  if (error instanceof Faulty) return toTemplateFault(source, error);
  // Deep recursion over hostile data. Any other error is a bug and is thrown.
  if (error instanceof RangeError)
    return toTemplateFault(source, failed('the template or its data is nested too deep'));
  throw error;
}
