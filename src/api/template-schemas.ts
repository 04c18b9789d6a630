/** Schemas of a template, as requests give it and answers show it. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { isId } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { localeSchema, timezoneSchema } from '../messages/request/template-members.ts';
import { MOST_SOURCE } from '../templates/mixed/index.ts';
import { VARIABLE_TYPES, type Template } from '../templates/template-store.ts';

const Declared = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    .describe('As the template spells it.'),
  type: z.enum(VARIABLE_TYPES).nullish().describe('Where not given, that of the default, else `string`.'),
  required: z.boolean().nullish().describe('A send without it is refused. Default: false.'),
  default: z.unknown().optional().describe('What it is where a send does not give it.'),
});

/** Its size is counted in bytes, where it is compiled: a template that breaks a limit is `template_render_failed`, whichever it is. */
const source = (what: string) =>
  z
    .string()
    .nullish()
    .describe(`${what} At most ${String(MOST_SOURCE / 1024)} KiB.`);

/** The contents of a template in requests. */
export const contents = {
  subject: z.string().min(1).max(2000).nullish().describe('Rendered for each mail; 998 characters at most then.'),
  from: z.string().min(1).max(1000).nullish().describe('Sender where a send names none; its name may have variables.'),
  reply_to: z
    .union([z.string().max(1000), z.array(z.string().max(1000)).max(10)])
    .nullish()
    .describe('Where answers go; may have variables.'),
  html: source('HTML body.'),
  text: source('Plain text body; derived from the html where there is none.'),
  variables: z.array(Declared).max(200).nullish().describe('Variables that are declared. Others may be used as well.'),
  locale: localeSchema.nullish(),
  timezone: timezoneSchema.nullish(),
  strict_variables: z.boolean().nullish().describe('Refuse sends where a variable is missing. Default: false.'),
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

/** A text of an answer, or null. */
export const nullable = (says: string) => z.string().nullable().describe(says);

export const TemplateRecord = z
  .object({
    object: z.literal('template'),
    id: z.string().describe('Id of the template.'),
    alias: nullable('A name of your own, accepted wherever an id is.'),
    name: z.string().describe('For people.'),
    subject: nullable('Subject line.'),
    from: nullable('Sender where a send names none.'),
    reply_to: z.array(z.string()).describe('Where answers go.'),
    html: nullable('HTML body; null in lists.'),
    text: nullable('Plain text body; null in lists, and where it is derived from the html.'),
    variables: z
      .array(
        z.object({
          name: z.string().describe('As the template spells it.'),
          type: z.enum(VARIABLE_TYPES).describe('What a send must give.'),
          required: z.boolean().describe('Whether a send without it is refused.'),
          default: z.unknown().describe('What it is where a send does not give it.'),
        }),
      )
      .describe('Variables that are declared.'),
    locale: z.string().describe('For dates and numbers, where a send names none.'),
    timezone: z.string().describe('For dates, where a send names none.'),
    strict_variables: z.boolean().describe('Whether sends are refused where a variable is missing.'),
    sample_variables: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('Values for the preview and the test mail; null in lists, and where none are kept.'),
    version: z.int().describe('The version shown.'),
    published_version: z.int().nullable().describe('The version that sends use.'),
    status: z.enum(['draft', 'published']).describe('Whether the version shown is the one that sends use.'),
    created_at: z.iso.datetime().describe('When it was made.'),
    updated_at: z.iso.datetime().describe('When it was changed last.'),
    published_at: z.iso.datetime().nullable().describe('When a version was published last; null for never.'),
  })
  .meta({ id: 'Template', description: 'A mail to be filled in: Handlebars and Liquid, mixed freely.' });

export const sample = {
  object: 'template',
  id: 'tpl_01jz5w8q3hf2m9d4x6k7c1b0na',
  alias: 'welcome',
  name: 'Welcome',
  subject: 'Hello {{ name }}',
  from: 'Acme <hi@acme.example>',
  reply_to: [],
  html: '<p>Hello {{ name }}{% if plan == "pro" %}, and thank you{% endif %}.</p>',
  text: null,
  variables: [],
  locale: 'en',
  timezone: 'UTC',
  strict_variables: false,
  sample_variables: { name: 'Ana', plan: 'pro' },
  version: 1,
  published_version: 1,
  status: 'published',
  created_at: '2026-01-31T09:30:02.481Z',
  updated_at: '2026-01-31T09:30:02.481Z',
  published_at: '2026-01-31T09:30:02.481Z',
};

export function templateRecord({ row, version, body }: Template): z.output<typeof TemplateRecord> {
  return {
    object: 'template',
    id: row.id,
    alias: row.alias,
    name: row.name,
    subject: body.subject,
    from: body.from,
    reply_to: [...body.replyTo],
    html: body.html,
    text: body.text,
    variables: body.variables.map((one) => ({ ...one, default: one.default ?? null })),
    locale: body.locale,
    timezone: body.timezone,
    strict_variables: body.strict,
    sample_variables: body.sample === null ? null : { ...body.sample },
    version,
    published_version: row.published_version,
    status: version === row.published_version ? 'published' : 'draft',
    created_at: rfc3339(row.created_at),
    updated_at: rfc3339(row.updated_at),
    published_at: row.published_at === null ? null : rfc3339(row.published_at),
  };
}
