/**
 * Does a value keep to a JSON Schema? The subset of draft 2020-12 that the OpenAPI document uses; a keyword that is not known
 * here is an error, so that nothing is passed over in silence.
 */
import type { Json } from '../../../src/api/openapi.ts';

/** Leads from a `$ref` to what it names. */
export type Follow = (ref: string) => Json;

const known = new Set([
  'type',
  'enum',
  'const',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'items',
  'minItems',
  'maxItems',
  'uniqueItems',
  'properties',
  'required',
  'additionalProperties',
  'propertyNames',
  'minProperties',
  'maxProperties',
  'anyOf',
  'oneOf',
  '$ref',
  'format',
  'description',
  'default',
  'contentEncoding',
  'title',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
]);

/** Where `value` breaks `schema`, one line each; empty if it does not. */
export function breachesOf(schema: Json, value: unknown, follow: Follow, at = '$'): string[] {
  const strange = Object.keys(schema).filter((keyword) => !known.has(keyword) && !keyword.startsWith('x-'));
  if (strange.length > 0) throw new Error(`${at}: the checker does not know ${strange.join(', ')}`);
  if (typeof schema['$ref'] === 'string') return breachesOf(follow(schema['$ref']), value, follow, at);
  const { type, enum: values, const: only } = schema;
  const types = type === undefined ? [] : [type].flat();
  if (types.length > 0 && !types.some((one) => isOf(one as string, value)))
    return [`${at}: ${shown(value)} is not ${shown(types)}`];
  const own: string[] = [];
  if (values !== undefined && !(values as unknown[]).includes(value))
    own.push(`${at}: ${shown(value)} is none of ${shown(values)}`);
  if (only !== undefined && value !== only) own.push(`${at}: ${shown(value)} is not ${shown(only)}`);
  return [...own, ...choiceBreaches(schema, value, follow, at), ...partBreaches(schema, value, follow, at)];
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function choiceBreaches(schema: Json, value: unknown, follow: Follow, at: string): string[] {
  return (['anyOf', 'oneOf'] as const).flatMap((keyword) => {
    const choices = schema[keyword] as Json[] | undefined;
    if (choices === undefined) return [];
    const found = choices.map((choice) => breachesOf(choice, value, follow, at));
    const fitting = found.filter((breaches) => breaches.length === 0).length;
    if (fitting === 1 || (fitting > 1 && keyword === 'anyOf')) return [];
    return fitting > 1
      ? [`${at}: fits ${fitting} of oneOf`]
      : [`${at}: fits no choice (${found.map((one) => one[0]).join('; ')})`];
  });
}

function partBreaches(schema: Json, value: unknown, follow: Follow, at: string): string[] {
  if (typeof value === 'string') return textBreaches(schema, value, at);
  if (typeof value === 'number')
    return [...bound(schema, 'minimum', value, at), ...bound(schema, 'maximum', value, at)];
  if (Array.isArray(value)) return listBreaches(schema, value, follow, at);
  return typeof value === 'object' && value !== null ? objectBreaches(schema, value as Json, follow, at) : [];
}

const patterns = new Map<string, RegExp>();

function compiled(pattern: string): RegExp {
  const known = patterns.get(pattern) ?? new RegExp(pattern, 'u');
  patterns.set(pattern, known);
  return known;
}

function textBreaches(schema: Json, value: string, at: string): string[] {
  const { pattern, format } = schema;
  const isTime = format !== 'date-time' || !Number.isNaN(Date.parse(value));
  const fits = typeof pattern !== 'string' || compiled(pattern).test(value);
  // Characters as JSON Schema counts them: code points.
  const { length } = Array.from(value);
  return [
    ...(isTime ? [] : [`${at}: ${shown(value)} is no date-time`]),
    ...(fits ? [] : [`${at}: ${shown(value)} breaks ${shown(pattern)}`]),
    ...bound(schema, 'minLength', length, at),
    ...bound(schema, 'maxLength', length, at),
  ];
}

function listBreaches(schema: Json, value: readonly unknown[], follow: Follow, at: string): string[] {
  const items = schema['items'] as Json | undefined;
  const isDouble = schema['uniqueItems'] === true && new Set(value.map(shown)).size < value.length;
  return [
    ...bound(schema, 'minItems', value.length, at),
    ...bound(schema, 'maxItems', value.length, at),
    ...(isDouble ? [`${at}: has doubles`] : []),
    ...(items === undefined ? [] : value.flatMap((item, index) => breachesOf(items, item, follow, `${at}[${index}]`))),
  ];
}

function objectBreaches(schema: Json, value: Json, follow: Follow, at: string): string[] {
  const properties = (schema['properties'] ?? {}) as Record<string, Json>;
  const names = Object.keys(value);
  const missing = ((schema['required'] ?? []) as string[]).filter((name) => !names.includes(name));
  const nameRule = schema['propertyNames'] as Json | undefined;
  return [
    ...missing.map((name) => `${at}.${name}: is missing`),
    ...bound(schema, 'minProperties', names.length, at),
    ...bound(schema, 'maxProperties', names.length, at),
    ...(nameRule === undefined ? [] : names.flatMap((name) => breachesOf(nameRule, name, follow, `${at} name`))),
    ...names.flatMap((name) => {
      const rule = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties'];
      if (rule === false) return [`${at}.${name}: is not in the schema`];
      return typeof rule === 'object' ? breachesOf(rule as Json, value[name], follow, `${at}.${name}`) : [];
    }),
  ];
}

type Bound =
  'minimum' | 'maximum' | 'minLength' | 'maxLength' | 'minItems' | 'maxItems' | 'minProperties' | 'maxProperties';

function bound(schema: Json, keyword: Bound, measure: number, at: string): string[] {
  const limit = schema[keyword];
  if (typeof limit !== 'number') return [];
  const keeps = keyword.startsWith('min') ? measure >= limit : measure <= limit;
  return keeps ? [] : [`${at}: ${measure} breaks ${keyword} ${limit}`];
}

const shown = (value: unknown): string => (JSON.stringify(value) as string | undefined)?.slice(0, 100) ?? 'undefined';
