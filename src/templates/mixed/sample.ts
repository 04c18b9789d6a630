/**
 * Guesses sample data from how a template uses its variables: a list where it loops, an object where it reads members, a number
 * where it calculates, a flag where it only asks. Pure, and linear in the size of the template.
 */
import type { Expression, Path } from './expression.ts';
import type { Node } from './node.ts';
import { weightOf } from './value.ts';

export type Sample = string | number | boolean | Sample[] | { [name: string]: Sample };
export type SampleData = Record<string, Sample>;

/** The use that the template makes of one value. */
interface Shape {
  members: Map<string, Shape>;
  /** The shape of the entries, for a list. */
  item: Shape | null;
  /** The guess for a value without members. */
  use: 'tested' | 'printed' | 'number' | 'date' | null;
  /** A value that the template compares it with. */
  literal: string | number | boolean | null;
}

/** Shapes of one template: more of them are ignored, so that a hostile source costs no more. */
const MOST_SHAPES = 1000;
const ENTRIES = 2;
/** Down to this depth, lists within lists have `ENTRIES` entries; deeper ones have one, since each level doubles the sample. */
const DEEPEST_FULL_LIST = 3;

const numberFilters = /^(?:plus|minus|times|divided_by|modulo|round|floor|ceil|abs|at_least|at_most|money|number)$/;
const dateFilters = /^(?:date|formatDate|time)/;
const listFilters = /^(?:join|map|sort|sort_natural|where|reject|find|has|sum|uniq|compact|concat|first|last|reverse)$/;
/** Steps of Liquid that are not members: `items.size`, `items.first`. */
const listSteps: ReadonlySet<string> = new Set(['size', 'length', 'first', 'last']);

interface Scope {
  /** The value that `this` is. */
  own: Shape | null;
  /** Bare names are members of `own`: the body of a Handlebars block. */
  isContext: boolean;
  /** Names that the template sets; null for values that are not of the data. */
  names: Map<string, Shape | null>;
}

/** Returns data that fits the template. */
export function sampleOf(nodes: readonly Node[]): SampleData {
  const root = newShape();
  new Finder(root).walk(nodes);
  return Object.fromEntries([...root.members].map(([name, shape]) => [name, valueOf(name, shape)]));
}

const newShape = (): Shape => ({ members: new Map(), item: null, use: null, literal: null });

class Finder {
  private readonly scopes: Scope[];
  private count = 0;

  constructor(root: Shape) {
    this.scopes = [
      {
        own: root,
        isContext: true,
        names: new Map([
          ['forloop', null],
          ['tablerowloop', null],
        ]),
      },
    ];
  }

  walk(nodes: readonly Node[]): void {
    for (const node of nodes) this.visit(node);
  }

  private visit(node: Node): void {
    switch (node.kind) {
      case 'output':
        this.look(node.value, 'printed');
        return;
      case 'if':
        for (const { test, body } of node.branches) {
          this.look(test, 'tested');
          this.walk(body);
        }
        this.walk(node.otherwise);
        return;
      case 'each':
        this.within(this.entryOf(node.list), true, [node.params[0]], node.body);
        this.walk(node.otherwise);
        return;
      case 'for':
      case 'tablerow':
        this.within(this.entryOf(node.list), false, [node.name], node.body);
        if (node.kind === 'for') this.walk(node.otherwise);
        return;
      case 'with':
      case 'section':
        this.within(this.look(node.value, 'tested'), node.kind === 'with', [node.params[0]], node.body);
        this.walk(node.otherwise);
        return;
      case 'case':
        this.visitCase(node.value, node.whens);
        return;
      case 'assign':
        this.top().names.set(node.name, this.look(node.value, null));
        return;
      case 'capture':
        this.walk(node.body);
        this.top().names.set(node.name, null);
        return;
      case 'ifchanged':
        this.walk(node.body);
        return;
      case 'step':
        this.top().names.set(node.name, null);
        return;
      case 'cycle':
        for (const value of node.values) this.look(value, 'printed');
        return;
      case 'text':
      case 'break':
      case 'continue':
        return;
    }
  }

  private visitCase(value: Expression, whens: Extract<Node, { kind: 'case' }>['whens']): void {
    const shape = this.look(value, 'printed');
    for (const { values, body } of whens) {
      for (const one of values ?? []) learn(shape, one);
      this.walk(body);
    }
  }

  private top(): Scope {
    const top = this.scopes.at(-1);
    if (top === undefined) throw new Error('there is always the outermost scope');
    return top;
  }

  /** Walks the body of a block whose `this`, and first name, is the shape. */
  private within(own: Shape | null, isContext: boolean, names: readonly (string | undefined)[], body: Node[]): void {
    const named = names.flatMap((name): [string, Shape | null][] => (name === undefined ? [] : [[name, own]]));
    this.scopes.push({ own, isContext, names: new Map(named) });
    this.walk(body);
    this.scopes.pop();
  }

  /** Returns the shape of an entry of the list. */
  private entryOf(list: Expression): Shape | null {
    const shape = this.look(list, null);
    return shape === null ? null : this.itemOf(shape);
  }

