/** Evaluates the tree, with one stack of scopes and one escaping, at output. Values are never read as source: braces in data are printed. */
import { escapeHtml } from '../../base/html.ts';
import type { Expression, FilterCall, Path } from './expression.ts';
import { failed, Faulty, TooSlow } from './fault.ts';
import { filters, helpers, type Surroundings } from './library.ts';
import type { ForOptions, Node } from './tree.ts';
import { Output } from './output.ts';
import {
  compare,
  haveNoOrder,
  isEqual,
  isObject,
  isTrue,
  listOf,
  memberOf,
  MOST_OUTPUT,
  Nothing,
  plain,
  Range,
  Safe,
  textOf,
  UNSUBSCRIBE_URL,
  weightOf,
} from './value.ts';
import { words } from '../../base/words.ts';

export interface EvaluateOptions extends Surroundings {
  variables: Readonly<Record<string, unknown>>;
  /** If true, a missing variable is a fault; otherwise it prints nothing. */
  strict: boolean;
  /** If true, a missing variable that is printed is written as `⟦name⟧`, whatever `strict` is: for a preview. */
  marksMissing?: boolean;
  limitMs: number;
  monotonic(): number;
  /** Larger values (in characters and elements) throw `TooSlow`, to be rendered elsewhere. Default: no limit. */
  mostWeight?: number;
}

const MOST_TURNS = 50_000;
const LONGEST_LIST = 50_000;
/** Steps between two looks at the clock, which cost more than a small step. */
const STEPS_A_LOOK = 64;
/** Characters or elements that cost about as much as one step. */
const WEIGHT_A_STEP = 128;

/** The most that a search for a text may cost, as the product of both lengths: in a thread, and in the main loop for each unit of weight. */
const MOST_SEARCHED = 1_000_000_000;
const SEARCHED_A_WEIGHT = 64;
/** Filters that look for a text. */
const searching: ReadonlySet<string> = new Set(
  words('remove remove_first remove_last replace replace_first replace_last split'),
);

type Flow = 'break' | 'continue' | null;

export function evaluate(nodes: readonly Node[], options: EvaluateOptions): string {
  return new Evaluation(options).text(nodes);
}

class Evaluation {
  private readonly options: EvaluateOptions;
  /** Block-local names, innermost last; the first map is the template's own, for `assign`. */
  private readonly locals: Map<string, unknown>[] = [new Map<string, unknown>()];
  private readonly counters = new Map<string, number>();
  private readonly cycles = new Map<string, number>();
  private readonly offsets = new Map<string, number>();
  /** The contexts that `{{#each}}` and `{{#with}}` entered, innermost last; the first is the root. */
  private readonly contexts: unknown[];
  private readonly data: ReadonlyMap<string, unknown>[] = [new Map()];
  private out = new Output();
  private written = 0;
  private turns = 0;
  private steps = 0;
  private readonly startedAt: number;

  constructor(options: EvaluateOptions) {
    this.options = options;
    this.contexts = [options.variables];
    this.startedAt = options.monotonic();
  }

  text(nodes: readonly Node[]): string {
    this.all(nodes);
    return this.oneLine(this.out.text());
  }

  private write(text: string): void {
    this.written += text.length;
    if (this.written > MOST_OUTPUT) throw failed(`the output is longer than ${String(MOST_OUTPUT)} characters`);
    this.out.write(text);
  }

  /** Counts a step and looks at the clock from time to time. `weight`: characters or elements that the step handles. */
  private step(weight = 0): void {
    this.steps += 1 + Math.floor(weight / WEIGHT_A_STEP);
    if (this.steps < STEPS_A_LOOK) return;
    this.steps = 0;
    if (this.options.monotonic() - this.startedAt > this.options.limitMs) throw new TooSlow(this.options.limitMs);
  }

  private turn(): void {
    if (++this.turns > MOST_TURNS) throw failed(`the loops run more than ${String(MOST_TURNS)} times`);
    this.step();
  }

  private all(nodes: readonly Node[]): Flow {
    for (const node of nodes) {
      const flow = this.one(node);
      if (flow !== null) return flow;
    }
    return null;
  }

