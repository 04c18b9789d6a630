/** The grammar inside a tag: a term (literal, path, range, call in parentheses) or a helper call, then filters; and Liquid's conditions. */
import { failed, syntax, type Faulty } from './fault.ts';
import { arityOf, filters, helpers } from './library.ts';
import { Float } from './value.ts';

export interface Path {
  /** `name` is looked up in the scope; `named` too, with the text of the first step as the name. `this`: the context. `data`: `@index` and its kin. */
  base: 'name' | 'named' | 'this' | 'root' | 'data';
  up: number;
  name: string;
  steps: readonly (string | Expression)[];
  text: string;
}

export type Expression =
  | { kind: 'literal'; value: string | number | boolean | null | Float }
  /** Liquid's words `empty` and `blank`: equal to empty values. */
  | { kind: 'nothing'; word: 'empty' | 'blank' }
  /** `orNow`: the time of the request if the name `now` is not given. */
  | { kind: 'path'; path: Path; at: number; orNow?: true }
  | { kind: 'range'; from: Expression; to: Expression }
  | { kind: 'call'; helper: string; args: readonly Expression[]; named: ReadonlyMap<string, Expression>; at: number }
  | { kind: 'filtered'; value: Expression; filters: readonly FilterCall[] }
  | { kind: 'compare'; operator: string; left: Expression; right: Expression; at: number }
  | { kind: 'logic'; operator: 'and' | 'or'; left: Expression; right: Expression };

export interface FilterCall {
  name: string;
  args: readonly Expression[];
  named: ReadonlyMap<string, Expression>;
  at: number;
}

/** Returns the expressions within an expression, in the order in which they are written. */
export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'path':
      return expression.path.steps.filter((step) => typeof step !== 'string');
    case 'range':
      return [expression.from, expression.to];
    case 'call':
      return [...expression.args, ...expression.named.values()];
    case 'filtered':
      return [expression.value, ...expression.filters.flatMap(({ args, named }) => [...args, ...named.values()])];
    case 'compare':
    case 'logic':
      return [expression.left, expression.right];
    case 'literal':
    case 'nothing':
      return [];
  }
}

const MOST_NESTED = 32;

/** The data of a block, besides the root: names behind `@`. */
const DATA: ReadonlySet<string> = new Set(['index', 'key', 'first', 'last']);

const unknownData = (name: string): string =>
  name === 'content'
    ? "there are no layouts: write this template's text in place of '@content'"
    : `there is no '@${name}': known are @index, @key, @first, @last, @root`;

export class Reader {
  private readonly lexemes: readonly Lexeme[];
  private place = 0;
  private depth = 0;
  private readonly language: Language;
  private readonly end: number;

  constructor(body: string, bodyAt: number, language: Language, look: () => void) {
    this.language = language;
    this.lexemes = readLexemes(body, bodyAt, language, look);
    this.end = bodyAt + body.length;
  }

  get done(): boolean {
    return this.place >= this.lexemes.length;
  }

  /** Returns `done`; a method, so that TypeScript does not reuse an earlier answer. */
  atEnd(): boolean {
    return this.done;
  }

  get at(): number {
    return this.lexemes[this.place]?.at ?? this.end;
  }

  private peek(ahead = 0): Lexeme | undefined {
    return this.lexemes[this.place + ahead];
  }

  isMark(text: string, ahead = 0): boolean {
    const next = this.peek(ahead);
    return next?.kind === 'mark' && next.text === text;
  }

  isName(text: string): boolean {
    const next = this.peek();
    return next?.kind === 'name' && next.text === text;
  }

  takeMark(text: string): boolean {
    if (!this.isMark(text)) return false;
    this.place++;
    return true;
  }

  takeName(text: string): boolean {
    if (!this.isName(text)) return false;
    this.place++;
    return true;
  }

  /** Takes a plain name. Throws if something else is next. */
  name(what: string): string {
    const next = this.peek();
    if (next?.kind !== 'name') throw this.wrong(what);
    this.place++;
    return next.text;
  }

  /** Takes the name of a variable that a Liquid tag sets. Throws if something else is next. */
  variable(what: string): string {
    const next = this.peek();
    const isName =
      next?.kind === 'name' || next?.kind === 'string' || (next?.kind === 'number' && /^\d+$/.test(next.text));
    if (!isName) throw this.wrong(what);
    if (next.text.startsWith('-')) throw syntax(`a name cannot begin with '-'`, this.at);
    this.place++;
    return next.text;
  }

  finish(): void {
    if (!this.done) throw syntax(`'${this.peek()?.text ?? ''}' is not expected here: remove it`, this.at);
  }

  wrong(what: string): Error {
    const next = this.peek();
    return syntax(
      next === undefined ? `${what} is missing` : `'${next.text}' was found where ${what} was expected`,
      this.at,
    );
  }

