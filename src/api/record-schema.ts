/** The schemas of records with their examples: those of tables are made from the columns, others are declared with the members below. */
import { z } from 'zod';
import type { RecordFacts, RecordMember } from '../storage/record.ts';

const examples = z.registry<{ example: unknown }>();

/** Gives a schema the value that examples show. Without it they show the emptiest value; of an object, that of each member. */
export function shows<Schema extends z.ZodType>(schema: Schema, example: z.output<Schema>): Schema {
  examples.add(schema, { example });
  return schema;
}

/** Returns the example of a schema, without optional members. */
export function sampleOf<Schema extends z.ZodType>(schema: Schema): z.output<Schema> {
  return exampleOf(schema as unknown as z.core.$ZodTypes) as z.output<Schema>;
}

function exampleOf(schema: z.core.$ZodTypes): unknown {
  const known = examples.get(schema as unknown as z.ZodType);
  if (known !== undefined) return known.example;
  const { def } = schema._zod;
  switch (def.type) {
    case 'object': {
      const members = Object.entries(def.shape as Record<string, z.core.$ZodTypes>);
      const needed = members.filter(([, { _zod }]) => _zod.def.type !== 'optional');
      return Object.fromEntries(needed.map(([name, member]) => [name, exampleOf(member)]));
    }
    case 'array':
      return isObject(def.element) ? [exampleOf(def.element as z.core.$ZodTypes)] : [];
    case 'nullable':
      return isObject(def.innerType) ? exampleOf(def.innerType as z.core.$ZodTypes) : null;
    case 'literal':
      return def.values[0];
    case 'enum':
      return Object.values(def.entries)[0];
    case 'number':
      return 0;
    case 'boolean':
      return false;
    case 'record':
      return {};
    default:
      return '';
  }
}

const isObject = (schema: z.core.$ZodType): boolean => (schema as z.core.$ZodTypes)._zod.def.type === 'object';

function described<Schema extends z.ZodType>(schema: Schema, says?: string, example?: z.output<Schema>): Schema {
  const member = says === undefined ? schema : schema.describe(says);
  return example === undefined ? member : shows(member, example);
}

type Maker<Schema extends z.ZodType> = (says?: string, example?: z.output<Schema>) => Schema;
const maker =
  <Schema extends z.ZodType>(make: () => Schema): Maker<Schema> =>
  (says, example) =>
    described(make(), says, example);

/** Members of records: what they say, and the value that examples show. */
export const text = maker(() => z.string());
export const maybe = maker(() => z.string().nullable());
export const texts = maker(() => z.array(z.string()));
export const whole = maker(() => z.int());
export const maybeWhole = maker(() => z.int().nullable());
export const flag = maker(() => z.boolean());
export const time = maker(() => z.iso.datetime());
export const maybeTime = maker(() => z.iso.datetime().nullable());
export const map = maker(() => z.record(z.string(), z.string()));

/** Declares members of one form whose names say all. */
export const each = <Schema extends z.ZodType, Name extends string>(schema: Schema, ...names: readonly Name[]) =>
  // fromEntries forgets the names.
  Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, Schema>;

export const many = <Schema extends z.ZodType>(schema: Schema) => z.array(schema).readonly();

/** The schema of a record of the server, which is in no description: its kind is the member `object`. */
export const ofKind = <Kind extends string, Members extends z.ZodRawShape>(kind: Kind, members: Members) =>
  z.object({ object: z.literal(kind), ...members });

/** The schema of a record with these members, which the description of the API has under this name. */
export const namedRecord = <Members extends z.ZodRawShape>(id: string, description: string, members: Members) =>
  z.object(members).meta({ id, description });

/** That of a request, which may have no other members. */
export const namedRequest = <Members extends z.ZodRawShape>(id: string, description: string, members: Members) =>
  z.strictObject(members).meta({ id, description });

/** The id of an object whose ids begin with `prefix`. */
export const idSchema = (prefix: string, says: string): z.ZodString =>
  z
    .string()
    .regex(new RegExp(`^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`))
    .describe(says);

/** Makes the schema of the records of `record`. `more`: members whose column says too little, without description and null, and further ones. */
export function recordSchema(
  { kind, members }: RecordFacts,
  names?: { id: string; description: string },
  more: Readonly<Record<string, z.ZodType>> = {},
): z.ZodObject<Record<string, z.ZodType>> {
  const own = Object.fromEntries(members.map((member) => [member.name, memberSchema(member, more[member.name])]));
  const head = kind === null ? {} : { object: z.literal(kind) };
  // Written twice, a member keeps its place and has its last schema.
  const schema = z.object({ ...head, ...own, ...more, ...own });
  return names === undefined ? schema : schema.meta(names);
}

function memberSchema({ name, column }: RecordMember, closer = schemaOf(column)): z.ZodType {
  if (column.member === null) throw new Error(`${name} is no member of its record`);
  const { description, example } = column.member;
  return described(column.isNullable ? closer.nullable() : closer, description, example);
}

function schemaOf({ kind, form, values }: RecordMember['column']): z.ZodType {
  switch (form) {
    case 'time':
      return z.iso.datetime();
    case 'flag':
      return z.boolean();
    case 'texts':
      return z.array(z.string());
    case 'map':
      return z.record(z.string(), z.string());
    case 'json':
      return z.record(z.string(), z.unknown());
    case 'plain':
      if (kind === 'text') return values === undefined ? z.string() : z.enum(values as [string, ...string[]]);
      return kind === 'integer' ? z.int() : z.number();
  }
}
