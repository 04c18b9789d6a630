/**
 * Sends with templates or variables. They are rendered before all other checks, and the output takes the place of the template,
 * so every rule for a message holds for a rendered one as well. The rendered message is stored: every attempt sends the same.
 */
import {
  isObject,
  readTemplateMembers,
  refuseBothContents,
  requireTemplateOf,
  withoutTemplateMembers,
  type Json,
  type TemplateMembers,
} from './template-members.ts';
import { Problem, type ProblemCode } from '../../base/problem.ts';
import type { Database } from '../../storage/database.ts';
import type { TemplateFault } from '../../templates/mixed/index.ts';
import type { PartResult, PartSource, Renderer } from '../../templates/renderer.ts';
import {
  templateToSend,
  VARIABLE_TYPES,
  type DeclaredVariable,
  type Template,
} from '../../templates/template-store.ts';
import { refuseForeignLink, refuseLinkIn } from './unsubscribe.ts';

/** A send request without templates. */
export interface ExpandedSend {
  body: Json;
  /** Entries of a bulk send that could not be rendered, by their index. */
  refused: ReadonlyMap<number, Problem>;
  /** The template of each entry, by its index; -1 is the single form. */
  templates: ReadonlyMap<number, TemplateRef>;
}

/** Milliseconds of rendering between two turns of the event loop; one entry takes some tens of microseconds. */
const SLICE_MS = 1;

/** Characters of all rendered messages of a request, which are in memory until they are stored: 1,000 with 50 KB each fit. */
const MOST_RENDERED = 64 * 1024 * 1024;
/** An ordinary request takes a fraction of a second. Slow templates within their own limit could use a thread for minutes. */
const MOST_RENDERING_MS = 30_000;

/** Renders a request. Throws the problem that refuses all of it. */
export async function expandSend(
  deps: RenderDeps,
  body: Json,
  {
    accountId,
    now,
    mostEntries,
    monotonic,
    nextSlice,
  }: {
    accountId: string;
    now: number;
    /** A request with more entries is not rendered: the checks that follow refuse it. */
    mostEntries: number;
    monotonic: () => number;
    nextSlice: () => Promise<void>;
  },
): Promise<ExpandedSend> {
  const rendering: Rendering = { ...deps, accountId, now, loadTemplate: createTemplateLoader(deps, accountId) };
  const shared = readTemplateMembers(body, '');
  requireTemplateOf(shared, '');
  const templates = new Map<number, TemplateRef>();
  const refused = new Map<number, Problem>();
  const { recipients } = body;
  if (recipients == null) {
    const message = await renderMessage(rendering, body, body['from'] != null, shared, '');
    if (message.template !== null) templates.set(-1, message.template);
    return { body: message.body, refused, templates };
  }
  refuseBothContents(body, shared, '');
  if (!Array.isArray(recipients) || recipients.length > mostEntries)
    return { body: withoutTemplateMembers(body), refused, templates };
  if (shared.template_id != null) await rendering.loadTemplate(shared, '');
  const entries: unknown[] = [];
  const begun = monotonic();
  let last = begun;
  let rendered = 0;
  for (const [index, entry] of (recipients as unknown[]).entries()) {
    if (monotonic() - last > SLICE_MS) {
      await nextSlice();
      last = monotonic();
    }
    refuseTooMuch(rendered, last - begun);
    try {
      const message = await expandEntry(rendering, body, shared, entry, `recipients[${String(index)}].`);
      entries.push(message.body);
      rendered += message.length;
      if (message.template !== null) templates.set(index, message.template);
    } catch (error) {
      // A fault of the server is not one of the entry: the client has to send the whole request again.
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      refused.set(index, error);
      entries.push(entry);
    }
  }
  refuseTooMuch(rendered, monotonic() - begun);
  const moved = sharedExpressions(body);
  const rest = Object.fromEntries(
    Object.entries(withoutTemplateMembers(body)).filter(([name]) => !moved.includes(name)),
  );
  return { body: { ...rest, recipients: entries }, refused, templates };
}

