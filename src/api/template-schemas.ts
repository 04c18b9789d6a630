/** Schemas of a template, as requests give it and answers show it. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { isId } from '../base/id.ts';
import { checkVariables, localeSchema, timezoneSchema } from '../messages/request/template-members.ts';
import { recordOf } from '../storage/record.ts';
import { templates } from '../storage/tables.ts';
import { MOST_SOURCE, type Part } from '../templates/mixed/index.ts';
import {
  VARIABLE_TYPES,
  type DeclaredVariable,
  type Template,
  type TemplateBody,
} from '../templates/template-store.ts';
import { flag, recordSchema, text } from './record-schema.ts';
import { Problem } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';
import { declarableType, templateProblem } from '../messages/request/templated-send.ts';
import { refuseForeignLink } from '../messages/request/unsubscribe.ts';
import type { Renderer } from '../templates/renderer.ts';

const Declared = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    .describe('As the template spells it.'),
  type: z.enum(VARIABLE_TYPES).nullish().describe('Where not given, that of the default, else `string`.'),
  required: z.boolean().nullish().describe('A send without it is refused. Default: false.'),
  default: z.unknown().optional().describe('What it is if a send does not give it.'),
});

/** Its size is counted in bytes, if it is compiled: a template that breaks a limit is `template_render_failed`, whichever it is. */
const source = (what: string) =>
  z
    .string()
    .nullish()
    .describe(`${what} At most ${String(MOST_SOURCE / 1024)} KiB.`);

/** The contents of a template in requests. */
export const contents = {
  subject: z.string().min(1).max(2000).nullish().describe('Rendered for each mail; 998 characters at most then.'),
  from: z.string().min(1).max(1000).nullish().describe('Sender if a send names none; its name may have variables.'),
  reply_to: z
    .union([z.string().max(1000), z.array(z.string().max(1000)).max(10)])
    .nullish()
    .describe('Where answers go; may have variables.'),
  html: source('HTML body.'),
  text: source('Plain text body; derived from the html if there is none.'),
  variables: z.array(Declared).max(200).nullish().describe('Variables that are declared. Others may be used as well.'),
  locale: localeSchema.nullish(),
  timezone: timezoneSchema.nullish(),
  strict_variables: z.boolean().nullish().describe('Refuse sends if a variable is missing. Default: false.'),
  sample_variables: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe(
      'Values for the preview and the test mail, kept with the version; sends do not use them. At most 100 KiB of JSON, 10 levels deep.',
    ),
};

const alias = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    'must be lower-case letters, digits, _ and -, a letter or digit first, at most 64 characters',
  )
  .refine((text) => !isId('tpl', text))
  .register(faults, {
    says: 'must be 1 to 64 of the characters a-z 0-9 _ -, begin with a letter or digit, and be no id',
  })
  .nullish()
  .describe('A name of your own, accepted wherever an id is; unique in the account.');

const named = {
  alias,
  name: z.string().min(1).max(200).nullish().describe('For people. Default: the alias, else the subject.'),
};

export const NewTemplate = z
  .strictObject({
    ...named,
    ...contents,
    publish: z.boolean().nullish().describe('`false` keeps a draft. Default: true.'),
  })
  .meta({ id: 'NewTemplate', description: 'A template that is to be made. It needs `html` or `text`.' });

export const TemplateChange = z
  .strictObject({
    ...named,
    ...contents,
    publish: z.boolean().nullish().describe('Publishes what results. Default: false.'),
  })
  .meta({
    id: 'TemplateChange',
    description: 'The members to change; all others stay the same, and null removes a member or makes it its default.',
  });

export const templateRecordMembers = recordOf('template', templates);

export const TemplateRecord = recordSchema(
  templateRecordMembers,
  { id: 'Template', description: 'A mail to be filled in: Handlebars and Liquid, mixed freely.' },
  {
    variables: z.array(
      z.object({
        name: text('As the template spells it.'),
        type: z.enum(VARIABLE_TYPES).describe('What a send must give.'),
        required: flag('Whether a send without it is refused.'),
        default: z.unknown().describe('What it is if a send does not give it.'),
      }),
    ),
  },
);

export const templateRecord = ({ row, version, body }: Template) =>
  templateRecordMembers(row, {
    subject: body.subject,
    from: body.from,
    reply_to: [...body.replyTo],
    html: body.html,
    text: body.text,
    variables: body.variables.map((one) => ({ ...one, default: one.default ?? null })),
    locale: body.locale,
    timezone: body.timezone,
    strict_variables: body.strict,
    sample_variables: body.sample,
    version,
    status: version === row.published_version ? 'published' : 'draft',
  });

