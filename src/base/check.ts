/**
 * Checks a value of the caller against a zod schema. Of many faults the answer names one: first an unknown member (the likeliest cause of the others
 * is a typing error), then what is missing or has another JSON type, then what is out of range or pattern; within each, in declared order.
 */
import { z } from 'zod';
import { pluralize } from './pluralize.ts';
import { Problem, type ProblemCode } from './problem.ts';
import { nearest } from './spelling.ts';

/** The code of a fault in a schema's value, if the general codes do not fit. */
export interface FaultNote {
  /** The code for a value out of the schema's range or pattern (not for a missing one or a wrong type). */
  code?: ProblemCode;
  /** The fault, written behind the field's name: "must be a slug". */
  says?: string;
  /** The member is declared but cannot be used yet: any fault in it ranks as that of an unknown member. */
  unavailable?: boolean;
  /** The cure, written behind the fault of a wrong type. */
  typeHint?: string;
}

/** Notes on schemas: `z.string().regex(SLUG).register(faults, { code: 'unknown_stream' })`. */
export const faults = z.registry<FaultNote>();

export interface CheckOptions {
  /** The one code for every fault, if an endpoint has but one (`invalid_parameter` for query parameters). */
  code?: ProblemCode;
  /** The place of the value in the request, written before each field name: `recipients[3]`. */
  prefix?: string;
  /** The value is a query string's: a list in it is a parameter that was given more than once. */
  isQuery?: true;
}

/** The order in which faults are reported; see the head of this file. */
const RANK = { unknown: 0, shape: 1, value: 2 } as const;

interface Fault {
  rank: (typeof RANK)[keyof typeof RANK];
  path: readonly PropertyKey[];
  code: ProblemCode;
  says: string;
}

/**
 * Zod would write a text for each of 100,000 faults in a hostile list; we write one for the fault that is reported. Zod sets `async` in a copy of
 * this, which keeps its shape if it is there already.
 */
const unworded = { error: () => '', async: false };

/** Returns the value as the schema gives it; a null of an optional member counts as absent. Throws the first fault, its field the member's path. */
export function check<T>(schema: z.ZodType<T>, value: unknown, options: CheckOptions = {}): T {
  const result = schema.safeParse(value, unworded);
  if (result.success) return result.data;
  const nulls = result.error.issues.filter((issue) => isOptionalNull(schema, value, issue)).map((issue) => issue.path);
  if (nulls.length > 0) return check(schema, withoutMembers(value, nulls), options);
  const fault = firstFault(schema, value, result.error.issues);
  const isRepeated = options.isQuery === true && fault.rank === RANK.shape && Array.isArray(valueAt(value, fault.path));
  throw problemOf(isRepeated ? { ...fault, says: 'was given more than once' } : fault, options);
}

/** Returns the name of a path below a prefix: of `recipients[3]` and `['cc', 1]` it is `recipients[3].cc[1]`; null for the whole body. */
export function fieldName(prefix: string | undefined, path: readonly PropertyKey[]): string | null {
  let name = prefix ?? '';
  for (const step of path) {
    if (typeof step === 'number') name += `[${String(step)}]`;
    else name += name === '' ? clip(String(step)) : `.${clip(String(step))}`;
  }
  return name === '' && path.length === 0 ? null : name;
}

/** A member's name comes from the caller and may be a megabyte long. */
const LONGEST_NAME = 200;
const clip = (name: string): string => (name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`);

function problemOf(fault: Fault, options: CheckOptions): Problem {
  const field = fieldName(options.prefix, fault.path);
  const subject = field === null ? 'The body' : `\`${field}\``;
  const end = /[.?]$/.test(fault.says) ? '' : '.';
  return new Problem(options.code ?? fault.code, `${subject} ${fault.says}${end}`, { field });
}

type Issue = z.core.$ZodIssue;

/** A hostile list can have 100,000 faults; the one that is reported is among the first, or the answer is merely less helpful. */
const MOST_WEIGHED = 200;

/** Zod lists members in declared order, nested before unknown ones above: of unknown members the shallowest goes first, else the first of its rank. */
function firstFault(
  schema: z.ZodType,
  value: unknown,
  issues: readonly Issue[],
  above: readonly PropertyKey[] = [],
): Fault {
  let first: Fault | undefined;
  for (const issue of weighed(issues)) {
    const fault = faultOf(schema, value, issue, above);
    const shallower = fault.rank === RANK.unknown && fault.path.length < (first?.path.length ?? 0);
    if (first === undefined || fault.rank < first.rank || (fault.rank === first.rank && shallower)) first = fault;
  }
  if (first === undefined) throw new Error('a failed check has at least one issue');
  return first;
}

