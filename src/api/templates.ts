/** `/v1/templates`: templates with their versions. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { isId } from '../base/id.ts';
import {
  checkVariables,
  localeSchema,
  timezoneSchema,
  requireTemplateOf,
  templateMembers,
} from '../messages/request/template-members.ts';
import { recordOf } from '../storage/record.ts';
import { templates, templateVersions, type TemplateRow } from '../storage/tables.ts';
import { MOST_SOURCE, type Part } from '../templates/mixed/index.ts';
import {
  VARIABLE_TYPES,
  type DeclaredVariable,
  type Template,
  type TemplateBody,
  changeTemplate,
  createTemplate,
  deleteTemplate,
  findTemplate,
  nameFor,
  pageOfTemplates,
  versionsOf,
} from '../templates/template-store.ts';
import {
  flag,
  maybe,
  maybeWhole,
  namedRecord,
  namedRequest,
  recordSchema,
  sampleOf,
  shows,
  text,
  texts,
} from './record-schema.ts';
import { Problem, invalid } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';
import {
  declarableType,
  templateProblem,
  declarationFaults,
  withDefaults,
  type DeclarationFault,
} from '../messages/request/templated-send.ts';
import { refuseForeignLink } from '../messages/request/unsubscribe.ts';
import type { PartSource, PartResult } from '../templates/renderer.ts';
import { actorOf } from '../keys/caller.ts';
import { answerChange, created, type Call, type Reply, jsonResponse } from './route.ts';
import type { ApiContext } from './context.ts';
import { pageResponse, wholeList, wholeListResponse } from './page.ts';
import { integerParameter } from './query.ts';
import { resource } from './resource.ts';

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

const contents = {
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

const NewTemplate = namedRequest('NewTemplate', 'A template that is to be made. It needs `html` or `text`.', {
  ...named,
  ...contents,
  publish: z.boolean().nullish().describe('`false` keeps a draft. Default: true.'),
});

const TemplateChange = namedRequest(
  'TemplateChange',
  'The members to change; all others stay the same, and null removes a member or makes it its default.',
  {
    ...named,
    ...contents,
    publish: z.boolean().nullish().describe('Publishes what results. Default: false.'),
  },
);

const templateRecordMembers = recordOf('template', templates);

const TemplateRecord = recordSchema(
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

const templateRecord = ({ row, version, body }: Template) =>
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

const empty: TemplateBody = {
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
function applied(body: TemplateBody, given: Contents): TemplateBody {
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
async function checkGiven({ renderer }: ApiContext, accountId: string, body: TemplateBody): Promise<void> {
  const parts = sourcesOf(body);
  for (const result of await renderer.read(accountId, parts))
    if (!result.ok) throw templateProblem(result.faults[0], result.name);
  for (const { name, part, source } of parts) if (part === 'html' || part === 'text') refuseForeignLink(source, name);
}

/** A send that relies on a default of another type would be refused. */
function checkDefault({ name, type, default: fallback }: DeclaredVariable, n: number): void {
  const actual = declarableType(fallback);
  if (actual === null || actual === type) return;
  throw invalid(
    `variables[${String(n)}].default`,
    `The default of the variable \`${name}\` is of type ${actual}, not ${type}.`,
  );
}

/** Checks that there is content, and that addresses, defaults and sample values are valid. Throws the first fault. */
function checkBody(body: TemplateBody): void {
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
  if (double !== undefined) throw invalid('variables', `The variable \`${double.name}\` is declared twice.`);
}

const replyToField = ({ replyTo }: TemplateBody, n: number): string =>
  replyTo.length === 1 ? 'reply_to' : `reply_to[${String(n)}]`;

function checkAddress(text: string, field: string, code: 'invalid_sender' | 'invalid_address'): void {
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem(code, `\`${field}\` does not match the address format rule: ${parsed.why}.`, { field });
}
function sourcesOf(body: TemplateBody): PartSource[] {
  const all: [name: string, part: Part, source: string | null][] = [
    ['subject', 'subject', body.subject],
    ['from', 'address', body.from],
    ...body.replyTo.map((text, n): [string, Part, string] => [replyToField(body, n), 'address', text]),
    ['html', 'html', body.html],
    ['text', 'text', body.text],
  ];
  return all.flatMap(([name, part, source]) => (source === null ? [] : [{ name, part, source }]));
}

