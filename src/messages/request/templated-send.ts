/**
 * Send requests with templates or variables: before anything else is checked, what is to be rendered is rendered, and the request
 * becomes one without templates, whose rules are those of any other. So what is stored is what was rendered, once, and every
 * attempt sends the same.
 *
 *   isTemplated      has it a template or variables, above or in an entry?
 *   expandSend       the members that a template gives put into the request; what went wrong with single entries told apart
 */
import { z } from 'zod';
import { check } from '../../base/check.ts';
import { Problem, type ProblemCode } from '../../base/problem.ts';
import type { TemplateFault } from '../../templates/mixed/index.ts';
import type { PartResult, PartSource, Renderer } from '../../templates/renderer.ts';
import { templateToSend, type DeclaredVariable, type Template } from '../../templates/template-store.ts';
import type { Database } from '../../storage/database.ts';

export interface TemplatedDeps {
  db: Pick<Database, 'prepared'>;
  renderer: Renderer;
}

/** The version that a message was made with. */
export interface TemplateRef {
  id: string;
  version: number;
}

export interface ExpandedSend {
  body: Readonly<Record<string, unknown>>;
  /** Entries of a bulk send that could not be rendered, by their index. */
  refused: ReadonlyMap<number, Problem>;
  /** By the index of the entry; -1 is the single form. */
  templates: ReadonlyMap<number, TemplateRef>;
}

type Json = Readonly<Record<string, unknown>>;

const MOST_VARIABLES_BYTES = 100 * 1024;
const DEEPEST_VARIABLES = 10;

/** Whether it is a language tag that dates and numbers can be written by. */
function isLocale(text: string): boolean {
  try {
    return text.length <= 35 && Intl.getCanonicalLocales(text).length === 1;
  } catch {
    return false;
  }
}