/** Returns the first issues, and the last, where zod puts the unknown members of the whole body. */
const weighed = (issues: readonly Issue[]): readonly Issue[] =>
  issues.length <= MOST_WEIGHED ? issues : [...issues.slice(0, MOST_WEIGHED), ...issues.slice(-1)];

function faultOf(schema: z.ZodType, value: unknown, issue: Issue, above: readonly PropertyKey[]): Fault {
  const path = [...above, ...issue.path];
  const here = valueAt(value, path);
  const met = schemaAt(schema, value, path);
  const note = met.note;
  if (note.unavailable === true) {
    return { rank: RANK.unknown, path, code: note.code ?? 'invalid_field', says: note.says ?? 'is not available yet' };
  }
  const worded = (code: ProblemCode, says: string): Fault => ({
    rank: RANK.value,
    path,
    code: note.code ?? code,
    says: note.says ?? says,
  });
  const wrongType = (expected: string): Fault => {
    if (here === undefined || here === null)
      return { rank: RANK.shape, path, code: 'missing_field', says: 'is missing' };
    const hint = note.typeHint === undefined ? '' : `. ${note.typeHint}`;
    return { rank: RANK.shape, path, code: 'invalid_type', says: `must be ${typeName(expected)}${hint}` };
  };

  switch (issue.code) {
    case 'unrecognized_keys':
      return unknownMember(path, issue.keys[0] ?? '', membersOf(met.schema));
    case 'invalid_type':
      return wrongType(issue.expected);
    case 'invalid_value': {
      const types = new Set(issue.values.map((option) => typeof option));
      if (!types.has(typeof here)) return wrongType([...types].join(' or '));
      return worded('invalid_field', `must be ${oneOf(issue.values)}`);
    }
    case 'invalid_union':
      return unionFault(schema, value, issue, path) ?? wrongType(unionTypes(issue));
    case 'too_big':
      if (issue.origin === 'string')
        return worded('field_too_long', `must have at most ${String(issue.maximum)} characters`);
      if (issue.origin === 'array')
        return worded('too_many_items', `must have at most ${String(issue.maximum)} entries`);
      return worded('invalid_field', `must be at most ${String(issue.maximum)}`);
    case 'too_small':
      if (issue.origin === 'string')
        return worded('invalid_field', `must have at least ${pluralize(Number(issue.minimum), 'character')}`);
      if (issue.origin === 'array')
        return worded('invalid_field', `must have at least ${pluralize(Number(issue.minimum), 'entry', 'entries')}`);
      return worded('invalid_field', `must be at least ${String(issue.minimum)}`);
    case 'invalid_format':
      // A schema that says what form it wants is quoted; without words of its own the message is empty (see `unworded`).
      return worded(
        'invalid_field',
        issue.message === '' ? 'does not have the form that is required here' : issue.message,
      );
    case 'invalid_key':
      return worded('invalid_field', 'is not a name that is possible here');
    case 'custom': {
      const { code } = (issue.params ?? {}) as { code?: ProblemCode };
      const fault = worded('invalid_field', issue.message === '' ? 'is not valid' : issue.message);
      return code === undefined ? fault : { ...fault, code };
    }
    default:
      return worded('invalid_field', 'is not valid');
  }
}

function unknownMember(path: readonly PropertyKey[], key: string, known: readonly string[]): Fault {
  const guess = nearest(key, known);
  const says = guess === null ? 'is not known here' : `is not known here: did you mean \`${guess}\`?`;
  return { rank: RANK.unknown, path: [...path, key], code: 'unknown_field', says };
}

type UnionIssue = z.core.$ZodIssueInvalidUnion;

/** Returns the fault in the one alternative whose type the value has, or null if it has the type of none. */
function unionFault(schema: z.ZodType, value: unknown, union: UnionIssue, path: readonly PropertyKey[]): Fault | null {
  const fitting = union.errors.find(
    (issues) => !issues.some((issue) => issue.path.length === 0 && issue.code === 'invalid_type'),
  );
  return fitting === undefined ? null : firstFault(schema, value, fitting, path);
}

