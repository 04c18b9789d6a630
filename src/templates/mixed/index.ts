/** Handlebars and Liquid in one document: tokens, one tree, one evaluation. `compile` and `render` never throw: faults are values with places. */
import { evaluate, type EvaluateOptions } from './evaluate.ts';
import { failed, Faulty, syntax, TooSlow, toTemplateFault, type TemplateFault } from './fault.ts';
import { parse, partsOf, type Node } from './tree.ts';
import { childrenOf, type Expression, type Path } from './expression.ts';

export type { TemplateFault } from './fault.ts';

/**
 * The part decides what becomes of values: html escapes `& < > " '`, text nothing; subject, header and address have no line breaks, and an address no
 * character that would end a name or begin another mailbox.
 */
export type Part = 'html' | 'text' | 'subject' | 'header' | 'address';

export interface Compiled {
  readonly part: Part;
  readonly source: string;
  /** Names read from the data, in order of first appearance; those within `{{#each}}` and `{{#with}}` may be members of the values there. */
  readonly variables: readonly string[];
  /** The paths behind the names, such as `order.number` and `items[].price`, of each item of a list. */
  readonly paths: readonly string[];
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
    const nodes = parse(source, timeLimiter(limit));
    return { ok: true, template: { part, source, nodes, ...readsOf(nodes) } };
  } catch (error) {
    return { ok: false, faults: [faultOf(source, error)], slow: error instanceof TooSlow };
  }
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

/** Bounds of the paths: a source may have very many long ones. */
const MOST_PATHS = 200;
const LONGEST_PATH = 200;

/** The paths of the contexts that a block is in, innermost last, and those of the names of its items; null for what is not of the data. */
interface Scope {
  contexts: readonly (string | null)[];
  names: ReadonlyMap<string, string | null>;
}

/** Returns the names of the data that a template reads, without names that it sets itself, and the paths behind them. */
function readsOf(nodes: readonly Node[]): Pick<Compiled, 'variables' | 'paths'> {
  const found = new Set<string>();
  const paths = new Set<string>();
  const ownNames = new Set<string>(['forloop', 'tablerowloop']);
  const see = (path: string | null): void => {
    if (path !== null && path !== '' && paths.size < MOST_PATHS) paths.add(path);
  };
  const pathOf = ({ base, up, name, steps }: Path, { contexts, names }: Scope): string | null => {
    const named = (): string | null => (ownNames.has(name) ? null : joined(contexts.at(-1) ?? null, name));
    const begin = {
      name: names.get(name) ?? named(),
      this: contexts.at(-1 - up) ?? null,
      root: '',
      data: null,
      named: null,
    };
    return steps.reduce<string | null>(
      (path, step) => (typeof step === 'string' ? joined(path, step) : path),
      begin[base],
    );
  };
  const look = (expression: Expression, scope: Scope): string | null => {
    const [value] = childrenOf(expression).map((child) => look(child, scope));
    if (expression.kind === 'filtered') return value ?? null;
    if (expression.kind !== 'path' || expression.orNow === true) return null;
    const { base, name, steps } = expression.path;
    if (base === 'name' && !ownNames.has(name)) found.add(name);
    const [first] = steps;
    if (base === 'root' && typeof first === 'string') found.add(first);
    const path = pathOf(expression.path, scope);
    see(path);
    return path;
  };
  const walk = (list: readonly Node[], scope: Scope): void => {
    for (const node of list) {
      let within = scope;
      for (const part of partsOf(node))
        if (typeof part === 'string') ownNames.add(part);
        else if ('kind' in part) {
          const path = look(part, scope);
          if (node.kind === 'each' || node.kind === 'for') see(itemOf(path));
          within = scopeWithin(node, path, scope);
        } else walk(part, within);
    }
  };
  walk(nodes, { contexts: [''], names: new Map() });
  return { variables: [...found], paths: [...paths] };
}

const joined = (path: string | null, name: string): string | null =>
  path === null || path.length + name.length > LONGEST_PATH ? null : path === '' ? name : `${path}.${name}`;

const itemOf = (path: string | null): string | null => (path === null ? null : `${path}[]`);

function scopeWithin(node: Node, path: string | null, { contexts, names }: Scope): Scope {
  switch (node.kind) {
    case 'for':
      return { contexts, names: new Map(names).set(node.name, itemOf(path)) };
    case 'each':
    case 'section':
    case 'with': {
      const entered = node.kind === 'with' ? path : itemOf(path);
      const [param] = node.params;
      return {
        contexts: [...contexts, entered],
        names: param === undefined ? names : new Map(names).set(param, entered),
      };
    }
    default:
      return { contexts, names };
  }
}

const MERGE_TAG = /\*\|([A-Za-z][A-Za-z0-9_]*)(:[^|\r\n]{0,200})?\|\*/;

/** Throws the fault of the first merge tag of another service: it would be printed as it is. */
function refuseMergeTags(source: string): void {
  const found = source.includes('*|') ? MERGE_TAG.exec(source) : null;
  if (found === null) return;
  const [tag, name = '', rest] = found;
  const ours = name.toUpperCase() === 'UNSUB' ? '{{unsubscribe_url}}' : `{{{ ${name} }}}`;
  const cure = rest === undefined ? `write \`${ours}\`` : 'write it as a tag of Handlebars or Liquid';
  throw syntax(`\`${tag}\` is a merge tag of another service: ${cure}`, found.index);
}