const PATH = '/v1/templates';
const params = z.object({ id: z.string().min(1).max(64).describe('Id or alias.') });
type Params = z.output<typeof params>;

const kind = resource({
  path: PATH,
  params,
  schema: TemplateRecord,
  reads: 'template:read',
  changes: 'template',
  type: 'template',
  // The audit does not keep the text, of which every version is stored.
  audited: [...templateRecordMembers.audited, 'latest_version'],
});

const faultsOfTemplates = [
  'missing_content',
  'invalid_sender',
  'invalid_address',
  'template_syntax_error',
  'template_render_failed',
  'already_exists',
] as const;

const refOf = ({ params: { id }, caller }: Pick<Call<Params, unknown, unknown>, 'params' | 'caller'>) => ({
  accountId: caller.accountId,
  idOrAlias: id,
});

const create = kind.create(
  {
    operationId: 'createTemplate',
    description:
      'Handlebars and Liquid may be mixed. A fault is reported with its line and column. The template is published at once unless `publish` is false. An account has at most 10,000.',
    says: 'created the template {name}',
    body: NewTemplate,
    bodyExamples: {
      welcome: {
        summary: 'A template',
        value: {
          alias: 'welcome',
          name: 'Welcome',
          subject: 'Hello {{ name }}',
          html: '<p>Hello {{ name }}{% if plan == "pro" %}, and thank you{% endif %}.</p>',
        },
      },
    },
    problems: [...faultsOfTemplates, 'invalid_state'],
  },
  async (call: Call<object, object, z.output<typeof NewTemplate>>, context: ApiContext) => {
    const given = call.body;
    const { accountId } = call.caller;
    const body = applied(empty, given);
    await checkGiven(context, accountId, body);
    checkBody(body);
    const wanted = {
      accountId,
      alias: given.alias ?? null,
      name: given.name ?? nameFor(given.alias ?? null, body),
      body,
      publish: given.publish !== false,
      by: actorOf(call.caller),
    };
    return answerChange(call, created(PATH, templateRecord), (rowsFor) => createTemplate(context, wanted, rowsFor));
  },
);

/** The change to the given members. What is kept is checked too: a template of an earlier release may have what is refused now. */
const changeTo =
  (given: Parameters<typeof applied>[1]) =>
  (before: TemplateBody): TemplateBody => {
    const after = applied(before, given);
    checkBody(after);
    return after;
  };

const changedReply = ({ before, ...template }: Template & { before: TemplateRow }): Reply => ({
  status: 200,
  body: templateRecord(template),
  before,
});

const list = kind.list(
  {
    operationId: 'listTemplates',
    description:
      'The latest version of each, newest template first, without `html`, `text` and `sample_variables` (null here).',
    responses: pageResponse(TemplateRecord, { ...sampleOf(TemplateRecord), html: null, sample_variables: null }),
  },
  async (wanted, _, { db }) => {
    const { templates, hasMore } = await pageOfTemplates({ db }, wanted);
    return { data: templates.map(templateRecord), hasMore };
  },
);

const get = kind.get(
  {
    operationId: 'getTemplate',
    description: 'By id or alias: the latest version, or the one asked for.',
    query: z.strictObject({
      version: integerParameter(1, 1_000_000_000).optional().describe('The latest if not given.'),
    }),
  },
  async (call, context) => templateRecord(await findTemplate(context, { ...refOf(call), version: call.query.version })),
);

