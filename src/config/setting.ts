/** Declares settings and groups, with the notes that the loader, `config show` and the manual read. */
import { z } from 'zod';
import type { Kind } from './kind.ts';

export interface SettingNote extends Omit<Kind<unknown>, 'schema'> {
  is: 'setting';
  /** One sentence: its effect, unit and limits. */
  about: string;
  /** The default in its written form; null if it depends on the machine or on another setting. */
  fallback: unknown;
  /** The default in words, if `fallback` does not say it. */
  fallbackText: string | null;
  /** True if the value can contain a password: error lines and `config show` do not print it. */
  secret: boolean;
}

export interface GroupNote {
  is: 'group';
  about: string;
  members: Readonly<Record<string, z.ZodType>>;
}

/** The notes of the schemas of the tree. (Not a zod registry: its types rewrite schemas inside a note.) */
export const notes = new WeakMap<z.ZodType, SettingNote | GroupNote>();

type Extra = Partial<Pick<SettingNote, 'fallbackText' | 'secret'>>;

/** Declares a setting. `fallback` is the default as written in YAML, and is validated like any other value. */
export function setting<T>(kind: Kind<T>, fallback: unknown, about: string, extra: Extra = {}): z.ZodType<T> {
  const { schema, ...rest } = kind;
  notes.set(schema, {
    is: 'setting',
    about,
    fallback,
    fallbackText: null,
    secret: false,
    ...rest,
    ...extra,
  });
  return schema;
}

/**
 * Declares a group of settings. `conflict` gets the group when each member is valid, and may return a member (with dots for a
 * nested one) and what was expected of it.
 */
export function group<M extends Readonly<Record<string, z.ZodType>>>(
  about: string,
  members: M,
  conflict?: (value: z.output<z.ZodObject<M, z.core.$strict>>) => { member: string; expected: string } | null,
): z.ZodObject<M, z.core.$strict> {
  const names = Object.keys(members).join(', ');
  const error: z.core.$ZodErrorMap = (issue) => (issue.code === 'invalid_type' ? `a group with ${names}` : undefined);
  const schema = z.strictObject(members, { error }).superRefine((value, context) => {
    const found = conflict?.(value) ?? null;
    if (found !== null) context.addIssue({ code: 'custom', path: found.member.split('.'), message: found.expected });
  });
  notes.set(schema, { is: 'group', about, members });
  return schema;
}
