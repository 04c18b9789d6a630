/** Makes the JSON Schemas of the OpenAPI document from zod schemas: those with an id become components, the others stay where they are used. */
import { z } from 'zod';

export type Json = Record<string, unknown>;

export class Schemas {
  /** The components so far, by id. */
  readonly named: Record<string, Json> = {};

  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const made = z.toJSONSchema(schema, { target: 'draft-2020-12', io, unrepresentable: 'any' }) as Json;
    const { $schema: _, $defs, ...own } = made;
    for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, Json>)) {
      const { id: __, ...rest } = adapted(definition) as Json;
      this.named[name] ??= io === 'output' ? withOpenObjects(rest) : rest;
    }
    return adapted(own) as Json;
  }
}

/** Opens the objects of answers: clients must accept members that are added later. */
export function withOpenObjects(schema: Json): Json {
  return mapped(schema, (object) => {
    if (object['additionalProperties'] !== false) return object;
    const { additionalProperties: _, ...rest } = object;
    return rest;
  }) as Json;
}

/** Points references to the components, and writes null into the type if it is allowed. */
function adapted(schema: unknown): unknown {
  return mapped(schema, (object) => {
    const { $ref } = object;
    if (typeof $ref === 'string') return { ...object, $ref: $ref.replace('#/$defs/', '#/components/schemas/') };
    return withNullType(withoutSafeBounds(object));
  });
}

/** Removes the bounds of safe integers, which zod adds to every one: they would hide the bounds that are real rules. */
function withoutSafeBounds(object: Json): Json {
  const { minimum, maximum, ...rest } = object;
  if (object['type'] !== 'integer') return object;
  return {
    ...rest,
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
  };
}

/** `anyOf: [X, null]` as `type: [x, null]`, the form that readers and generators of clients know best. */
function withNullType(object: Json): Json {
  const { anyOf, ...rest } = object;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return object;
  const [value, none] = anyOf as Json[];
  const isPlain = typeof value?.['type'] === 'string' && value['enum'] === undefined && value['const'] === undefined;
  if (!isPlain || none?.['type'] !== 'null') return object;
  return { ...value, ...rest, type: [value['type'], 'null'] };
}

/** Changes each object in the tree, the inner ones first. */
function mapped(value: unknown, change: (object: Json) => Json): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== 'object' || value === null) return value;
  return change(Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapped(member, change)])));
}
