/** Builds one tree from the tokens. Blocks of both languages share one stack: an end tag or an `else` belongs to the innermost open block. */
import { Reader, type Expression, type Language } from './expression.ts';
import { failed, syntax } from './fault.ts';
import { helpers } from './library.ts';
import { headOf, tokenize, type Token } from './tokens.ts';
import type { Truth } from './value.ts';

interface Branch {
  test: Expression;
  truth: Truth;
  /** `includeZero`: if true, 0 counts as true. */
  zero: Expression | null;
  negated: boolean;
  body: Node[];
}

export interface ForOptions {
  limit: Expression | null;
  offset: Expression | 'continue' | null;
  reversed: boolean;
  cols: Expression | null;
}

export type Node =
  | { kind: 'text'; text: string }
  | { kind: 'output'; value: Expression; raw: boolean; at: number }
  | { kind: 'if'; branches: Branch[]; otherwise: Node[] }
  /** Blocks of Handlebars that enter a value. `section` is `{{#name}}`: each, with or if, depending on the value. */
  | {
      kind: 'each' | 'with' | 'section';
      value: Expression;
      params: readonly string[];
      body: Node[];
      otherwise: Node[];
      at: number;
    }
  /** `{% for %}`, or `{% tablerow %}`, whose rows have `cols` cells and which has no `else`. */
  | {
      kind: 'for';
      name: string;
      list: Expression;
      options: ForOptions;
      body: Node[];
      otherwise: Node[];
      isTable: boolean;
      at: number;
    }
  | { kind: 'case'; value: Expression; whens: When[] }
  | { kind: 'assign'; name: string; value: Expression; at: number }
  | { kind: 'capture'; name: string; body: Node[] }
  | { kind: 'step'; name: string; by: 1 | -1 }
  | { kind: 'cycle'; group: Expression | string; values: readonly Expression[]; at: number }
  | { kind: 'break' }
  | { kind: 'continue' };

/** One branch of a `case`. `values` is null for an `else`, which runs if no `when` before it matched. */
interface When {
  values: Expression[] | null;
  body: Node[];
}

/** Returns the parts of a node in the order of the source: expressions that it reads, bodies, and names that it sets. */
export function partsOf(node: Node): (Expression | readonly Node[] | string)[] {
  switch (node.kind) {
    case 'output':
      return [node.value];
    case 'if':
      return [...node.branches.flatMap(({ test, body }) => [test, body]), node.otherwise];
    case 'each':
    case 'with':
    case 'section':
      return [node.value, ...node.params, node.body, node.otherwise];
    case 'for':
      return [node.list, node.name, node.body, node.otherwise];
    case 'case':
      return [node.value, ...node.whens.flatMap(({ values, body }) => [...(values ?? []), body])];
    case 'assign':
      return [node.value, node.name];
    case 'capture':
      return [node.body, node.name];
    case 'step':
      return [node.name];
    case 'cycle':
      return [...node.values];
    case 'text':
    case 'break':
    case 'continue':
      return [];
  }
}

/** Returns whether the node prints only white space whatever the data: Liquid's blank body. */
function isBlank(node: Node): boolean {
  switch (node.kind) {
    case 'text':
      return node.text.trim() === '';
    case 'assign':
    case 'capture':
      return true;
    case 'if':
      return (
        node.branches.every(({ truth, body }) => truth === 'liquid' && body.every(isBlank)) &&
        node.otherwise.every(isBlank)
      );
    case 'for':
      return !node.isTable && node.body.every(isBlank) && node.otherwise.every(isBlank);
    case 'case':
      return node.whens.every(({ body }) => body.every(isBlank));
    default:
      return false;
  }
}

function dropText(body: Node[]): void {
  const rest = body.filter(({ kind }) => kind !== 'text');
  body.splice(0, body.length, ...rest);
}

interface Open {
  /** The block as messages name it: `{{#if}}`, `{% for %}`. */
  shown: string;
  /** The tag that closes it: `/if`, `endfor`. */
  closer: string;
  at: number;
  /** The list that following nodes are added to. */
  into: Node[];
  otherwise?(reader: Reader | null, at: number): void;
  /** Handles `elsif`, `when` and `{{else if}}`; returns whether it took the tag. */
  branch?(name: string, reader: Reader, at: number): boolean;
  seenElse: boolean;
  /** True for a block opened by `{{else each …}}`, which the outer end tag closes as well. */
  chained: boolean;
  /** The bodies of a Liquid block, which prints nothing if all of them are blank. */
  bodies?(): Node[][];
}

const DEEPEST = 32;

/** Parses a template. `look` is called often and may throw if that takes too long. */
export const parse = (source: string, look: () => void): Node[] => new Builder(look).build(source);