/** A template without any contents. */
export const empty: TemplateBody = {
  subject: null,
  from: null,
  replyTo: [],
  html: null,
  text: null,
  variables: [],
  locale: 'en',
  timezone: 'UTC',
  strict: false,
  sample: null,
};

type Contents = Omit<z.output<typeof TemplateChange>, 'alias' | 'name' | 'publish'>;

/** Returns the body with the given members replaced; null removes a member, or makes it what it is in a template without it. */
export function applied(body: TemplateBody, given: Contents): TemplateBody {
  const or = <T>(value: T | null | undefined, before: T, without: T): T =>
    value === undefined ? before : (value ?? without);
  const declared = ({ name, type, required, default: fallback }: NonNullable<Contents['variables']>[number]) => ({
    name,
    type: type ?? declarableType(fallback) ?? 'string',
    required: required ?? false,
    default: fallback ?? null,
  });
  return {
    subject: or(given.subject, body.subject, null),
    from: or(given.from, body.from, null),
    replyTo: or(given.reply_to == null ? given.reply_to : [given.reply_to].flat(), body.replyTo, []),
    html: or(given.html, body.html, null),
    text: or(given.text, body.text, null),
    variables: or(given.variables == null ? given.variables : given.variables.map(declared), body.variables, []),
    locale: or(given.locale, body.locale, empty.locale),
    timezone: or(given.timezone, body.timezone, empty.timezone),
    strict: or(given.strict_variables, body.strict, empty.strict),
    sample: or(given.sample_variables, body.sample, null),
  };
}

/** Checks the sources of a request, of which a change has those alone that are new. Throws the first fault. */
export async function checkGiven(
  { renderer }: { renderer: Renderer },
  accountId: string,
  body: TemplateBody,
): Promise<void> {
  const parts = sourcesOf(body).map(([name, part, source]) => ({ name, part, source }));
  for (const result of await renderer.read(accountId, parts))
    if (!result.ok) throw templateProblem(result.faults[0], result.name);
  for (const { name, part, source } of parts) if (part === 'html' || part === 'text') refuseForeignLink(source, name);
}

/** A send that relies on a default of another type would be refused. */
function checkDefault({ name, type, default: fallback }: DeclaredVariable, n: number): void {
  const actual = declarableType(fallback);
  if (actual === null || actual === type) return;
  throw new Problem('invalid_field', `The default of the variable \`${name}\` is of type ${actual}, not ${type}.`, {
    field: `variables[${String(n)}].default`,
  });
}

/** Checks that there is content, and that addresses, defaults and sample values are valid. Throws the first fault. */
export function checkBody(body: TemplateBody): void {
  if ((body.html ?? '') === '' && (body.text ?? '') === '')
    throw new Problem('missing_content', 'The template has no content: give it `html` or `text`.', { field: 'html' });
  if (body.sample !== null) checkVariables(body.sample, 'sample_variables');
  const defaults = body.variables.filter((one) => one.default != null).map((one) => [one.name, one.default]);
  checkVariables(Object.fromEntries(defaults) as Record<string, unknown>, 'variables');
  // With variables in it, an address can only be judged when it is filled in.
  if (body.from !== null && !body.from.includes('{')) checkAddress(body.from, 'from', 'invalid_sender');
  body.replyTo.forEach((text, n) => {
    if (!text.includes('{')) checkAddress(text, replyToField(body, n), 'invalid_address');
  });
  body.variables.forEach(checkDefault);
  const double = body.variables.find(({ name }, n) => body.variables.findIndex((one) => one.name === name) !== n);
  if (double !== undefined)
    throw new Problem('invalid_field', `The variable \`${double.name}\` is declared twice.`, { field: 'variables' });
}

const replyToField = ({ replyTo }: TemplateBody, n: number): string =>
  replyTo.length === 1 ? 'reply_to' : `reply_to[${String(n)}]`;

function checkAddress(text: string, field: string, code: 'invalid_sender' | 'invalid_address'): void {
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem(code, `\`${field}\` does not match the address format rule: ${parsed.why}.`, { field });
}

/** Returns the sources of a template that it has, with their names and kinds. */
export function sourcesOf(body: TemplateBody): [name: string, part: Part, source: string][] {
  const all: [string, Part, string | null][] = [
    ['subject', 'subject', body.subject],
    ['from', 'address', body.from],
    ...body.replyTo.map((text, n): [string, Part, string] => [replyToField(body, n), 'address', text]),
    ['html', 'html', body.html],
    ['text', 'text', body.text],
  ];
  return all.flatMap(([name, part, text]): [string, Part, string][] => (text === null ? [] : [[name, part, text]]));
}