  /** Reads the content of `{{ }}`: a term or a helper call, then filters. */
  output(): Expression {
    return this.filtered(this.callOrTerm());
  }

  value(): Expression {
    return this.filtered(this.term());
  }

  callOrTerm(): Expression {
    const first = this.peek();
    const callable = first?.kind === 'name' && !isPathMark(this.peek(1));
    if (callable) {
      const next = this.peek(1);
      const isCall =
        next !== undefined && (next.kind !== 'mark' || ['(', '@', '../', './', '.', '['].includes(next.text));
      // `items as |item|`: the words after `items` belong to the block.
      const isBlockParams = next?.kind === 'name' && next.text === 'as' && this.isMark('|', 2);
      // `{{#if count includeZero=true}}`: the option belongs to the block.
      const isOption = next?.kind === 'name' && this.isMark('=', 2) && !helpers.has(first.text);
      if (isCall && !isBlockParams && !isOption) return this.call();
    }
    return this.term();
  }

  call(): Expression {
    const { at } = this;
    const helper = this.name('the name of a helper');
    if (!helpers.has(helper)) throw syntax(`there is no helper '${helper}'`, at);
    const { args, named } = this.args();
    const [first, ...rest] = args;
    const dated = helper === 'formatDate' && first !== undefined ? [orNow(first), ...rest] : args;
    return { kind: 'call', helper, args: dated, named, at };
  }

  args(): { args: Expression[]; named: Map<string, Expression> } {
    const args: Expression[] = [];
    const named = new Map<string, Expression>();
    while (!this.done && !this.isMark('|') && !this.isMark(')') && !this.isName('as')) this.argument('=', args, named);
    return { args, named };
  }

  /** Reads a value, or a name, the mark and a value. */
  private argument(mark: string, args: Expression[], named: Map<string, Expression>): void {
    if (this.peek()?.kind === 'name' && this.isMark(mark, 1)) {
      const key = this.name('a name');
      this.place++;
      named.set(key, this.term());
    } else args.push(this.term());
  }

  filtered(value: Expression): Expression {
    const calls: FilterCall[] = [];
    while (this.takeMark('|')) calls.push(this.filter());
    const [first] = calls;
    if (first === undefined) return value;
    return { kind: 'filtered', value: first.name === 'date' ? orNow(value) : value, filters: calls };
  }

  private filter(): FilterCall {
    const { at } = this;
    const name = this.name('the name of a filter');
    if (!filters.has(name)) throw syntax(`there is no filter '${name}'`, at);
    const args: Expression[] = [];
    const named = new Map<string, Expression>();
    if (this.takeMark(':')) {
      do {
        this.argument(':', args, named);
      } while (this.takeMark(','));
    }
    const [least, most] = arityOf(name);
    if (args.length < least || args.length > most)
      throw syntax(`the filter '${name}' takes ${argumentCount(least, most)}`, at);
    return { name, args, named, at };
  }

  /** Reads a Liquid condition: `and` and `or` are read from the right, without precedence. */
  condition(): Expression {
    return this.nested(() => {
      const left = this.comparison();
      for (const operator of ['and', 'or'] as const)
        if (this.takeName(operator)) return { kind: 'logic', operator, left, right: this.condition() };
      return left;
    }, MOST_CONDITIONS);
  }

  private comparison(): Expression {
    const left = this.term();
    const { at } = this;
    for (const operator of ['==', '!=', '<>', '<=', '>=', '<', '>'])
      if (this.takeMark(operator)) return { kind: 'compare', operator, left, right: this.term(), at };
    if (this.takeName('contains')) return { kind: 'compare', operator: 'contains', left, right: this.term(), at };
    return left;
  }

  term(): Expression {
    return this.nested(() => this.oneTerm(), MOST_NESTED);
  }

  private nested<T>(read: () => T, most: number): T {
    if (++this.depth > most) throw failed('this is nested too deep', this.at);
    try {
      return read();
    } finally {
      this.depth--;
    }
  }

  private oneTerm(): Expression {
    const next = this.peek();
    if (next === undefined) throw this.wrong('a value');
    if (next.kind === 'string') {
      this.place++;
      return { kind: 'literal', value: next.text };
    }
    if (next.kind === 'number') {
      this.place++;
      const value = Number(next.text);
      return { kind: 'literal', value: next.text.includes('.') && Number.isInteger(value) ? new Float(value) : value };
    }
    if (next.kind === 'mark' && next.text === '(') return this.parenthesis();
    if (next.kind === 'name' && !isPathMark(this.peek(1))) {
      const word = words.get(next.text);
      // Handlebars has no such words: data may use them as names.
      if (word !== undefined && (word.kind !== 'nothing' || this.language === 'liquid')) {
        this.place++;
        return word;
      }
    }
    return this.path();
  }