function isTimezone(text: string): boolean {
  try {
    return text.length <= 60 && new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

export const localeSchema = z
  .string()
  .refine(isLocale)
  .meta({ maxLength: 35 })
  .describe("BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`.");
export const timezoneSchema = z
  .string()
  .refine(isTimezone)
  .meta({ maxLength: 60 })
  .describe("IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`.");

/** What a request says about templates, for checking and for its documentation. */
export const templateMembers = {
  template_id: z.string().min(1).max(64).nullish().describe('Id or alias of a template; excludes `html` and `text`.'),
  template_version: z.int().min(1).max(1_000_000_000).nullish().describe('Default: the published one.'),
  variables: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe(
      'Data for the template, or for `{{ }}` and `{% %}` in `subject`, `html` and `text`: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep.',
    ),
  strict_variables: z
    .boolean()
    .nullish()
    .describe("Refuse the request where a variable is missing. Default: the template's, else false."),
  locale: localeSchema.nullish().describe(localeSchema.description ?? ''),
  timezone: timezoneSchema.nullish().describe(timezoneSchema.description ?? ''),
};

const Members = z.object(templateMembers);
type Wish = z.output<typeof Members>;

const names = Object.keys(templateMembers);

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const asks = (value: unknown): boolean => isObject(value) && names.some((name) => value[name] != null);

export function isTemplated(body: Json): boolean {
  if (asks(body)) return true;
  const { recipients } = body;
  return Array.isArray(recipients) && recipients.some(asks);
}

/** Time between two breaths; rendering one entry takes some tens of microseconds. */
const BREATH_MS = 4;

/** Rendered mails of one request are in memory together until they are stored: a thousand with 50 KB of text fit. */
const MOST_RENDERED = 64 * 1024 * 1024;
/** An ordinary request takes a fraction of a second. Templates that only just keep their own limit could hold a thread for minutes. */
const MOST_RENDERING_MS = 30_000;

/** Throws the `Problem` that refuses the whole request. `now` is what `now` is in all of its templates. */
export async function expandSend(
  deps: TemplatedDeps,
  body: Json,
  {
    accountId,
    now,
    mostEntries,
    faulty,
    monotonic,
    breathe,
  }: {
    accountId: string;
    now: number;
    /** A request with more entries is not rendered: the checks behind this refuse it. */
    mostEntries: number;
    /** What is wrong with the data of the request (-1) or of an entry, by its index. */
    faulty: ReadonlyMap<number, Problem>;
    monotonic: () => number;
    breathe: () => Promise<void>;
  },
): Promise<ExpandedSend> {
  const load = loader(deps, accountId);
  const shared = wishOf(body, '');
  refuseFaulty(faulty, -1);
  const templates = new Map<number, TemplateRef>();
  const refused = new Map<number, Problem>();
  const { recipients } = body;
  if (recipients == null) {
    const expanded = await expandOne(deps, {
      own: body,
      hasSender: body['from'] != null,
      wish: shared,
      load,
      now,
      prefix: '',
    });
    if (expanded.template !== null) templates.set(-1, expanded.template);
    return { body: expanded.body, refused, templates };
  }
  refuseBoth(body, shared, '');
  if (!Array.isArray(recipients) || recipients.length > mostEntries) return { body: without(body), refused, templates };
  if (shared.template_id != null) await load(shared, '');
  const entries: unknown[] = [];
  const begun = monotonic();
  let last = begun;
  let rendered = 0;
  for (const [index, entry] of (recipients as unknown[]).entries()) {
    if (monotonic() - last > BREATH_MS) {
      await breathe();
      last = monotonic();
    }
    refuseTooMuch(rendered, last - begun);
    try {
      const expanded = await expandEntry(deps, { body, shared, entry, index, load, now, faulty });
      entries.push(expanded.body);
      rendered += expanded.length;
      if (expanded.template !== null) templates.set(index, expanded.template);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      refused.set(index, error);
      entries.push(entry);
    }
  }
  refuseTooMuch(rendered, monotonic() - begun);
  return { body: { ...without(body), recipients: entries }, refused, templates };
}

function refuseFaulty(faulty: ReadonlyMap<number, Problem>, index: number): void {
  const problem = faulty.get(index);
  if (problem !== undefined) throw problem;
}

function refuseTooMuch(length: number, ms: number): void {
  if (length > MOST_RENDERED)
    throw new Problem(
      'message_too_large',
      `The rendered mails have more than ${String(MOST_RENDERED)} characters together; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
  if (ms > MOST_RENDERING_MS)
    throw new Problem(
      'template_render_failed',
      `Rendering all entries takes longer than ${String(MOST_RENDERING_MS / 1000)} seconds; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
}

/** A request, or an entry of one, with its parts rendered. */
interface Expanded<Body> {
  body: Body;
  template: TemplateRef | null;
  /** Characters of the rendered parts. */
  length: number;
}

type Load = (wish: Wish, prefix: string) => Promise<Template>;

/** Each template is read once a request. */
function loader(deps: TemplatedDeps, accountId: string): Load {
  const found = new Map<string, Promise<Template | null>>();
  return async ({ template_id: id, template_version: version }, prefix) => {
    const key = `${String(version)} ${String(id)}`;
    const asked =
      found.get(key) ?? templateToSend(deps, { accountId, idOrAlias: String(id), version: version ?? null });
    found.set(key, asked);
    const template = await asked;
    if (template !== null) return template;
    const what = version == null ? 'a published template' : `version ${String(version)} of a template`;
    throw new Problem('unknown_template', `There is no such template: ${what} ${JSON.stringify(id)}.`, {
      field: `${prefix}template_id`,
    });
  };
}

function wishOf(body: Json, prefix: string): Wish {
  const wish = check(Members, pick(body), prefix === '' ? {} : { prefix: prefix.slice(0, -1) });
  if (wish.variables != null) checkVariables(wish.variables, `${prefix}variables`);
  if (wish.template_version != null && wish.template_id == null)
    throw new Problem('missing_field', '`template_version` needs `template_id`.', { field: `${prefix}template_id` });
  return wish;
}

const pick = (body: Json): Json => Object.fromEntries(Object.entries(body).filter(([name]) => names.includes(name)));
const without = (body: Json): Json =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)));

/** Throws `invalid_field` where they are too deep or too large. */
export function checkVariables(variables: Json, field: string): void {
  if (!isShallow(variables, DEEPEST_VARIABLES))
    throw new Problem('invalid_field', `\`${field}\` may be nested ${String(DEEPEST_VARIABLES)} levels deep.`, {
      field,
    });
  if (Buffer.byteLength(JSON.stringify(variables)) > MOST_VARIABLES_BYTES)
    throw new Problem('invalid_field', `\`${field}\` may have at most ${String(MOST_VARIABLES_BYTES)} bytes.`, {
      field,
    });
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((one) => isShallow(one, levels - 1));
}

function refuseBoth(body: Json, wish: Wish, prefix: string): void {
  if (wish.template_id == null) return;
  for (const name of ['html', 'text'])
    if (body[name] != null)
      throw new Problem('mutually_exclusive_fields', `\`${name}\` and \`template_id\` exclude each other.`, {
        field: prefix + name,
      });
}

interface One {
  /** The members that were given, merged with the shared ones for an entry. */
  own: Json;
  /** Whether the request says who sends, so that the template need not. */
  hasSender: boolean;
  wish: Wish;
  load: Load;
  now: number;
  prefix: string;
}