const update = kind.update(
  {
    operationId: 'updateTemplate',
    description:
      'Given members replace the old ones, null removes one or makes it its default. Content that is new makes a new version, a draft until it is published; sends use the published version until then. The last 1,000 versions are kept, and the published one.',
    says: 'changed the template {name}',
    body: TemplateChange,
    bodyExamples: {
      subject: { summary: 'Another subject, published', value: { subject: 'Good day, {{ name }}', publish: true } },
    },
    problems: faultsOfTemplates,
  },
  async (call: Call<Params, object, z.output<typeof TemplateChange>>, context: ApiContext) => {
    const { alias: newAlias, name, publish, ...given } = call.body;
    const changes = Object.values(given).some((value) => value !== undefined);
    // Unchanged contents were checked before.
    await checkGiven(context, call.caller.accountId, applied(empty, given));
    const wanted = {
      ...refOf(call),
      change: changes || publish === true ? changeTo(given) : null,
      publish: publish === true,
      by: actorOf(call.caller),
      ...(newAlias === undefined ? {} : { alias: newAlias }),
      ...(name === undefined ? {} : { name }),
    };
    return answerChange(call, changedReply, (rowsFor) => changeTemplate(context, wanted, rowsFor));
  },
);

const remove = kind.remove(
  {
    operationId: 'deleteTemplate',
    description: 'With all versions. Mail that was accepted with it is sent as it is: it was rendered then.',
    says: 'deleted the template {name}',
  },
  (call, context: ApiContext) =>
    answerChange(
      call,
      (before: TemplateRow): Reply => ({ status: 204, body: null, before }),
      (rowsFor) => deleteTemplate(context, refOf(call), rowsFor),
    ),
);

const publish = kind.post(
  {
    path: `${PATH}/{id}/publish`,
    operationId: 'publishTemplate',
    description: 'From now on sends use it, unless they name a version.',
    says: 'published the template {name}',
    problems: ['missing_content', 'invalid_sender', 'invalid_address'],
  },
  (call, context: ApiContext) => {
    const wanted = { ...refOf(call), change: changeTo({}), publish: true, by: actorOf(call.caller) };
    return answerChange(call, changedReply, (rowsFor) => changeTemplate(context, wanted, rowsFor));
  },
);

const versionMembers = recordOf('template_version', templateVersions);
const TemplateVersion = recordSchema(versionMembers);
const versions = kind.get(
  {
    path: `${PATH}/{id}/versions`,
    operationId: 'listTemplateVersions',
    description: 'Newest first, the last hundred.',
    responses: wholeListResponse(
      TemplateVersion,
      { id: 'TemplateVersions', description: 'The versions of a template.' },
      'The versions, newest first.',
      'Two versions',
      [{ ...sampleOf(TemplateVersion), version: 2, status: 'draft' }, sampleOf(TemplateVersion)],
    ),
  },
  async (call, context) => {
    const { row, versions } = await versionsOf(context, refOf(call));
    const used = row.published_version ?? 0;
    const statusOf = (version: number) =>
      version === row.published_version ? 'published' : version > used ? 'draft' : 'superseded';
    return wholeList(versions.map((one) => versionMembers(one, { status: statusOf(one.version) })));
  },
);

const RenderRequest = namedRequest('RenderRequest', 'What is to be rendered, and with what.', {
  ...templateMembers,
  template_id: templateMembers.template_id.describe('Id or alias; or give `subject`, `html` and `text` themselves.'),
  template_version: templateMembers.template_version.describe('Default: the latest one, published or not.'),
  subject: contents.subject,
  html: contents.html,
  text: contents.text,
  mark_missing: z
    .boolean()
    .optional()
    .describe('Writes `⟦name⟧` if a variable without a value would be printed, for a preview that people look at.'),
});

const PartRecord = z.object({
  rendered: maybe('What comes out; null if there is a fault.', '<p>Hello Ana</p>'),
  errors: shows(
    z
      .array(
        z.object({
          code: text('Code of the error catalogue.'),
          line: maybeWhole('Line of the source, from 1.'),
          column: maybeWhole('Column of the line, from 1.'),
          message: text('What is wrong, for people.'),
        }),
      )
      .describe('Faults of this part.'),
    [],
  ),
});

const RenderRecord = namedRecord(
  'Render',
  'What a template looks like with these variables, and what is wrong with it.',
  {
    object: z.literal('render'),
    valid: flag('Whether no part has a fault.', true),
    subject: shows(PartRecord.nullable().describe('The subject line; null if there is none.'), null),
    html: PartRecord.nullable().describe('The HTML body; null if there is none.'),
    text: shows(PartRecord.nullable().describe('The plain text body; null if there is none.'), null),
    variables: texts('Names that the template asks for.', ['name']),
    paths: texts('The paths behind them, such as `order.number` or `items[].price`, of each item of a list.', ['name']),
  },
);

