/** Schemas of a template, as requests give it and answers show it. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { isId } from '../base/id.ts';
import { localeSchema, timezoneSchema } from '../messages/request/template-members.ts';
import { recordOf } from '../storage/record.ts';
import { templates } from '../storage/tables.ts';
import { MOST_SOURCE } from '../templates/mixed/index.ts';
import { VARIABLE_TYPES, type Template } from '../templates/template-store.ts';
import { flag, recordSchema, text } from './record-schema.ts';

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
