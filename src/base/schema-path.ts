/** Finds the part of a zod schema that a fault's path points at, with the notes on it. */
import { z } from 'zod';

export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<PropertyKey, unknown>)[step];
  }
  return here;
}

/** The schema that a path leads to, the notes on it and its wrappers, and whether it may be left out. */
export interface Met<Note> {
  schema: z.core.$ZodTypes;
  note: Partial<Note>;
  optional: boolean;
}

/** Follows a path into a schema. Of a union, the alternative that fits the value counts. */
export function schemaAt<Note extends object>(
  notes: z.core.$ZodRegistry<Note>,
  schema: z.core.$ZodType,
  value: unknown,
  path: readonly PropertyKey[],
): Met<Note> {
  let met = unwrap(notes, schema, value);
  let here = value;
  for (const step of path) {
    const isEntry = met.schema._zod.def.type === 'record';
    const next = childOf(met.schema, step, here);
    here = valueAt(here, [step]);
    if (next === null) break;
    met = unwrap(notes, next, here);
    // No entry of a record has to be there.
    met.optional ||= isEntry;
  }
  return met;
}

/** Goes through optional, nullable, default, pipe and the fitting alternative of a union to the schema of the value itself. */
function unwrap<Note extends object>(
  notes: z.core.$ZodRegistry<Note>,
  schema: z.core.$ZodType,
  value: unknown,
): Met<Note> {
  let current = schema as z.core.$ZodTypes;
  const note: Partial<Note> = {};
  let optional = false;
  for (;;) {
    Object.assign(note, notes.get(current));
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