const render = kind.post(
  {
    path: `${PATH}/render`,
    operationId: 'renderTemplate',
    description: 'Renders without sending. Faults of the template are part of a 200 here, each with line and column.',
    scope: ['template:render'],
    touches: 'nothing',
    body: RenderRequest,
    bodyExamples: {
      inline: {
        summary: 'Sources of its own',
        value: { html: '<p>Hello {{ name }}</p>', variables: { name: 'Ana' } },
      },
    },
    responses: { 200: jsonResponse('The parts.', RenderRecord, 'Without a fault') },
    problems: ['mutually_exclusive_fields', 'missing_content', 'unknown_template'],
  },
  async ({ body, caller, now }, { db, renderer }: ApiContext) => {
    const { template_id: id, template_version: version } = body;
    const own = [body.subject, body.html, body.text].some((one) => one != null);
    requireTemplateOf(body, '');
    if (id != null && own)
      throw new Problem('mutually_exclusive_fields', '`template_id` excludes `subject`, `html` and `text`.', {
        field: 'template_id',
      });
    if (id == null && !own)
      throw new Problem('missing_content', 'Give `template_id`, or one of `subject`, `html` and `text`.', {
        field: 'html',
      });
    if (body.variables != null) checkVariables(body.variables, 'variables');
    const template = id == null ? null : await requireTemplate({ db }, caller.accountId, id, version ?? undefined);
    const source = template?.body ?? applied(empty, { subject: body.subject, html: body.html, text: body.text });
    const parts = sourcesOf({ ...source, from: null });
    const declared = source.variables;
    const given = withDefaults(declared, body.variables ?? {});
    const results = await renderer.render(caller.accountId, parts, {
      variables: given,
      marksMissing: body.mark_missing === true,
      strict: body.strict_variables ?? source.strict,
      locale: body.locale ?? source.locale,
      timezone: body.timezone ?? source.timezone,
      now,
    });
    // A preview marks what is missing; without that, what a send would refuse is a fault here too.
    const faults = body.mark_missing === true ? [] : declarationFaults(declared, given, 'variables');
    return { status: 200, body: renderRecord(results, faults) };
  },
);

async function requireTemplate(
  deps: Pick<ApiContext, 'db'>,
  accountId: string,
  id: string,
  version?: number,
): Promise<Template> {
  try {
    return await findTemplate(deps, { accountId, idOrAlias: id, version });
  } catch (error) {
    // The template is named in the body, so that it is not a 404 of the path.
    if (error instanceof Problem && error.code === 'not_found')
      throw new Problem('unknown_template', error.message, { field: 'template_id' });
    throw error;
  }
}

function renderRecord(
  results: readonly PartResult[],
  declared: readonly DeclarationFault[],
): z.output<typeof RenderRecord> {
  const part = (wanted: string): z.output<typeof PartRecord> | null => {
    const result = results.find(({ name }) => name === wanted);
    if (result === undefined) return null;
    // A variable that no part asks for is told with the first.
    const isOf = ({ name }: DeclarationFault): boolean =>
      result.variables.includes(name) ||
      (result === results[0] && !results.some((one) => one.variables.includes(name)));
    const ofVariables = declared
      .filter(isOf)
      .map(({ problem: { code, message } }) => ({ code, line: null, column: null, message }));
    if (result.ok) return { rendered: ofVariables.length === 0 ? result.output : null, errors: ofVariables };
    const ofSource = result.faults.map(({ code, line, column, message }) => ({ code, line, column, message }));
    return { rendered: null, errors: [...ofSource, ...ofVariables] };
  };
  return {
    object: 'render',
    valid: declared.length === 0 && results.every(({ ok }) => ok),
    subject: part('subject'),
    html: part('html'),
    text: part('text'),
    variables: [...new Set(results.flatMap(({ variables }) => variables))],
    paths: [...new Set(results.flatMap(({ paths }) => paths))],
  };
}

export const templateOperations = [create, list, render, get, update, remove, publish, versions];