  /** Reads `(1..5)` or a call. */
  private parenthesis(): Expression {
    this.place++;
    const { at } = this;
    const value = this.callOrTerm();
    if (this.takeMark('..')) {
      const to = this.term();
      if (!this.takeMark(')')) throw this.wrong(`')'`);
      return { kind: 'range', from: value, to };
    }
    if (!this.takeMark(')')) throw this.wrong(`')'`);
    if (value.kind !== 'call') throw syntax('parentheses hold a range or the call of a helper', at);
    return value;
  }

  private path(): Expression {
    const { at } = this;
    const start = this.place;
    let up = 0;
    while (this.takeMark('../')) up++;
    let base: Path['base'] = up > 0 ? 'this' : 'name';
    let name = '';
    const steps: (string | Expression)[] = [];
    if (this.takeMark('@')) {
      base = 'data';
      while (this.takeMark('../')) up++;
      name = this.name('a name behind @');
      if (name === 'root') base = 'root';
      else if (!DATA.has(name)) throw syntax(unknownData(name), at);
    } else if (this.takeMark('./')) {
      base = 'this';
      if (this.peek()?.kind !== 'segment') steps.push(this.name('a name'));
      else steps.push(this.segment());
    } else if (this.isMark('..')) {
      this.place++;
      base = 'this';
      up++;
    } else if (this.isMark('.')) {
      this.place++;
      base = 'this';
    } else if (this.takeName('this')) base = 'this';
    else if (this.peek()?.kind === 'segment') {
      const first = this.segment();
      if (base === 'name') name = first;
      else steps.push(first);
    } else if (this.isMark('[') && up === 0) {
      // `["a name"]`, or in Liquid the value of another path: also a name of the data.
      const step = this.bracket();
      if (typeof step === 'string') name = step;
      else {
        base = 'named';
        steps.push(step);
      }
    } else if (this.peek()?.kind === 'name') {
      const first = this.name('a name');
      if (base === 'name') name = first;
      else steps.push(first);
    } else if (up === 0 || (!this.done && !isEnd(this.peek()))) throw this.wrong('a value');
    this.steps(steps);
    const text = this.lexemes
      .slice(start, this.place)
      .map((lexeme) => lexeme.text)
      .join('');
    return { kind: 'path', path: { base, up, name, steps, text }, at };
  }

  private steps(steps: (string | Expression)[]): void {
    for (;;) {
      const next = this.peek();
      if (next === undefined || next.spaced || next.kind !== 'mark') return;
      if (next.text === '.' || next.text === '/') {
        this.place++;
        const step = this.peek();
        if (step?.kind === 'segment') steps.push(this.segment());
        else {
          if (step === undefined || step.spaced || (step.kind !== 'name' && step.kind !== 'number'))
            throw this.wrong(`a name behind '${next.text}'`);
          if (next.text === '/' && step.text === 'this') throw syntax(`'this' can only begin a path`, this.at);
          this.place++;
          steps.push(step.text);
        }
      } else if (next.text === '[') steps.push(this.bracket());
      else return;
    }
  }

  private segment(): string {
    const text = this.peek()?.text ?? '';
    this.place++;
    return text;
  }

  /** Reads `[0]`, `["key"]` or `[other.path]`. */
  private bracket(): string | Expression {
    this.place++;
    const first = this.peek();
    if ((first?.kind === 'number' || first?.kind === 'string') && this.isMark(']', 1)) {
      this.place += 2;
      return first.text;
    }
    const value = this.term();
    if (!this.takeMark(']')) throw this.wrong(`']'`);
    return value;
  }
}

/** Marks the name `now` if a date is written of it. A variable of that name wins, so only its use tells. */
function orNow(value: Expression): Expression {
  if (value.kind !== 'path') return value;
  const { base, name, steps } = value.path;
  return base === 'name' && name === 'now' && steps.length === 0 ? { ...value, orNow: true } : value;
}

const argumentCount = (least: number, most: number): string =>
  most === 0
    ? 'no values'
    : least === most
      ? `${String(least)} value${least === 1 ? '' : 's'}`
      : `${String(least)} to ${String(most)} values`;

/** Conditions in one tag; they are read by recursion. */
const MOST_CONDITIONS = 500;

const words: ReadonlyMap<string, Expression> = new Map<string, Expression>([
  ['true', { kind: 'literal', value: true }],
  ['false', { kind: 'literal', value: false }],
  ['null', { kind: 'literal', value: null }],
  ['nil', { kind: 'literal', value: null }],
  ['undefined', { kind: 'literal', value: null }],
  ['empty', { kind: 'nothing', word: 'empty' }],
  ['blank', { kind: 'nothing', word: 'blank' }],
]);