function refuseTooMuch(length: number, ms: number): void {
  if (length > MOST_RENDERED)
    throw new Problem(
      'message_too_large',
      `The rendered mails have more than ${String(MOST_RENDERED)} characters in all; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
  if (ms > MOST_RENDERING_MS)
    throw new Problem(
      'template_render_failed',
      `Rendering all entries takes longer than ${String(MOST_RENDERING_MS / 1000)} seconds; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
}

/** Renders an entry of a bulk send with the shared members as its defaults. */
async function expandEntry(
  rendering: Rendering,
  body: Json,
  shared: TemplateMembers,
  own: unknown,
  prefix: string,
): Promise<RenderedMessage<unknown>> {
  if (!isObject(own)) return { body: own, template: null, length: 0 };
  const entry = withSharedExpressions(body, own);
  const members = readTemplateMembers(entry, prefix);
  // html, text and template are one group: an entry that gives one of them replaces all three.
  const ownGroup = ['html', 'text', 'template_id'].some((name) => entry[name] != null);
  const group = ownGroup ? entry : body;
  const variables =
    shared.variables == null && members.variables == null ? null : { ...shared.variables, ...members.variables };
  const merged: TemplateMembers = {
    template_id: ownGroup ? members.template_id : shared.template_id,
    template_version: ownGroup ? members.template_version : (members.template_version ?? shared.template_version),
    variables,
    strict_variables: members.strict_variables ?? shared.strict_variables,
    locale: members.locale ?? shared.locale,
    timezone: members.timezone ?? shared.timezone,
  };
  requireTemplateOf(merged, prefix);
  if (merged.template_id == null && variables === null)
    return { body: withoutTemplateMembers(entry), template: null, length: 0 };
  const given = {
    ...entry,
    html: group['html'],
    text: group['text'],
    subject: entry['subject'] ?? body['subject'],
    reply_to: entry['reply_to'] ?? body['reply_to'],
  };
  // A shared sender is not copied into the entries: a fault in it is reported once, not for each entry.
  const hasSender = (entry['from'] ?? body['from']) != null;
  return renderMessage(rendering, given, hasSender, merged, prefix);
}

export interface RenderDeps {
  db: Pick<Database, 'prepared'>;
  renderer: Renderer;
}

interface Rendering extends RenderDeps {
  accountId: string;
  /** The time that `now` is in all its templates. */
  now: number;
  /** Loads the template that the members name, each once. Throws `unknown_template`. */
  loadTemplate: (members: TemplateMembers, prefix: string) => Promise<Template>;
}

/** The version of a template that a message was rendered from. */
export interface TemplateRef {
  id: string;
  version: number;
}

/** A request, or an entry of a bulk send, with the rendered output in place of its template. */
interface RenderedMessage<Body> {
  body: Body;
  template: TemplateRef | null;
  /** Characters of the rendered parts. */
  length: number;
}

function createTemplateLoader(deps: RenderDeps, accountId: string): Rendering['loadTemplate'] {
  const found = new Map<string, Promise<Template | null>>();
  return async ({ template_id: id, template_version: version }, prefix) => {
    const key = `${String(version)} ${String(id)}`;
    const loading =
      found.get(key) ?? templateToSend(deps, { accountId, idOrAlias: String(id), version: version ?? null });
    found.set(key, loading);
    const template = await loading;
    if (template !== null) return template;
    const what = version == null ? 'a published template' : `version ${String(version)} of a template`;
    throw new Problem('unknown_template', `There is no such template: ${what} ${JSON.stringify(id)}.`, {
      field: `${prefix}template_id`,
    });
  };
}

/** The steps to a text within a request: names of members and places in lists. */
type Steps = readonly (string | number)[];

/** Members beside the contents that recipients see, with the kind of their texts. */
const SEEN: readonly (readonly [member: string, part: PartSource['part']])[] = [
  ['from', 'address'],
  ['to', 'address'],
  ['cc', 'address'],
  ['bcc', 'address'],
  ['reply_to', 'address'],
  ['headers', 'header'],
  ['attachments', 'header'],
  ['unsubscribe', 'header'],
];

const hasExpression = (text: string): boolean => text.includes('{{') || text.includes('{%');

/** Returns the steps to each text with an expression in it. The deepest is that of a file's name. */
function expressionsIn(value: unknown, steps: Steps): Steps[] {
  if (typeof value === 'string') return hasExpression(value) ? [steps] : [];
  if (typeof value !== 'object' || value === null || steps.length > 2) return [];
  const entries: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((one, n) => [n, one])
    : Object.entries(value).filter(([name]) => name !== 'content');
  return entries.flatMap(([step, one]) => expressionsIn(one, [...steps, step]));
}

const shown = (steps: Steps): string =>
  steps.map((step, n) => (typeof step === 'number' ? `[${String(step)}]` : n === 0 ? step : `.${step}`)).join('');

const textAt = (value: unknown, steps: Steps): unknown =>
  steps.reduce<unknown>((one, step) => (one as Record<string | number, unknown>)[step], value);

function withText(value: unknown, [step, ...rest]: Steps, text: string): unknown {
  if (step === undefined) return text;
  if (Array.isArray(value)) return (value as unknown[]).map((one, n) => (n === step ? withText(one, rest, text) : one));
  const members = value as Json;
  return { ...members, [step]: withText(members[step], rest, text) };
}

/** Moves the shared members of a bulk send that hold expressions into an entry, which has its own variables: what the entry gives itself stays. */
function withSharedExpressions(body: Json, entry: Json): Json {
  const moved = Object.fromEntries(
    sharedExpressions(body).map((member) => [
      member,
      member === 'headers' ? mergedHeaders(body[member], entry[member]) : (entry[member] ?? body[member]),
    ]),
  );
  return { ...entry, ...moved };
}

/** Returns the names of the members, beside the contents, that hold expressions. */
const sharedExpressions = (body: Json): string[] =>
  SEEN.map(([member]) => member).filter((member) => expressionsIn(body[member], [member]).length > 0);

function mergedHeaders(shared: unknown, own: unknown): unknown {
  if (!isObject(shared) || (own != null && !isObject(own))) return own ?? shared;
  const names = new Set(Object.keys(own ?? {}).map((name) => name.toLowerCase()));
  return { ...Object.fromEntries(Object.entries(shared).filter(([name]) => !names.has(name.toLowerCase()))), ...own };
}

/**
 * Renders all texts that recipients see. `given` has the members of the request, for an entry merged with the shared ones; `hasSender` is true
 * if the request has a `from`, which replaces that of the template. Throws the first fault.
 */
async function renderMessage(
  { accountId, now, loadTemplate, renderer }: Rendering,
  given: Json,
  hasSender: boolean,
  members: TemplateMembers,
  prefix: string,
): Promise<RenderedMessage<Json>> {
  refuseBothContents(given, members, prefix);
  if (members.template_id == null && members.variables == null)
    return { body: withoutTemplateMembers(given), template: null, length: 0 };
  const template = members.template_id == null ? null : await loadTemplate(members, prefix);
  const body = template?.body ?? null;
  const declared = body?.variables ?? [];
  const variables = withDefaults(declared, members.variables ?? {});
  const [fault] = declarationFaults(declared, variables, `${prefix}variables`);
  if (fault !== undefined) throw fault.problem;
  const parts: PartSource[] = [];
  const add = (name: string, part: PartSource['part'], own: unknown, ofTemplate: string | null | undefined): void => {
    const source = own ?? ofTemplate;
    // A value of another type is refused by the checks that follow.
    if (typeof source !== 'string') return;
    if (part === 'html' || part === 'text') refuseForeignLink(source, `${prefix}${name}`);
    parts.push({ name, part, source });
  };
  add('subject', 'subject', given['subject'], body?.subject);
  add('html', 'html', given['html'], body?.html);
  add('text', 'text', given['text'], body?.text);
  if (!hasSender) add('from', 'address', null, body?.from);
  const places = new Map<string, Steps>();
  const replyTo = given['reply_to'] ?? (body !== null && body.replyTo.length > 0 ? body.replyTo : null);
  const mail: Json = { ...withoutTemplateMembers(given), ...(replyTo === null ? {} : { reply_to: replyTo }) };
  for (const [member, part] of SEEN)
    for (const steps of expressionsIn(mail[member], [member])) {
      add(shown(steps), part, textAt(mail, steps), null);
      places.set(shown(steps), steps);
    }
  const results = await renderer.render(accountId, parts, {
    variables,
    strict: members.strict_variables ?? body?.strict ?? false,
    locale: members.locale ?? body?.locale ?? 'en',
    timezone: members.timezone ?? body?.timezone ?? 'UTC',
    now,
  });
  let rendered = mail;
  let length = 0;
  for (const result of results) {
    const output = requireOutput(result, prefix);
    if (result.name !== 'html' && result.name !== 'text') refuseLinkIn(output, `${prefix}${result.name}`);
    length += output.length;
    rendered = withText(rendered, places.get(result.name) ?? [result.name], output) as Json;
  }
  return {
    body: rendered,
    template: template === null ? null : { id: template.row.id, version: template.version },
    length,
  };
}

export function withDefaults(declared: readonly DeclaredVariable[], given: Variables): Record<string, unknown> {
  const variables: Record<string, unknown> = { ...given };
  for (const { name, default: fallback } of declared)
    if (isAbsent(variables, name) && fallback !== null && fallback !== undefined) variables[name] = fallback;
  return variables;
}

export interface DeclarationFault {
  name: string;
  problem: Problem;
}

/** Returns the required variables that are absent, and those of another type. */
export function declarationFaults(
  declared: readonly DeclaredVariable[],
  variables: Variables,
  field: string,
): DeclarationFault[] {
  return declared.flatMap(({ name, type, required }) => {
    const at = { field: `${field}.${name}` };
    if (isAbsent(variables, name)) {
      const why = `The template needs the variable \`${name}\`. Give it in \`variables\`.`;
      return required ? [{ name, problem: new Problem('missing_variable', why, at) }] : [];
    }
    const why = `The template needs \`${name}\` to be of type ${type}.`;
    return typeOf(variables[name]) === type ? [] : [{ name, problem: new Problem('invalid_field', why, at) }];
  });
}

type Variables = Readonly<Record<string, unknown>>;

const isAbsent = (variables: Variables, name: string): boolean =>
  !Object.hasOwn(variables, name) || variables[name] === undefined || variables[name] === null;

const typeOf = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value);

/** Returns the type that a variable must be declared with to have this value; null for what no variable can be. */
export const declarableType = (value: unknown): DeclaredVariable['type'] | null =>
  VARIABLE_TYPES.find((type) => value !== null && type === typeOf(value)) ?? null;

function requireOutput(result: PartResult, prefix: string): string {
  if (result.ok) return result.output;
  throw templateProblem(result.faults[0], `${prefix}${result.name}`, prefix);
}

/** Returns the problem that the caller gets for a fault of a template; `field` is the part with the fault. */
export function templateProblem(fault: TemplateFault | undefined, field: string, prefix = ''): Problem {
  if (fault === undefined) throw new Error('a render failed without a fault');
  const code: ProblemCode = fault.code;
  const where = fault.name === undefined ? field : `${prefix}variables.${fault.name}`;
  return new Problem(code, `\`${field}\`: ${fault.message}`, { field: where.slice(0, 250) });
}