  private itemOf(shape: Shape): Shape {
    if (shape.item !== null) return shape.item;
    const made = this.made();
    if (this.count <= MOST_SHAPES) shape.item = made;
    return made;
  }

  /** Notes what an expression reads; returns the shape of its value where it is of the data. */
  private look(expression: Expression, use: Shape['use']): Shape | null {
    switch (expression.kind) {
      case 'path': {
        // The time of the request need not be given.
        if (expression.orNow === true) return null;
        const shape = this.shapeAt(expression.path);
        if (shape !== null) shape.use = stronger(shape.use, use);
        return shape;
      }
      case 'range':
        this.look(expression.from, 'number');
        this.look(expression.to, 'number');
        return null;
      case 'call':
        for (const one of [...expression.args, ...expression.named.values()]) this.look(one, 'printed');
        return null;
      case 'filtered':
        return this.lookFiltered(expression, use);
      case 'compare': {
        const [left, right] = [this.look(expression.left, 'tested'), this.look(expression.right, 'tested')];
        learn(left, expression.right);
        learn(right, expression.left);
        return null;
      }
      case 'logic':
        this.look(expression.left, use);
        this.look(expression.right, use);
        return null;
      case 'literal':
      case 'nothing':
        return null;
    }
  }

  private lookFiltered({ value, filters }: Extract<Expression, { kind: 'filtered' }>, use: Shape['use']): Shape | null {
    const [first] = filters;
    const name = first?.name ?? '';
    const asUse = numberFilters.test(name) ? 'number' : dateFilters.test(name) ? 'date' : use;
    const shape = this.look(value, listFilters.test(name) ? null : asUse);
    if (shape !== null && listFilters.test(name)) this.itemOf(shape);
    for (const { args, named } of filters) for (const one of [...args, ...named.values()]) this.look(one, 'printed');
    return shape;
  }

  private shapeAt({ base, up, name, steps }: Path): Shape | null {
    const [first, rest] = this.start(base, up, name, steps);
    let shape = first;
    for (const step of rest) {
      if (shape === null) return null;
      if (typeof step !== 'string') {
        this.look(step, null);
        shape = this.itemOf(shape);
      } else if (listSteps.has(step) && (shape.item !== null || shape.members.size === 0)) {
        const item = this.itemOf(shape);
        shape = step === 'first' || step === 'last' ? item : null;
      } else shape = this.memberOf(shape, step);
    }
    return shape;
  }

  private start(base: Path['base'], up: number, name: string, steps: Path['steps']): [Shape | null, Path['steps']] {
    const contexts = this.scopes.filter(({ isContext }) => isContext);
    const context = contexts.at(-1 - up)?.own ?? null;
    switch (base) {
      case 'data':
        return [null, steps];
      case 'root':
        return [this.scopes[0]?.own ?? null, steps];
      case 'this':
        return [context, steps];
      case 'name':
      case 'named': {
        const scope = up > 0 ? undefined : this.scopes.findLast(({ names }) => names.has(name));
        if (scope !== undefined) return [scope.names.get(name) ?? null, steps];
        return [context === null ? null : this.memberOf(context, name), steps];
      }
    }
  }

  private memberOf(shape: Shape, name: string): Shape {
    const found = shape.members.get(name);
    if (found !== undefined) return found;
    const made = this.made();
    if (this.count <= MOST_SHAPES) shape.members.set(name, made);
    return made;
  }

  private made(): Shape {
    this.count++;
    return newShape();
  }
}

const strength: readonly Shape['use'][] = [null, 'tested', 'printed', 'date', 'number'];
const stronger = (one: Shape['use'], other: Shape['use']): Shape['use'] =>
  strength.indexOf(other) > strength.indexOf(one) ? other : one;

/** Takes a value that the shape is compared with as its sample. */
function learn(shape: Shape | null, other: Expression): void {
  if (shape?.literal !== null || other.kind !== 'literal') return;
  const { value } = other;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') shape.literal = value;
}

/** `lists`: the lists that the value is within. */
function valueOf(name: string, shape: Shape, lists = 0): Sample {
  const { members, item, use, literal } = shape;
  if (item !== null) {
    const length = lists < DEEPEST_FULL_LIST ? ENTRIES : 1;
    return Array.from({ length }, () => valueOf(singular(name), item, lists + 1));
  }
  if (members.size > 0)
    return Object.fromEntries([...members].map(([member, inner]) => [member, valueOf(member, inner, lists)]));
  if (literal !== null) return literal;
  if (use === 'number') return 42;
  if (use === 'date') return '2026-01-31';
  return use === 'tested' || use === null ? true : textFor(name);
}

const singular = (name: string): string => name.replace(/s$/, '');

/** Texts by the name of the variable. */
const texts: readonly [RegExp, Sample][] = [
  [/e?mail/i, 'ana@example.net'],
  [/(?:url|link|href)$/i, 'https://example.net/'],
  [/(?:date|day|_at)$/i, '2026-01-31'],
  [/(?:price|total|amount|sum|cost)$/i, 19.9],
  [/(?:count|quantity|qty|number|age|year|size|hours|minutes|days)$/i, 3],
  [/first_?name|^name$|user_?name/i, 'Ana'],
  [/last_?name/i, 'Adams'],
  [/code$/i, '482913'],
];

