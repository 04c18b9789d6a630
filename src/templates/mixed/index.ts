/**
 * Handlebars and Liquid in one document: tokens (tokens.ts), one tree (tree.ts), one evaluation (evaluate.ts). `compile` and
 * `render` never throw: a fault of a template is a value with its place in the source.
 */
import { evaluate, type EvaluateOptions } from './evaluate.ts';
import { Faulty, failed, toTemplateFault, TooSlow, type TemplateFault } from './fault.ts';
import { arityOf, filters, helpers } from './library.ts';
import { refuseMergeTags } from './merge-tags.ts';
import type { Node } from './node.ts';
import { parse } from './tree.ts';
import type { Expression, Path } from './expression.ts';

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
    refuseMergeTags(source);
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

/**
 * Returns whether a text that the template prints itself matches. What `{% capture %}` takes is not printed there: it is a value,
 * which is made to fit its part like the others.
 */
function printsLiteral(nodes: readonly Node[], pattern: RegExp): boolean {
  const anyOf = (...bodies: readonly (readonly Node[])[]): boolean =>
    bodies.some((body) => printsLiteral(body, pattern));
  return nodes.some((node) => {
    switch (node.kind) {
      case 'text':
        return pattern.test(node.text);
      case 'if':
        return anyOf(...node.branches.map(({ body }) => body), node.otherwise);
      case 'each':
      case 'for':
      case 'with':
      case 'section':
        return anyOf(node.body, node.otherwise);
      case 'tablerow':
      case 'ifchanged':
        return anyOf(node.body);
      case 'case':
        return anyOf(...node.whens.map(({ body }) => body));
      case 'output':
      case 'assign':
      case 'capture':
      case 'step':
      case 'cycle':
      case 'break':
      case 'continue':
        return false;
    }
  });
}

/** Returns the names of the data that a template reads, without names that it sets itself. */
function variablesOf(nodes: readonly Node[]): string[] {
  const found = new Set<string>();
  const ownNames = new Set<string>(['forloop', 'tablerowloop']);
  const look = (expression: Expression): void => {
    switch (expression.kind) {
      case 'path':
        if (expression.orNow !== true) path(expression.path);
        return;
      case 'range':
        look(expression.from);
        look(expression.to);
        return;
      case 'call':
        [...expression.args, ...expression.named.values()].forEach(look);
        return;
      case 'filtered':
        look(expression.value);
        for (const { args, named } of expression.filters) [...args, ...named.values()].forEach(look);
        return;
      case 'compare':
      case 'logic':
        look(expression.left);
        look(expression.right);
        return;
      case 'literal':
      case 'nothing':
        return;
    }
  };
  const path = ({ base, name, steps }: Path): void => {
    if (base === 'name' && !ownNames.has(name)) found.add(name);
    const [first] = steps;
    if (base === 'root' && typeof first === 'string') found.add(first);
    for (const step of steps) if (typeof step !== 'string') look(step);
  };
  const walk = (list: readonly Node[]): void => {
    for (const node of list) {
      switch (node.kind) {
        case 'output':
          look(node.value);
          break;
        case 'if':
          for (const { test, body } of node.branches) {
            look(test);
            walk(body);
          }
          walk(node.otherwise);
          break;
        case 'each':
        case 'for':
        case 'tablerow':
          look(node.list);
          if (node.kind === 'each') for (const name of node.params) ownNames.add(name);
          else ownNames.add(node.name);
          walk(node.body);
          if (node.kind !== 'tablerow') walk(node.otherwise);
          break;
        case 'with':
        case 'section':
          look(node.value);
          for (const name of node.params) ownNames.add(name);
          walk(node.body);
          walk(node.otherwise);
          break;
        case 'case':
          look(node.value);
          for (const { values, body } of node.whens) {
            values?.forEach(look);
            walk(body);
          }
          break;
        case 'ifchanged':
          walk(node.body);
          break;
        case 'assign':
          look(node.value);
          ownNames.add(node.name);
          break;
        case 'capture':
          walk(node.body);
          ownNames.add(node.name);
          break;
        case 'step':
          ownNames.add(node.name);
          break;
        case 'cycle':
          node.values.forEach(look);
          break;
        case 'text':
        case 'break':
        case 'continue':
          break;
      }
    }
  };
  walk(nodes);
  return [...found];
}
