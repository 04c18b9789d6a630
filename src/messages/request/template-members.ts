/** The members of a send request that are about templates: their schema, and the checks that a schema cannot make. */
import { z } from 'zod';
import { check, faults } from '../../base/check.ts';
import { Problem, invalid, missing } from '../../base/problem.ts';
import { zoneNamed } from '../../base/zones.ts';

export type Json = Readonly<Record<string, unknown>>;

const MOST_VARIABLES_BYTES = 100 * 1024;
const DEEPEST_VARIABLES = 10;
/** Characters of a BCP 47 tag. */
const LONGEST_LOCALE = 35;
/** Characters of an IANA name. */
const LONGEST_TIMEZONE = 60;

function isLocale(text: string): boolean {
  try {
    return text.length <= LONGEST_LOCALE && Intl.getCanonicalLocales(text).length === 1;
  } catch {
    return false;
  }
}

const isTimezone = (text: string): boolean => text.length <= LONGEST_TIMEZONE && zoneNamed(text) !== null;

export const localeSchema = z
  .string()
  .refine(isLocale)
  .register(faults, { says: 'must be a BCP 47 tag such as `de-AT`' })
  .meta({ maxLength: LONGEST_LOCALE })
  .describe("BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`.");
export const timezoneSchema = z
  .string()
  .refine(isTimezone)
  .register(faults, { says: 'must be an IANA name such as `Europe/Vienna`' })
  .meta({ maxLength: LONGEST_TIMEZONE })
  .describe("IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`.");

export const templateMembers = {
  template_id: z.string().min(1).max(64).nullish().describe('Id or alias of a template; excludes `html` and `text`.'),
  template_version: z.int().min(1).max(1_000_000_000).nullish().describe('Default: the published one.'),
  variables: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe(
      'Data for the template, or for `{{ }}` and `{% %}` in the texts that recipients see: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep.',
    ),
  strict_variables: z
    .boolean()
    .nullish()
    .describe("Refuse the request if a variable is missing. Default: the template's, else false."),
  locale: localeSchema.nullish().describe(localeSchema.description ?? ''),
  timezone: timezoneSchema.nullish().describe(timezoneSchema.description ?? ''),
};

const memberNames = Object.keys(templateMembers);

const MembersSchema = z.object(templateMembers);
export type TemplateMembers = z.output<typeof MembersSchema>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Members that every message or file needs: an empty text in one is a fault, or an empty file. */
const needed = new Set(['from', 'to', 'subject', 'recipients', 'filename', 'content']);
const nested = new Set(['recipients', 'attachments', 'unsubscribe']);

/** Returns a request with null in the place of an empty text wherever a member may be left out. */
export function withoutEmptyTexts<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(withoutEmptyTexts) as Value;
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, member]) => {
    if (member === '' && !needed.has(name)) return [name, null];
    return [name, nested.has(name) ? withoutEmptyTexts(member) : member];
  });
  return Object.fromEntries(members) as Value;
}

const hasTemplateMembers = (value: unknown): boolean =>
  isObject(value) && memberNames.some((name) => value[name] != null);

/** Returns whether the request, or one of its entries, has a template or variables. */
export function isTemplated(body: Json): boolean {
  if (hasTemplateMembers(body)) return true;
  const { recipients } = body;
  return Array.isArray(recipients) && recipients.some(hasTemplateMembers);
}

/**
 * Reads and checks the template members of a request or an entry. Throws the first fault. Whether a version has its template is checked by
 * `requireTemplateOf`, as that of an entry may be the one of its request.
 */
export function readTemplateMembers(body: Json, prefix: string): TemplateMembers {
  const members = check(MembersSchema, onlyTemplateMembers(body), prefix === '' ? {} : { prefix: prefix.slice(0, -1) });
  if (members.variables != null) checkVariables(members.variables, `${prefix}variables`);
  return members;
}

/** Throws for a version without a template. */
export function requireTemplateOf(
  { template_id: id, template_version: version }: TemplateMembers,
  prefix: string,
): void {
  if (version != null && id == null) throw missing(`${prefix}template_id`, '`template_version` needs `template_id`.');
}

const onlyTemplateMembers = (body: Json): Json =>
  Object.fromEntries(Object.entries(body).filter(([name]) => memberNames.includes(name)));
export const withoutTemplateMembers = (body: Json): Json =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !memberNames.includes(name)));

/** Checks the depth and the size of the variables. Throws `invalid_field`. */
export function checkVariables(variables: Json, field: string): void {
  if (!isShallow(variables, DEEPEST_VARIABLES))
    throw invalid(field, `\`${field}\` may be nested at most ${String(DEEPEST_VARIABLES)} levels deep.`);
  if (Buffer.byteLength(JSON.stringify(variables)) > MOST_VARIABLES_BYTES)
    throw invalid(field, `\`${field}\` may have at most ${String(MOST_VARIABLES_BYTES)} bytes.`);
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((one) => isShallow(one, levels - 1));
}

/** Refuses `html` or `text` beside a template. Throws `mutually_exclusive_fields`. */
export function refuseBothContents(body: Json, members: TemplateMembers, prefix: string): void {
  if (members.template_id == null) return;
  for (const name of ['html', 'text'])
    if (body[name] != null)
      throw new Problem('mutually_exclusive_fields', `\`${name}\` and \`template_id\` exclude each other.`, {
        field: prefix + name,
      });
}