class Builder {
  private readonly root: Node[] = [];
  private readonly stack: Open[] = [];
  private readonly look: () => void;

  constructor(look: () => void) {
    this.look = look;
  }

  build(source: string): Node[] {
    for (const token of tokenize(source, this.look)) {
      this.look();
      this.take(token);
    }
    const open = this.stack.at(-1);
    if (open !== undefined) throw syntax(`${open.shown} is never closed`, open.at);
    return this.root;
  }

  private get into(): Node[] {
    return this.stack.at(-1)?.into ?? this.root;
  }

  private take(token: Token): void {
    switch (token.kind) {
      case 'text':
        this.into.push({ kind: 'text', text: token.text });
        return;
      case 'output':
        this.output(token);
        return;
      case 'open':
      case 'inverse':
        this.openBlock(token, token.kind === 'inverse', false);
        return;
      case 'close':
        this.closeBlock(token);
        return;
      case 'else':
        this.elseBlock(token);
        return;
      case 'tag':
        // Each of its lines is a tag.
        if (token.name === 'liquid') this.lines(token);
        else this.tag(token.name, this.reader(token, 'liquid'), token.at, token);
        return;
    }
  }

  private reader({ body, bodyAt }: { body: string; bodyAt: number }, language: Language = 'handlebars'): Reader {
    return new Reader(body, bodyAt, language, this.look);
  }

  private output(token: Extract<Token, { kind: 'output' }>): void {
    const reader = this.reader(token);
    // `{{ }}` prints nothing in Liquid; it is most likely a mistake in either language.
    if (reader.done) throw syntax(`'{{ }}' is empty`, token.at);
    const value = reader.output();
    reader.finish();
    this.into.push({ kind: 'output', value, raw: token.raw, at: token.at });
  }

  private push(open: Omit<Open, 'seenElse' | 'chained'> & { chained?: boolean }): void {
    if (this.stack.length >= DEEPEST) throw failed(`blocks are nested deeper than ${String(DEEPEST)}`, open.at);
    this.stack.push({ chained: false, ...open, seenElse: false });
  }

  // Handlebars

  private openBlock(token: { body: string; bodyAt: number; at: number }, negated: boolean, chained: boolean): void {
    const reader = this.reader(token);
    const { at } = token;
    const name = blockName(token.body);
    const closer = `/${name}`;
    const shown = `{{${negated ? '^' : '#'}${name}}}`;
    const common = { shown, closer, at, chained };
    if (name === 'if' || name === 'unless') {
      reader.takeName(name);
      this.ifBlock(common, {
        ...this.only(reader),
        truth: 'handlebars',
        negated: (name === 'unless') !== negated,
        body: [],
      });
      return;
    }
    const kind = name === 'each' || name === 'with' ? name : 'section';
    const isCall = kind === 'section' && helpers.has(name);
    if (isCall || negated) {
      const { test } = isCall ? { test: reader.call() } : this.only(reader);
      reader.finish();
      this.ifBlock(common, { test, zero: null, truth: isCall ? 'handlebars' : 'section', negated, body: [] });
      return;
    }
    if (kind !== 'section') reader.takeName(name);
    const { value, params } = this.withParams(reader);
    this.twoBodies(common, (bodies) => ({ kind, value, params, ...bodies, at }));
  }

  /** Opens a block with a body, and another one behind its `else`. */
  private twoBodies(
    block: Pick<Open, 'shown' | 'closer' | 'at'> & { chained?: boolean },
    nodeOf: (bodies: { body: Node[]; otherwise: Node[] }) => Node,
    hasElse = true,
  ): void {
    const body: Node[] = [];
    const otherwise: Node[] = [];
    this.into.push(nodeOf({ body, otherwise }));
    const end = { otherwise: () => (this.top.into = otherwise), bodies: () => [body, otherwise] };
    this.push({ ...block, into: body, ...(hasElse ? end : {}) });
  }

  private get top(): Open {
    const top = this.stack.at(-1);
    if (top === undefined) throw new Error('no block is open');
    return top;
  }

  /** Reads one term or call, and the option `includeZero`. */
  private only(reader: Reader): { test: Expression; zero: Expression | null } {
    const test = reader.callOrTerm();
    const zero = reader.done ? null : (reader.args().named.get('includeZero') ?? null);
    reader.finish();
    return { test, zero };
  }

  private withParams(reader: Reader): { value: Expression; params: string[] } {
    const value = reader.callOrTerm();
    const params: string[] = [];
    if (reader.takeName('as')) {
      if (!reader.takeMark('|')) throw reader.wrong(`'|'`);
      while (!reader.takeMark('|')) params.push(reader.name('a name'));
    }
    reader.finish();
    return { value, params };
  }

