/**
 * Values for a JSON Schema, as fast-check makes them: mostly such as fit, and here and there one that does not - another type,
 * a member too many or too few, a text too long. What is made is plain JSON.
 */
import fc from 'fast-check';
import type { Json } from '../../../src/api/openapi.ts';
import type { Follow } from './json-schema.ts';

/** Texts of the kinds that programs trip over. */
const oddText = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '\0',
    '\r\n',
    '../..',
    "' OR 1=1 --",
    '{{#each',
    '{% if',
    '__proto__',
    'x'.repeat(2000),
    '\u202e',
    '\ud83d\ude00',
    'ana@dest.test',
    '2026-02-30T00:00:00Z',
  ),
  fc.string({ unit: 'grapheme', maxLength: 40 }).filter((text) => text.isWellFormed()),
);
const oddNumber = fc.constantFrom(0, -1, 1, 1.5, 1e21, 2 ** 53, -(2 ** 53));
export const junk: fc.Arbitrary<unknown> = fc.oneof(
  oddText,
  oddNumber,
  fc.constantFrom(null, true, false, [], {}, [[[]]], { a: { b: {} } }, [null]),
);

/** One in `n` values is not what the schema asks for. */
const ODDS = 24;

export function valuesOf(schema: Json, follow: Follow, depth = 0): fc.Arbitrary<unknown> {
  return fc.oneof({ arbitrary: fitting(schema, follow, depth), weight: ODDS }, { arbitrary: junk, weight: 1 });
}

function fitting(schema: Json, follow: Follow, depth: number): fc.Arbitrary<unknown> {
  const { $ref, const: only, enum: values, anyOf, oneOf, type } = schema;
  if (typeof $ref === 'string') return fitting(follow($ref), follow, depth);
  if (only !== undefined) return fc.constant(only);
  if (Array.isArray(values)) return fc.constantFrom(...(values as unknown[]));
  const choices = (anyOf ?? oneOf) as Json[] | undefined;
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => fitting(choice, follow, depth)));
  if (Array.isArray(type))
    return fc.oneof(...type.map((one) => fitting({ ...schema, type: one as string }, follow, depth)));
  switch (type) {
    case 'string':
      return texts(schema);
    case 'integer':
    case 'number':
      return numbers(schema);
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return lists(schema, follow, depth);
    case 'object':
      return objects(schema, follow, depth);
    default:
      return junk;
  }
}

function texts({ pattern, minLength, maxLength, format }: Json): fc.Arbitrary<string> {
  if (format === 'date-time')
    return fc
      .date({ min: new Date('2026-01-01'), max: new Date('2026-03-01'), noInvalidDate: true })
      .map((date) => date.toISOString());
  const least = typeof minLength === 'number' ? minLength : 0;
  const most = Math.max(least, Math.min(typeof maxLength === 'number' ? maxLength : 30, 30));
  const free = fc.string({ unit: 'grapheme-ascii', minLength: least, maxLength: most });
  return typeof pattern === 'string' ? fc.oneof(matching(pattern, free), free) : free;
}

/** Not every pattern can be turned round: what looks ahead, or names a property of characters, cannot. */
function matching(pattern: string, otherwise: fc.Arbitrary<string>): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'), { maxLength: 60 });
  } catch {
    return otherwise;
  }
}

function numbers({ minimum, maximum }: Json): fc.Arbitrary<number> {
  const [min, max] = [minimum ?? 0, maximum ?? 1000] as [number, number];
  return fc.oneof(fc.integer({ min, max }), fc.constantFrom(min, max, min - 1, max + 1));
}

function lists({ items, minItems, maxItems }: Json, follow: Follow, depth: number): fc.Arbitrary<unknown[]> {
  const minLength = typeof minItems === 'number' ? minItems : 0;
  const maxLength = Math.max(minLength, Math.min(typeof maxItems === 'number' ? maxItems : 3, depth > 2 ? 1 : 3));
  return fc.array(valuesOf((items ?? {}) as Json, follow, depth + 1), { minLength, maxLength });
}

function objects(schema: Json, follow: Follow, depth: number): fc.Arbitrary<Json> {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Json>);
  if (properties.length === 0) {
    const rule = schema['additionalProperties'];
    const values = typeof rule === 'object' ? valuesOf(rule as Json, follow, depth + 1) : junk;
    return fc.dictionary(fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 12 }), values, { maxKeys: 3 });
  }
  const required = (schema['required'] ?? []) as string[];
  const members = properties.map(([name, property]) => {
    const value = valuesOf(property, follow, depth + 1).map((one) => [[name, one]]);
    const none = fc.constant<[string, unknown][]>([]);
    const isRequired = required.includes(name);
    return fc.oneof(
      { arbitrary: value, weight: isRequired ? ODDS : 1 },
      { arbitrary: none, weight: isRequired ? 1 : 2 },
    );
  });
  const extra = fc.oneof(
    { arbitrary: fc.constant([]), weight: ODDS },
    { arbitrary: fc.tuple(fc.constantFrom('replyTo', 'constructor', 'x'), junk).map((pair) => [pair]), weight: 1 },
  );
  return fc.tuple(...members, extra).map((parts) => Object.fromEntries(parts.flat() as [string, unknown][]));
}