function isPathMark(lexeme: Lexeme | undefined): boolean {
  return lexeme?.kind === 'mark' && !lexeme.spaced && ['.', '[', '/'].includes(lexeme.text);
}

const isEnd = (lexeme: Lexeme | undefined): boolean =>
  lexeme?.kind === 'mark' && ['|', ')', ',', ']'].includes(lexeme.text);

// Names, numbers, texts and marks inside a tag.

interface Lexeme {
  /** `segment`: Handlebars' `[any text]`, a name with characters that names cannot have. */
  kind: 'string' | 'number' | 'name' | 'mark' | 'segment';
  text: string;
  at: number;
  /** True if white space comes before it. */
  spaced: boolean;
}

/** Quotes that word processors write, and invisible characters: a name that held one would never be found in the data. */
const STRAY = /[\p{Pi}\p{Pf}\p{Cf}\u201a\u201e]/u;
const NAME = /[^\s!"#%&'()*+,./:;<=>@[\\\]^`{|}~\p{Pi}\p{Pf}\p{Cf}\u201a\u201e]+/uy;
const NUMBER = /-?\d+(?:\.\d+)?(?=\.\.|[\s,|:=<>!)\]}~]|$)/y;
const BLANKS = /\s+/y;
const MARKS = '== != <> <= >= ../ ./ .. . | : , = < > ( ) [ ] @ /'.split(' ');
/** The language of a tag: `[name]` at the start of a path is a name in Handlebars, but in Liquid the value of `name`. */
export type Language = 'handlebars' | 'liquid';

const BEFORE_SEGMENT: ReadonlySet<string> = new Set(['.', '/', './', '../']);

/** Returns whether the next bracket has a literal name. */
function isSegment(last: Lexeme | undefined, spaced: boolean, behind: string | undefined, language: Language): boolean {
  const joined = last !== undefined && !spaced;
  if (joined && last.kind === 'mark' && BEFORE_SEGMENT.has(last.text)) return true;
  if (language === 'liquid' || behind === '"' || behind === "'") return false;
  return !joined || last.text === '(' || last.text === '=';
}

const unquoted = (text: string): string => (/^(["']).*\1$/.test(text) ? text.slice(1, -1) : text);

function matched(pattern: RegExp, body: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(body)?.[0] ?? null;
}

function readLexemes(body: string, bodyAt: number, language: Language, look: () => void): Lexeme[] {
  const lexemes: Lexeme[] = [];
  let at = 0;
  while (at < body.length) {
    if (lexemes.length % LEXEMES_A_LOOK === LEXEMES_A_LOOK - 1) look();
    const blanks = matched(BLANKS, body, at)?.length ?? 0;
    at += blanks;
    if (at >= body.length) break;
    const { length, ...lexeme } = lexemeAt(body, at, { bodyAt, language, last: lexemes.at(-1), spaced: blanks > 0 });
    lexemes.push(lexeme);
    at += length;
  }
  return lexemes;
}

/** Lexemes between two looks at the clock. */
const LEXEMES_A_LOOK = 32;

function lexemeAt(
  body: string,
  at: number,
  { bodyAt, language, last, spaced }: { bodyAt: number; language: Language; last: Lexeme | undefined; spaced: boolean },
): Lexeme & { length: number } {
  const make = (kind: Lexeme['kind'], text: string, length = text.length) => ({
    kind,
    text,
    at: bodyAt + at,
    spaced,
    length,
  });
  const char = body[at] ?? '';
  if (char === '"' || char === "'") {
    const end = body.indexOf(char, at + 1);
    if (end < 0) throw syntax(`the text that begins with ${char} is never closed`, bodyAt + at);
    return make('string', body.slice(at + 1, end), end + 1 - at);
  }
  if (char === '[' && isSegment(last, spaced, body[at + 1], language)) {
    const end = body.indexOf(']', at + 1);
    if (end < 0) throw syntax(`'[' is never closed`, bodyAt + at);
    return make('segment', unquoted(body.slice(at + 1, end)), end + 1 - at);
  }
  const afterDot = last?.kind === 'mark' && last.text === '.' && !spaced;
  const number = afterDot ? null : matched(NUMBER, body, at);
  if (number !== null) return make('number', number);
  const name = matched(NAME, body, at);
  if (name !== null) return make('name', name);
  const mark = MARKS.find((one) => body.startsWith(one, at));
  if (mark === undefined) throw notUnderstood(char, bodyAt + at);
  return make('mark', mark);
}

function notUnderstood(char: string, at: number): Faulty {
  if (/\p{Cf}/u.test(char))
    return syntax(
      `there is an invisible character (U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}): remove it`,
      at,
    );
  return syntax(
    STRAY.test(char) ? `'${char}' is not a quote here: write " or '` : `'${char}' is not understood here`,
    at,
  );
}