  private ifBlock(open: Pick<Open, 'shown' | 'closer' | 'at' | 'chained'>, first: Branch): void {
    const branches = [first];
    const otherwise: Node[] = [];
    this.into.push({ kind: 'if', branches, otherwise });
    this.push({
      ...open,
      ...(first.truth === 'liquid' ? { bodies: () => [...branches.map(({ body }) => body), otherwise] } : {}),
      into: first.body,
      otherwise: () => (this.top.into = otherwise),
      branch: (name, reader) => {
        if (name !== 'if' && name !== 'elsif') return false;
        const isLiquid = first.truth === 'liquid';
        const test = isLiquid ? { test: this.condition(reader), zero: null } : this.only(reader);
        const next: Branch = { ...test, truth: isLiquid ? 'liquid' : 'handlebars', negated: false, body: [] };
        // Liquid parses branches after its `else` and never runs them.
        if (!isLiquid || !this.top.seenElse) branches.push(next);
        this.top.into = next.body;
        return true;
      },
    });
  }

  private closeBlock({ body, at }: { body: string; at: number }): void {
    const closer = `/${blockName(body)}`;
    while (this.stack.at(-1)?.chained === true) this.stack.pop();
    const open = this.stack.at(-1);
    if (open?.closer !== closer) throw this.misplaced(`{{${closer}}}`, at);
    this.stack.pop();
  }

  private misplaced(shown: string, at: number): Error {
    const open = this.stack.at(-1);
    return syntax(
      open === undefined
        ? `'${shown}' closes nothing: no block is open`
        : `'${shown}' does not belong to the innermost open block (${open.shown})`,
      at,
    );
  }

  private elseBlock({ body, bodyAt, at }: { body: string; bodyAt: number; at: number }): void {
    const open = this.stack.at(-1);
    if (!open?.closer.startsWith('/')) throw this.misplaced('{{else}}', at);
    if (open.seenElse) throw syntax(`a second '{{else}}' in ${open.shown}`, at);
    if (body.trim() === '') {
      open.seenElse = true;
      open.otherwise?.(null, at);
      return;
    }
    const reader = this.reader({ body, bodyAt });
    if (blockName(body) === 'if') {
      reader.takeName('if');
      if (open.branch?.('if', reader, at) === true) return;
    }
    open.seenElse = true;
    open.otherwise?.(null, at);
    this.openBlock({ body, bodyAt, at }, false, true);
  }

  // Liquid

  private condition(reader: Reader): Expression {
    const test = reader.condition();
    reader.finish();
    return test;
  }

  private tag(name: string, reader: Reader, at: number, token: { body: string; bodyAt: number }): void {
    const shown = `{% ${name} %}`;
    switch (name) {
      case 'if':
      case 'unless': {
        const test = this.condition(reader);
        this.ifBlock(
          { shown, closer: `end${name}`, at, chained: false },
          { test, zero: null, truth: 'liquid', negated: name === 'unless', body: [] },
        );
        return;
      }
      case 'elsif':
      case 'when': {
        const open = this.stack.at(-1);
        if (open?.closer.startsWith('/') !== false || open.branch?.(name, reader, at) !== true)
          throw this.misplaced(shown, at);
        return;
      }
      case 'else': {
        const open = this.stack.at(-1);
        if (open?.closer.startsWith('/') !== false || open.otherwise === undefined) throw this.misplaced(shown, at);
        // A second `else` in `if` and `unless` never runs, as in Liquid; `case` handles its own.
        if (open.seenElse && open.closer !== 'endcase') open.into = [];
        else open.otherwise(reader, at);
        open.seenElse = true;
        return;
      }
      case 'for':
      case 'tablerow':
        this.forBlock(reader, at, name === 'tablerow');
        return;
      case 'case':
        this.caseBlock(reader, at);
        return;
      case 'capture': {
        const body: Node[] = [];
        const variable = reader.variable('the name of a variable');
        reader.finish();
        this.into.push({ kind: 'capture', name: variable, body });
        this.push({ shown, closer: 'endcapture', at, into: body });
        return;
      }
      case 'assign': {
        const variable = reader.variable('the name of a variable');
        if (!reader.takeMark('=')) throw reader.wrong(`'='`);
        const value = reader.filtered(reader.callOrTerm());
        reader.finish();
        this.into.push({ kind: 'assign', name: variable, value, at });
        return;
      }
      case 'echo': {
        if (reader.done) return;
        const value = reader.output();
        reader.finish();
        this.into.push({ kind: 'output', value, raw: false, at });
        return;
      }
      case 'increment':
      case 'decrement': {
        const variable = reader.variable('the name of a counter');
        reader.finish();
        this.into.push({ kind: 'step', name: variable, by: name === 'increment' ? 1 : -1 });
        return;
      }
      case 'cycle':
        this.cycle(reader, token.body, at);
        return;
      case 'break':
      case 'continue':
        reader.finish();
        this.into.push({ kind: name });
        return;
      case 'include':
      case 'render':
      case 'layout':
      case 'block':
        throw syntax(`${shown} is not part of this language: there are no partials`, at);
      default:
        break;
    }
    if (name.startsWith('end')) {
      this.endTag(name, reader, at);
      return;
    }
    throw syntax(name === '' ? `'{% %}' has no name` : `there is no tag '${name}'`, at);
  }

