/** Declares settings: kinds of value with their written form and what they expect, and the notes that `config show` and the manual read. */
import { z } from 'zod';
import { readDuration } from '../base/time.ts';
import { isHostName, isIp, isNetwork, parseEndpoint } from './endpoint.ts';
import { isRouteKey, parseRoute, ROUTE_FORMS, type Route } from './route.ts';

/** The form of a value in YAML, which decides how the text of an environment variable is read. */
export type Form = 'number' | 'flag' | 'text' | 'list' | 'map';

/** One kind of value: `schema` turns the written form into the value. Each call makes a new schema, because notes are attached to it. */
export interface Kind<T> {
  form: Form;
  /** The text after "expected" in error lines; singular, lower case. */
  expected: string;
  /** The unit of a loaded number: durations are in milliseconds, sizes in bytes. */
  unit: 'ms' | 'bytes' | null;
  schema: z.ZodType<T>;
}

/** The error of a strict object: the expected form, or zod's own for an unknown member, which names it. */
export const orUnknown =
  (expected: string) =>
  (issue: { code: string }): string | undefined =>
    issue.code === 'invalid_type' ? expected : undefined;

export function flag(): Kind<boolean> {
  const expected = 'true or false';
  return { form: 'flag', expected, unit: null, schema: z.boolean({ error: expected }) };
}

const whole = (expected: string, min: number, max: number): Kind<number> => ({
  form: 'number',
  expected,
  unit: null,
  schema: z.int({ error: expected }).min(min, { error: expected }).max(max, { error: expected }),
});

export const count = (min: number, max: number): Kind<number> =>
  whole(`a whole number from ${min} to ${max}`, min, max);

/** A port to listen on; 0 lets the system choose a free one. */
export const listenPort = (): Kind<number> => whole('a port number from 0 to 65535', 0, 65_535);

export const remotePort = (): Kind<number> => whole('a port number from 1 to 65535', 1, 65_535);

/** A duration such as `90s`, kept in milliseconds. A bare number is refused: its unit would be a guess. */
export function duration(min: string, max: string): Kind<number> {
  const [least, most] = [readDuration(min), readDuration(max)];
  const expected = `a duration from ${min} to ${max} (units ms, s, m, h, d)`;
  const schema = read(expected, (written) => {
    const ms = typeof written === 'string' ? readDuration(written) : null;
    return ms !== null && least !== null && most !== null && ms >= least && ms <= most ? ms : null;
  });
  return { form: 'text', expected, unit: 'ms', schema };
}

const SIZE = /^(\d{1,15})(B|KiB|MiB|GiB|TiB)?$/;
const SIZE_BYTES: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/** A size such as `25MiB` or a plain number of bytes, kept in bytes. */
export function size(min: string, max: string): Kind<number> {
  const [least, most] = [toBytes(min), toBytes(max)];
  const expected = `a size from ${min} to ${max} (units B, KiB, MiB, GiB, TiB)`;
  const schema = read(expected, (written) => {
    const bytes = typeof written === 'string' || typeof written === 'number' ? toBytes(String(written)) : null;
    return bytes !== null && least !== null && most !== null && bytes >= least && bytes <= most ? bytes : null;
  });
  return { form: 'text', expected, unit: 'bytes', schema };
}

function toBytes(text: string): number | null {
  const [, digits, unit] = SIZE.exec(text) ?? [];
  const factor = SIZE_BYTES[unit ?? 'B'];
  return digits === undefined || factor === undefined ? null : Number(digits) * factor;
}

export function oneOf<const T extends string>(...values: readonly T[]): Kind<T> {
  const expected = `one of ${values.join(', ')}`;
  return { form: 'text', expected, unit: null, schema: z.enum(values, { error: expected }) };
}

/** A text that `accept` takes; `accept` returns its normal form, or null. At most 4,096 characters, no control characters. */
export function text(expected: string, accept: (text: string) => string | null): Kind<string> {
  const schema = read(expected, (written) => {
    const usable = typeof written === 'string' && written.length > 0 && written.length <= 4096 && isPrintable(written);
    return usable ? accept(written) : null;
  });
  return { form: 'text', expected, unit: null, schema };
}

export const matching = (expected: string, pattern: RegExp): Kind<string> =>
  text(expected, (written) => (pattern.test(written) ? written : null));

/** A text within a map of settings that `isGood` accepts; any other value gives the same error. */
export const textThat = (error: string, isGood: (text: string) => boolean) =>
  z.string({ error }).refine(isGood, { error });

const isPrintable = (written: string): boolean => !/[\u0000-\u001f\u007f]/.test(written);

/** The contents of a file in place of its name would be quoted in messages, with a key in them. A shell alone knows whose home `~` is. */
export const filePath = (): Kind<string> =>
  text('a file path, in which `~` has no meaning', (written) => (/-----BEGIN|\n|^~/.test(written) ? null : written));