  /** Returns the path of a variable that has no value and so would leave a hole in the output, or null. */
  private missingIn(expression: Expression): string | null {
    switch (expression.kind) {
      case 'path':
        return expression.orNow !== true && this.find(expression.path) == null ? expression.path.text : null;
      case 'filtered':
        return expression.filters.some(({ name }) => name === 'default') ? null : this.missingIn(expression.value);
      case 'call': {
        if (mayBeMissing.has(expression.helper)) return null;
        for (const one of expression.args) {
          const missing = this.missingIn(one);
          if (missing !== null) return missing;
        }
        return null;
      }
      default:
        return null;
    }
  }

  private one(node: Node): Flow {
    this.step();
    switch (node.kind) {
      case 'text':
        this.write(node.text);
        return null;
      case 'output':
        this.output(node);
        return null;
      case 'if': {
        for (const { test, truth, zero, negated, body } of node.branches) {
          const value = this.value(test, truth === 'section');
          const isZero = zero !== null && plain(value) === 0 && isTrue(this.value(zero), truth);
          if ((isZero || isTrue(value, truth)) !== negated) return this.all(body);
        }
        return this.all(node.otherwise);
      }
      case 'each':
        return this.each(this.value(node.value), node);
      case 'with': {
        const value = this.value(node.value);
        return plain(value) === 0 || isTrue(value, 'handlebars') ? this.within(value, node) : this.all(node.otherwise);
      }
      case 'section':
        return this.section(node);
      case 'for':
        return this.for(node);
      case 'case': {
        const value = this.value(node.value, false);
        let met = false;
        for (const { values, body } of node.whens) {
          if (values === null ? met : !values.some((one) => isEqual(value, this.value(one, false)))) continue;
          if (values !== null) met = true;
          const flow = this.all(body);
          if (flow !== null) return flow;
        }
        return null;
      }
      case 'assign':
        this.locals[0]?.set(node.name, this.value(node.value));
        return null;
      case 'capture': {
        const { flow, text } = this.captured(node.body);
        this.locals[0]?.set(node.name, new Safe(text));
        return flow;
      }
      case 'step': {
        const before = this.counters.get(node.name) ?? 0;
        // `increment` prints before it counts; `decrement` counts first.
        this.counters.set(node.name, before + node.by);
        this.write(String(node.by > 0 ? before : before - 1));
        return null;
      }
      case 'cycle':
        this.cycle(node);
        return null;
      case 'break':
      case 'continue':
        return node.kind;
    }
  }

  private captured(body: readonly Node[]): { flow: Flow; text: string } {
    const before = this.out;
    this.out = new Output();
    try {
      const flow = this.all(body);
      return { flow, text: this.out.text() };
    } finally {
      this.out = before;
    }
  }

  private output({ value: expression, raw, at }: Extract<Node, { kind: 'output' }>): void {
    const missing = this.options.marksMissing === true ? this.missingIn(expression) : null;
    if (missing !== null) {
      this.write(this.fit(`⟦${missing}⟧`));
      return;
    }
    const value = this.value(expression);
    const text = textOf(value);
    this.step(text.length);
    if (this.options.part === 'html') this.out.noteValue(at);
    this.write(raw || value instanceof Safe ? text : this.fit(text));
  }