function textFor(name: string): Sample {
  const found = texts.find(([form]) => form.test(name));
  if (found !== undefined) return found[1];
  const words = name
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[_-]+/g, ' ')
    .trim();
  return words === '' ? 'text' : words;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Joins the samples of the parts of a mail: of two guesses for a value the one with more in it stays. */
export function joinSamples(samples: readonly SampleData[]): SampleData {
  return samples.reduce<SampleData>((all, one) => joined(all, one) as SampleData, {});
}

function joined(one: Sample, other: Sample): Sample {
  if (Array.isArray(one) && Array.isArray(other)) return one.map((item, n) => joined(item, other[n] ?? item));
  if (isObject(one) && isObject(other)) {
    const both = { ...one };
    for (const [name, value] of Object.entries(other))
      both[name] = Object.hasOwn(both, name) ? joined(both[name] ?? value, value) : value;
    return both;
  }
  if (typeof other === 'object') return other;
  return one === true ? other : one;
}

/**
 * Counts down the members that may still be compared or added where a sample is laid over data: thirty thousand entries with a thousand
 * members each would take all memory. Data beyond this stays as it is.
 */
interface Room {
  left: number;
}

const MOST_COMPARED = 20_000;
const wholeRoom = (): Room => ({ left: MOST_COMPARED });

/** Returns the members of a sample, or none where there is no room left for them. */
function membersOf(sample: SampleData, room: Room): [string, Sample][] {
  if (room.left <= 0) return [];
  const members = Object.entries(sample);
  room.left -= members.length + 1;
  return members;
}

/** Returns the given data with the sample's values for what it lacks. A member that is given stays, also `null` and `false`. */
export function completeSample(
  sample: SampleData,
  given: Readonly<Record<string, unknown>>,
  room: Room = wholeRoom(),
): Record<string, unknown> {
  const added = membersOf(sample, room).filter(([name]) => !Object.hasOwn(given, name));
  for (const [, value] of added) room.left -= weightOf(value, Math.max(0, room.left));
  const kept = Object.entries(given).map(([name, value]): [string, unknown] => {
    const wanted = Object.hasOwn(sample, name) ? sample[name] : undefined;
    if (isObject(wanted) && isObject(value)) return [name, completeSample(wanted, value, room)];
    const item = Array.isArray(wanted) ? wanted[0] : undefined;
    if (!isObject(item) || !Array.isArray(value)) return [name, value];
    return [name, value.map((one: unknown) => (isObject(one) ? completeSample(item, one, room) : one))];
  });
  return Object.fromEntries([...kept, ...added]);
}

/** A value that is missing, named by its path. */
export interface Missing {
  path: string;
  /** True for a text or number; false for a list, an object or a flag. */
  isText: boolean;
}

/** Returns what the template reads and the data lacks. A condition that is not there is false, and so not missing. */
export function missingIn(
  sample: SampleData,
  data: Readonly<Record<string, unknown>>,
  before = '',
  room: Room = wholeRoom(),
): Missing[] {
  return membersOf(sample, room).flatMap(([name, wanted]): Missing[] => {
    const path = before + name;
    const given = Object.hasOwn(data, name) ? data[name] : undefined;
    if (given === undefined || given === null)
      return wanted === true ? [] : [{ path, isText: typeof wanted === 'string' || typeof wanted === 'number' }];
    if (Array.isArray(wanted)) {
      const [item] = wanted;
      if (!isObject(item) || !Array.isArray(given)) return [];
      const found = given.filter(isObject).flatMap((one) => missingIn(item, one, `${path}[].`, room));
      return [...new Map(found.map((one) => [one.path, one])).values()];
    }
    return isObject(wanted) && isObject(given) ? missingIn(wanted, given, `${path}.`, room) : [];
  });
}

/** Returns the data with `⟦path⟧` for each text that is missing, so that a preview shows where it would stand. */
export function markMissing(
  sample: SampleData,
  data: Readonly<Record<string, unknown>>,
  before = '',
  room: Room = wholeRoom(),
): Record<string, unknown> {
  const marked: Record<string, unknown> = { ...data };
  for (const [name, wanted] of membersOf(sample, room)) {
    const path = before + name;
    const given = Object.hasOwn(data, name) ? data[name] : undefined;
    if (typeof wanted === 'string' || typeof wanted === 'number') {
      if (given === undefined || given === null) marked[name] = `⟦${path}⟧`;
    } else if (isObject(wanted) && (given === undefined || isObject(given)))
      marked[name] = markMissing(wanted, given ?? {}, `${path}.`, room);
    else if (Array.isArray(wanted) && Array.isArray(given) && isObject(wanted[0])) {
      const item = wanted[0];
      marked[name] = given.map((one) =>
        isObject(one) ? markMissing(item, one, `${path}[].`, room) : (one as unknown),
      );
    }
  }
  return marked;
}