  private endTag(name: string, reader: Reader, at: number): void {
    while (this.stack.at(-1)?.chained === true) this.stack.pop();
    if (this.stack.at(-1)?.closer !== name) throw this.misplaced(`{% ${name} %}`, at);
    reader.finish();
    const bodies = this.stack.pop()?.bodies?.() ?? [];
    if (bodies.every((body) => body.every(isBlank))) for (const body of bodies) dropText(body);
  }

  private loopOptions(reader: Reader): ForOptions {
    const options: ForOptions = { limit: null, offset: null, reversed: false, cols: null };
    while (!reader.done) {
      reader.takeMark(',');
      // A comma may come last.
      if (reader.atEnd()) break;
      if (reader.takeName('reversed')) {
        options.reversed = true;
        continue;
      }
      const { at } = reader;
      const name = reader.name('limit, offset or reversed');
      if (!reader.takeMark(':')) throw reader.wrong(`':'`);
      if (name === 'offset' && reader.takeName('continue')) options.offset = 'continue';
      else if (name === 'limit' || name === 'offset' || name === 'cols') options[name] = reader.term();
      else throw syntax(`'${name}' is not an option of a loop: use limit, offset or reversed`, at);
    }
    return options;
  }

  private forBlock(reader: Reader, at: number, isTable: boolean): void {
    const name = reader.name('the name of a variable');
    if (!reader.takeName('in')) throw reader.wrong(`'in'`);
    const list = reader.term();
    const options = this.loopOptions(reader);
    const tag = isTable ? 'tablerow' : 'for';
    const block = { shown: `{% ${tag} %}`, closer: `end${tag}`, at };
    this.twoBodies(block, (bodies) => ({ kind: 'for', name, list, options, ...bodies, isTable, at }), !isTable);
  }

  private caseBlock(reader: Reader, at: number): void {
    const value = reader.value();
    reader.finish();
    const whens: When[] = [];
    const begin = (values: Expression[] | null): void => {
      const when: When = { values, body: [] };
      whens.push(when);
      this.top.into = when.body;
    };
    this.into.push({ kind: 'case', value, whens });
    this.push({
      shown: '{% case %}',
      closer: 'endcase',
      at,
      // Nodes before the first `when` belong to no branch.
      into: [],
      bodies: () => whens.map(({ body }) => body),
      otherwise: () => {
        begin(null);
      },
      branch: (tagName, terms) => {
        if (tagName !== 'when') return false;
        const values = [terms.term()];
        while (terms.takeMark(',') || terms.takeName('or')) values.push(terms.term());
        terms.finish();
        begin(values);
        return true;
      },
    });
  }

  private cycle(reader: Reader, body: string, at: number): void {
    const first = reader.term();
    let group: Expression | string = body.trim();
    const values: Expression[] = [];
    if (reader.takeMark(':')) group = first;
    else {
      values.push(first);
      reader.takeMark(',');
    }
    while (!reader.done) {
      values.push(reader.term());
      if (!reader.takeMark(',')) break;
    }
    reader.finish();
    if (values.length === 0) throw reader.wrong('a value');
    this.into.push({ kind: 'cycle', group, values, at });
  }

  /** Reads `{% liquid %}`: one tag on each line. */
  private lines({ body, bodyAt }: { body: string; bodyAt: number }): void {
    const depth = this.stack.length;
    let at = bodyAt;
    let skipping = 0;
    for (const line of body.split('\n')) {
      this.look();
      const { name, length: start } = headOf(line);
      const inner = { body: line.slice(start), bodyAt: at + start };
      const isTag = skipping === 0 && name !== '#' && line.trim() !== '';
      if (name === 'comment') skipping++;
      else if (name === 'endcomment') skipping--;
      else if (isTag && name === 'liquid') this.lines(inner);
      else if (isTag) this.tag(name, this.reader(inner, 'liquid'), inner.bodyAt, inner);
      at += line.length + 1;
    }
    const open = this.stack.at(-1);
    if (this.stack.length > depth && open !== undefined) throw syntax(`${open.shown} is never closed`, open.at);
  }
}

/** Returns the first word of a block tag: `#each items as |i|` is `each`, `#a.b` is `a.b`. */
const blockName = (body: string): string => /^\s*(\S+)/.exec(body)?.[1] ?? '';