  /** Makes a value fit the part: in an address, nothing of it ends a name or begins another mailbox. */
  private fit(text: string): string {
    const { part } = this.options;
    if (part === 'html') return escapeHtml(text);
    return part === 'address' ? text.replace(/[<>()[\]\\,;:"]/g, '') : text;
  }

  /** Replaces line breaks in a header: they would start another header. */
  private oneLine(text: string): string {
    const { part } = this.options;
    return part === 'html' || part === 'text' ? text : text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  }

  // Handlebars' blocks

  private section(node: Extract<Node, { params: unknown }>): Flow {
    const value = this.value(node.value);
    if (Array.isArray(plain(value))) return this.each(value, node);
    if (!isTrue(value, 'section')) return this.all(node.otherwise);
    return plain(value) === true ? this.all(node.body) : this.within(value, node);
  }

  private within(value: unknown, { params, body }: { params: readonly string[]; body: readonly Node[] }): Flow {
    const [name] = params;
    // As in Handlebars, an unchanged context adds no level for `../`.
    const isNew = value !== this.contexts.at(-1);
    if (isNew) this.contexts.push(value);
    if (name !== undefined) this.locals.push(new Map([[name, value]]));
    const flow = this.all(body);
    if (name !== undefined) this.locals.pop();
    if (isNew) this.contexts.pop();
    return flow;
  }

  private each(
    given: unknown,
    { params, body, otherwise }: { params: readonly string[]; body: readonly Node[]; otherwise: readonly Node[] },
  ): Flow {
    const value = plain(given);
    const pairs: [string | number, unknown][] = isObject(value)
      ? Object.entries(value)
      : listOf(typeof value === 'string' ? [] : value, MOST_TURNS).map((one, n) => [n, one]);
    if (pairs.length === 0) return this.all(otherwise);
    this.step(pairs.length);
    for (const [index, [key, item]] of pairs.entries()) {
      this.turn();
      this.data.push(
        new Map<string, unknown>([
          ['index', index],
          ['key', key],
          ['first', index === 0],
          ['last', index === pairs.length - 1],
        ]),
      );
      this.contexts.push(item);
      const names = params.slice(0, 2);
      if (names.length > 0) this.locals.push(new Map(names.map((name, n) => [name, n === 0 ? item : key])));
      const flow = this.all(body);
      if (names.length > 0) this.locals.pop();
      this.contexts.pop();
      this.data.pop();
      // Liquid's `break` leaves the innermost loop of either language.
      if (flow === 'break') break;
    }
    return null;
  }

  // Liquid's loops

  private items(name: string, list: Expression, options: ForOptions): unknown[] {
    const group = loopName(name, list);
    const value = this.value(list);
    const whole = listOf(value, MOST_TURNS);
    this.step(whole.length);
    const offset = options.offset === 'continue' ? (this.offsets.get(group) ?? 0) : this.number(options.offset, 0);
    const limit = this.number(options.limit, whole.length);
    const part = whole.slice(offset, offset + Math.max(0, limit));
    this.offsets.set(group, offset + part.length);
    return options.reversed ? part.reverse() : part;
  }

  private number(expression: Expression | null, fallback: number): number {
    if (expression === null) return fallback;
    const given = plain(this.value(expression));
    const value = Number(given);
    if (typeof given === 'string' && Number.isNaN(value))
      throw failed(`'${given.slice(0, 40)}' is not a number for a loop`);
    return Number.isFinite(value) ? Math.max(0, Math.trunc(value)) : 0;
  }

  /** Runs the body once for each item, under the loop's name, until one breaks. */
  private loop(
    name: string,
    items: readonly unknown[],
    turn: (index: number, local: Map<string, unknown>) => Flow,
  ): void {
    const local = new Map<string, unknown>();
    this.locals.push(local);
    for (const [index, item] of items.entries()) {
      this.turn();
      local.set(name, item);
      if (turn(index, local) === 'break') break;
    }
    this.locals.pop();
  }

  private for({ name, list, options, body, otherwise, isTable }: Extract<Node, { kind: 'for' }>): Flow {
    const items = this.items(name, list, options);
    if (isTable) return this.tablerow(name, items, this.number(options.cols, items.length), body);
    if (items.length === 0) return this.all(otherwise);
    const parent = this.lookUpLocal('forloop');
    this.loop(name, items, (index, local) => {
      const facts = { ...loopFacts(index, items.length), name: loopName(name, list), parentloop: parent ?? null };
      local.set('forloop', facts);
      return this.all(body);
    });
    return null;
  }

  private tablerow(name: string, items: readonly unknown[], cols: number, body: readonly Node[]): Flow {
    const width = Math.max(1, cols);
    this.write('<tr class="row1">\n');
    this.loop(name, items, (index, local) => {
      const col = index % width;
      const row = Math.floor(index / width) + 1;
      if (col === 0 && index > 0) this.write(`</tr>\n<tr class="row${String(row)}">`);
      const facts = {
        ...loopFacts(index, items.length),
        col: col + 1,
        col0: col,
        col_first: col === 0,
        col_last: col === width - 1 || index === items.length - 1,
        row,
      };
      local.set('tablerowloop', facts);
      this.write(`<td class="col${String(col + 1)}">`);
      const flow = this.all(body);
      this.write('</td>');
      return flow;
    });
    this.write('</tr>\n');
    return null;
  }

  private cycle({ group, values, at }: Extract<Node, { kind: 'cycle' }>): void {
    const key = typeof group === 'string' ? group : `:${textOf(this.value(group))}`;
    const turn = this.cycles.get(key) ?? 0;
    this.cycles.set(key, turn + 1 < values.length ? turn + 1 : 0);
    // Another group of the same name may have had more values.
    const next = values[turn];
    if (next === undefined) return;
    const value = this.value(next);
    if (this.options.part === 'html') this.out.noteValue(at);
    this.write(value instanceof Safe ? textOf(value) : this.fit(textOf(value)));
  }

  // Expressions

  /**
   * Evaluates an expression. `strictly`: a missing name is a fault if the template is strict. Questions such as `if` may name a missing variable;
   * `{{#name}}` and `{{^name}}` may not, as in Handlebars, since they also use the value.
   */
  private value(expression: Expression, strictly = true): unknown {
    // One tag may have ten thousand of them.
    this.step();
    switch (expression.kind) {
      case 'literal':
        return expression.value;
      case 'nothing':
        return new Nothing(expression.word);
      case 'path': {
        const value = this.find(expression.path);
        if (value === undefined && expression.orNow === true) return 'now';
        if (value === undefined && strictly && this.options.strict) {
          const { text } = expression.path;
          throw new Faulty('missing_variable', `the variable '${text}' is not given`, expression.at, text);
        }
        return value;
      }
      case 'range':
        return this.range(expression);
      case 'call': {
        const helper = helpers.get(expression.helper);
        if (helper === undefined) throw failed(`there is no helper '${expression.helper}'`, expression.at);
        const asks = mayBeMissing.has(expression.helper);
        const args = expression.args.map((one) => this.value(one, strictly && !asks));
        return this.bounded(helper(this.options, args, this.named(expression.named)), expression.at);
      }
      case 'filtered': {
        const [first] = expression.filters;
        const value = this.value(expression.value, strictly && first?.name !== 'default');
        return expression.filters.reduce((before, call) => this.filter(before, call), value);
      }
      case 'compare':
        return this.compared(expression);
      case 'logic': {
        const left = isTrue(this.value(expression.left, false), 'liquid');
        if (expression.operator === 'and' ? !left : left) return left;
        return isTrue(this.value(expression.right, false), 'liquid');
      }
    }
  }

  private compared({ left, operator, right, at }: Extract<Expression, { kind: 'compare' }>): boolean {
    const [a, b] = [this.value(left, false), this.value(right, false)];
    if (haveNoOrder(a, operator, b)) throw failed(`'${operator}' compares a text with a number`, at);
    const inner = plain(a);
    if (typeof inner === 'string' || Array.isArray(inner)) this.step(inner.length);
    if (operator === 'contains' && typeof inner === 'string') this.search(inner, b, at);
    return compare(a, operator, b);
  }

  private range({ from, to }: Extract<Expression, { kind: 'range' }>): Range {
    const whole = (expression: Expression): number => {
      const value = Number(plain(this.value(expression)));
      return Number.isFinite(value) ? Math.trunc(value) : 0;
    };
    return new Range(whole(from), whole(to));
  }

  private named(expressions: ReadonlyMap<string, Expression>): ReadonlyMap<string, unknown> {
    return new Map([...expressions].map(([name, one]) => [name, this.value(one)]));
  }

  private filter(value: unknown, { name, args, named, at }: FilterCall): unknown {
    const filter = filters.get(name);
    if (filter === undefined) throw failed(`there is no filter '${name}'`, at);
    if (value instanceof Range && value.length > LONGEST_LIST)
      throw failed(`a range is longer than ${String(LONGEST_LIST)}`, at);
    const input = value instanceof Range ? listOf(value, LONGEST_LIST) : value instanceof Nothing ? '' : value;
    const given = args.map((one) => this.value(one));
    this.weigh([input, ...given], at);
    if (searching.has(name)) this.search(input, given[0], at);
    try {
      return this.bounded(filter(this.options, input, given, this.named(named)), at);
    } catch (error) {
      throw error instanceof Faulty && error.at === null ? new Faulty(error.code, error.message, at) : error;
    }
  }

  /** Limits the size of a filter's values: a filter runs as long as they are large, without a look at the clock. */
  private weigh(values: readonly unknown[], at: number): void {
    const { mostWeight, limitMs } = this.options;
    const weight = values.reduce<number>((sum, one) => sum + weightOf(one, mostWeight ?? MOST_OUTPUT), 0);
    if (mostWeight !== undefined && weight > mostWeight) throw new TooSlow(limitMs);
    if (weight > 2 * MOST_OUTPUT) throw failed(`a filter is given more than ${String(MOST_OUTPUT)} characters`, at);
    this.step(weight);
  }

  /** Limits the cost of a search for a text in another one: the worst case is the product of their lengths, and the clock is not read meanwhile. */
  private search(text: unknown, sought: unknown, at: number): void {
    const { mostWeight, limitMs } = this.options;
    const cost = weightOf(text, MOST_OUTPUT) * weightOf(sought, MOST_OUTPUT);
    if (mostWeight !== undefined && cost > mostWeight * SEARCHED_A_WEIGHT) throw new TooSlow(limitMs);
    if (cost > MOST_SEARCHED) throw failed('a long text is looked for in a longer one', at);
  }

  /** Limits the size of a value, which could double with every assignment. */
  private bounded(value: unknown, at: number): unknown {
    const inner = plain(value);
    if (typeof inner === 'string' && inner.length > MOST_OUTPUT)
      throw failed(`a text grows longer than ${String(MOST_OUTPUT)} characters`, at);
    if (Array.isArray(inner) && inner.length > LONGEST_LIST)
      throw failed(`a list grows longer than ${String(LONGEST_LIST)} entries`, at);
    return value;
  }

  private find(path: Path): unknown {
    let value = this.start(path);
    for (const step of path.base === 'named' ? path.steps.slice(1) : path.steps) {
      if (value === undefined || value === null) return undefined;
      value = memberOf(value, typeof step === 'string' ? step : textOf(this.value(step)));
    }
    return value;
  }

  private start({ base, up, name, steps: [first] }: Path): unknown {
    switch (base) {
      case 'name':
        return this.lookUp(name);
      case 'named':
        return this.lookUp(typeof first === 'object' ? textOf(this.value(first)) : '');
      case 'this':
        return this.contexts[this.contexts.length - 1 - up];
      case 'root':
        return this.contexts[0];
      case 'data':
        return this.data[this.data.length - 1 - up]?.get(name);
    }
  }

  /** Looks a name up: block-local names, then counters, then the contexts, innermost first; then the link that no data has to give. */
  private lookUp(name: string): unknown {
    const local = this.lookUpLocal(name);
    if (local !== undefined) return local;
    const counter = this.counters.get(name);
    if (counter !== undefined) return counter;
    for (let at = this.contexts.length - 1; at >= 0; at--) {
      const context = plain(this.contexts[at]);
      if (isObject(context) && Object.hasOwn(context, name) && name !== '__proto__' && name !== 'constructor')
        return context[name];
    }
    return name === 'unsubscribe_url' ? UNSUBSCRIBE_URL : undefined;
  }

  private lookUpLocal(name: string): unknown {
    for (let at = this.locals.length - 1; at >= 0; at--) {
      const frame = this.locals[at];
      if (frame?.has(name) === true) return frame.get(name);
    }
    return undefined;
  }
}

/** Helpers that may ask for a missing variable. */
const mayBeMissing: ReadonlySet<string> = new Set(words('default insert and or not eq ne equal equals notEquals'));

const loopName = (name: string, list: Expression): string =>
  `${name}-${list.kind === 'path' ? list.path.text : 'range'}`;

const loopFacts = (index: number, length: number): Record<string, unknown> => ({
  index: index + 1,
  index0: index,
  rindex: length - index,
  rindex0: length - index - 1,
  first: index === 0,
  last: index === length - 1,
  length,
});