export const hostName = (): Kind<string> =>
  text('a host name such as mail.example.com', (written) => (isHostName(written) ? written.toLowerCase() : null));

export const bearerToken = (): Kind<string> =>
  matching('16 to 256 letters, digits or -._~+/', /^[A-Za-z0-9._~+/-]{16,256}$/);

export const listenAddress = (): Kind<string> =>
  text('an IP address or a host name', (written) => (isIp(written) || isHostName(written) ? written : null));

export const ipNetwork = (): Kind<string> =>
  text('an IP address or CIDR range such as 10.0.0.0/8', (written) => (isNetwork(written) ? written : null));

export const dnsServer = (): Kind<string> =>
  text('an IP address with an optional port, such as 127.0.0.1:5353 or [::1]:53', (written) => {
    const endpoint = parseEndpoint(written);
    return endpoint !== null && isIp(endpoint.host) ? written : null;
  });

export const mailAddress = (): Kind<string> =>
  text('an e-mail address such as postmaster@example.com', (written) => {
    const at = written.lastIndexOf('@');
    const plain = /^[^\s@<>()[\]\\,;:"]{1,64}$/.test(written.slice(0, Math.max(at, 0)));
    return plain && isHostName(written.slice(at + 1)) ? written : null;
  });

/** An http(s) address without a final slash. */
export const webAddress = (): Kind<string> =>
  text('an http:// or https:// address without user, query or fragment', (written) => {
    if (!URL.canParse(written)) return null;
    const url = new URL(written);
    const plain = /^https?:$/.test(url.protocol) && url.username === '' && url.search === '' && url.hash === '';
    return plain ? url.href.replace(/\/$/, '') : null;
  });

export function list<T>(item: Kind<T>, most: number, least = 0): Kind<T[]> {
  const number = least > 0 ? `${least} to ${most}` : `at most ${most}`;
  const expected = `a list of ${number} entries, each ${item.expected}`;
  const schema = z
    .array(item.schema, { error: expected })
    .min(least, { error: expected })
    .max(most, { error: expected });
  return { form: 'list', expected, unit: item.unit, schema };
}

/** A map with keys that `isKey` accepts; at most 10,000 entries. */
export function map<T>(
  value: z.ZodType<T>,
  about: { expected: string; key: string; isKey: (key: string) => boolean },
): Kind<Record<string, T>> {
  const key = z.string().refine(about.isKey, { error: about.key });
  const expected = `a map from ${about.key} to ${about.expected}`;
  const schema = z
    .record(key, value, { error: (issue) => (issue.code === 'invalid_type' ? expected : undefined) })
    .refine((entries) => Object.keys(entries).length <= 10_000, { error: 'at most 10000 entries' });
  return { form: 'map', expected, unit: null, schema };
}

/** `delivery.routes`: a domain, or `*`, and its route. Keys are kept in lower case. */
export function routes(): Kind<Record<string, Route>> {
  const route = z.unknown().transform((written, context) => {
    const reading = parseRoute(written);
    if (reading.kind === 'ok') return reading.route;
    for (const { member, expected } of reading.faults)
      context.addIssue({ code: 'custom', message: expected, path: member === null ? [] : [member] });
    return z.NEVER;
  });
  const kind = map(route, { expected: ROUTE_FORMS, key: 'a domain or *', isKey: isRouteKey });
  const lowerKeys = (entries: Record<string, Route>): Record<string, Route> =>
    Object.fromEntries(Object.entries(entries).map(([domain, value]) => [domain.toLowerCase(), value]));
  return { ...kind, schema: kind.schema.transform(lowerKeys) };
}

function read<T>(expected: string, parse: (written: unknown) => T | null): z.ZodType<T> {
  return z.unknown().transform((written, context) => {
    const value = parse(written);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  });
}

/** Writes a size: 1536 is `1536B`, 2048 is `2KiB`. */
export function writeSize(bytes: number): string {
  const [unit, factor] = Object.entries(SIZE_BYTES).findLast(
    ([, length]) => bytes >= length && bytes % length === 0,
  ) ?? ['B', 1];
  return `${bytes / factor}${unit}`;
}

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
  notes.set(schema, { is: 'setting', about, fallback, fallbackText: null, secret: false, ...rest, ...extra });
  return schema;
}

/** Declares a setting that may have no value, which is its default. */
export const unset = <T>(kind: Kind<T>, about: string, extra?: Extra): z.ZodType<T | null> =>
  setting({ ...kind, schema: kind.schema.nullable() }, null, about, extra);

/** Declares a group of settings. `conflict` may return a member of a valid group (with dots for a nested one) and what was expected of it. */
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