function unionTypes(union: UnionIssue): string {
  const types = union.errors.flatMap((issues) =>
    issues.map((issue) => (issue.code === 'invalid_type' ? issue.expected : '')),
  );
  return [...new Set(types.filter((type) => type !== '' && type !== 'null'))].join(' or ');
}

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const typeName = (expected: string): string =>
  expected
    .split(' or ')
    .map((name) => typeNames[name] ?? `a value of type ${name}`)
    .join(' or ');

function oneOf(values: readonly z.core.util.Primitive[]): string {
  const names = values.map((value) => `\`${String(value)}\``);
  return names.length === 1 ? names.join('') : `one of ${names.join(', ')}`;
}

function membersOf(schema: z.core.$ZodTypes): string[] {
  const { def } = schema._zod;
  return def.type === 'object' ? Object.keys(def.shape) : [];
}

function isOptionalNull(schema: z.ZodType, value: unknown, issue: Issue): boolean {
  if (issue.path.length === 0 || valueAt(value, issue.path) !== null) return false;
  return schemaAt(schema, value, issue.path).optional;
}

/** Returns a copy without the members that the paths lead to; only what is on the way to them is copied. */
function withoutMembers(value: unknown, paths: readonly (readonly PropertyKey[])[]): unknown {
  const copy = copyOf(value);
  for (const path of paths) {
    let here = copy;
    for (const step of path.slice(0, -1)) {
      const child = copyOf(here[step]);
      here[step] = child;
      here = child;
    }
    Reflect.deleteProperty(here, path.at(-1) ?? '');
  }
  return copy;
}

const copyOf = (value: unknown): Record<PropertyKey, unknown> =>
  (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<PropertyKey, unknown>;

export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<PropertyKey, unknown>)[step];
  }
  return here;
}

/** The schema that a path leads to, the notes on it and its wrappers, and whether it may be left out. */
interface Met {
  schema: z.core.$ZodTypes;
  note: FaultNote;
  optional: boolean;
}

/** Follows a path into a schema. Of a union, the alternative that fits the value counts. */
export function schemaAt(schema: z.core.$ZodType, value: unknown, path: readonly PropertyKey[]): Met {
  let met = unwrap(schema, value);
  let here = value;
  for (const step of path) {
    const isEntry = met.schema._zod.def.type === 'record';
    const next = childOf(met.schema, step, here);
    here = valueAt(here, [step]);
    if (next === null) break;
    met = unwrap(next, here);
    // No entry of a record has to be there.
    met.optional ||= isEntry;
  }
  return met;
}

/** Goes through optional, nullable, default, pipe and the fitting alternative of a union to the schema of the value itself. */
function unwrap(schema: z.core.$ZodType, value: unknown): Met {
  let current = schema as z.core.$ZodTypes;
  const note: FaultNote = {};
  let optional = false;
  for (;;) {
    Object.assign(note, faults.get(current));
    const { def } = current._zod;
    switch (def.type) {
      case 'optional':
      case 'default':
      case 'prefault':
        optional = true;
        current = def.innerType as z.core.$ZodTypes;
        continue;
      case 'nullable':
      case 'readonly':
      case 'nonoptional':
      case 'catch':
        current = def.innerType as z.core.$ZodTypes;
        continue;
      case 'pipe':
        current =
          (def.in as z.core.$ZodTypes)._zod.def.type === 'transform'
            ? (def.out as z.core.$ZodTypes)
            : (def.in as z.core.$ZodTypes);
        continue;
      case 'union': {
        const fitting = def.options.find((option) => isFor(option as z.core.$ZodTypes, value));
        if (fitting === undefined) return { schema: current, note, optional };
        current = fitting as z.core.$ZodTypes;
        continue;
      }
      default:
        return { schema: current, note, optional };
    }
  }
}

function isFor(schema: z.core.$ZodTypes, value: unknown): boolean {
  const { type } = schema._zod.def;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object' || type === 'record')
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  return type === typeof value;
}

function childOf(schema: z.core.$ZodTypes, step: PropertyKey, value: unknown): z.core.$ZodType | null {
  const { def } = schema._zod;
  if (def.type === 'object')
    return typeof step === 'string' && Object.hasOwn(def.shape, step) ? (def.shape[step] ?? null) : null;
  if (def.type === 'array') return def.element;
  if (def.type !== 'record') return null;
  const badName = !z.core.safeParse(def.keyType, step).success;
  return badName && typeof value === 'object' ? def.keyType : def.valueType;
}