async function expandEntry(
  deps: TemplatedDeps,
  {
    body,
    shared,
    entry,
    index,
    load,
    now,
    faulty,
  }: {
    body: Json;
    shared: Wish;
    entry: unknown;
    index: number;
    load: Load;
    now: number;
    faulty: ReadonlyMap<number, Problem>;
  },
): Promise<Expanded<unknown>> {
  const prefix = `recipients[${String(index)}].`;
  if (!isObject(entry)) return { body: entry, template: null, length: 0 };
  const wish = wishOf(entry, prefix);
  refuseFaulty(faulty, index);
  refuseBoth(entry, wish, prefix);
  // html, text and template are one group: an entry that gives any of them replaces it.
  const ownGroup = ['html', 'text', 'template_id'].some((name) => entry[name] != null);
  const group = ownGroup ? entry : body;
  const variables =
    shared.variables == null && wish.variables == null ? null : { ...shared.variables, ...wish.variables };
  const merged: Wish = {
    template_id: ownGroup ? wish.template_id : shared.template_id,
    template_version: ownGroup ? wish.template_version : (wish.template_version ?? shared.template_version),
    variables,
    strict_variables: wish.strict_variables ?? shared.strict_variables,
    locale: wish.locale ?? shared.locale,
    timezone: wish.timezone ?? shared.timezone,
  };
  if (merged.template_id == null && variables === null) return { body: without(entry), template: null, length: 0 };
  const own = {
    ...entry,
    html: group['html'],
    text: group['text'],
    subject: entry['subject'] ?? body['subject'],
    reply_to: entry['reply_to'] ?? body['reply_to'],
  };
  // A shared sender stays shared, so that a fault in it is not told of each entry.
  const hasSender = (entry['from'] ?? body['from']) != null;
  return expandOne(deps, { own, hasSender, wish: merged, load, now, prefix });
}

async function expandOne(
  deps: TemplatedDeps,
  { own, hasSender, wish, load, now, prefix }: One,
): Promise<Expanded<Json>> {
  refuseBoth(own, wish, prefix);
  if (wish.template_id == null && wish.variables == null) return { body: without(own), template: null, length: 0 };
  const template = wish.template_id == null ? null : await load(wish, prefix);
  const body = template?.body ?? null;
  const variables = { ...wish.variables };
  if (body !== null) declare(body.variables, variables, `${prefix}variables`);
  const parts: PartSource[] = [];
  const add = (name: string, part: PartSource['part'], given: unknown, ofTemplate: string | null | undefined): void => {
    const source = given ?? ofTemplate;
    // What is no text is told of by the checks behind this.
    if (typeof source === 'string') parts.push({ name, part, source });
  };
  add('subject', 'subject', own['subject'], body?.subject);
  add('html', 'html', own['html'], body?.html);
  add('text', 'text', own['text'], body?.text);
  if (!hasSender) add('from', 'header', null, body?.from);
  const results = await deps.renderer.render(parts, {
    variables,
    strict: wish.strict_variables ?? body?.strict ?? false,
    locale: wish.locale ?? body?.locale ?? 'en',
    timezone: wish.timezone ?? body?.timezone ?? 'UTC',
    now,
  });
  const rendered = Object.fromEntries(results.map((result) => [result.name, outputOf(result, prefix)]));
  const replyTo = own['reply_to'] ?? (body !== null && body.replyTo.length > 0 ? body.replyTo : null);
  return {
    body: { ...without(own), ...rendered, ...(replyTo === null ? {} : { reply_to: replyTo }) },
    template: template === null ? null : { id: template.row.id, version: template.version },
    length: Object.values(rendered).reduce((sum, output) => sum + output.length, 0),
  };
}

/** Puts in what is absent and has a default. Throws where a required one is absent, or one is of another type. */
function declare(declared: readonly DeclaredVariable[], variables: Record<string, unknown>, field: string): void {
  for (const { name, type, required, default: fallback } of declared) {
    const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
    const place = `${field}.${name}`;
    if (value === undefined || value === null) {
      if (fallback !== null && fallback !== undefined) variables[name] = fallback;
      else if (required)
        throw new Problem('missing_variable', `The template needs the variable \`${name}\`.`, { field: place });
    } else if (typeOf(value) !== type)
      throw new Problem('invalid_field', `The template wants \`${name}\` to be of type ${type}.`, { field: place });
  }
}

const typeOf = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value);

function outputOf(result: PartResult, prefix: string): string {
  if (result.ok) return result.output;
  throw problemOf(result.faults[0], `${prefix}${result.name}`, prefix);
}

/** A fault of a template as the caller is told of it; `field` is the part it is in. */
export function problemOf(fault: TemplateFault | undefined, field: string, prefix = ''): Problem {
  if (fault === undefined) throw new Error('a render failed without a fault');
  const code: ProblemCode = fault.code;
  const where = fault.name === undefined ? field : `${prefix}variables.${fault.name}`;
  return new Problem(code, `\`${field}\`: ${fault.message}`, { field: where.slice(0, 250) });
}
