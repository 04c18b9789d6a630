/** `/v1/templates`: templates with their versions, and their rendering. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { isId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { parseMailbox } from '../mail/address.ts';
import { templateProblem } from '../messages/request/render-message.ts';
import { checkVariables, localeSchema, templateMembers, timezoneSchema } from '../messages/request/template-members.ts';
import type { Database } from '../storage/database.ts';
import { MOST_SOURCE, type Part } from '../templates/mixed/index.ts';
import type { PartResult, PartSource, Renderer } from '../templates/renderer.ts';
import { completeSample, joinSamples, markMissing, missingIn } from '../templates/mixed/index.ts';
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  findTemplate,
  pageOfTemplates,
  versionsOf,
  type Template,
  type TemplateBody,
} from '../templates/template-store.ts';
import type { TemplateRow } from '../storage/tables.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { integerParameter } from './query.ts';
import { type Call, jsonResponse, type Reply, route, type Route } from './route.ts';
import { answerChange, createdReply } from './answer-change.ts';

export interface TemplatesDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  renderer: Renderer;
  cursors: Cursors;
}

const PATH = '/v1/templates';
const TYPES = ['string', 'number', 'boolean', 'object', 'array'] as const;

const Declared = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    .describe('As the template spells it.'),
  type: z.enum(TYPES).nullish().describe('`string` where not given.'),
  required: z.boolean().nullish().describe('A send without it is refused. Default: false.'),
  default: z.unknown().optional().describe('What it is where a send does not give it.'),
});

const source = (what: string) => z.string().max(MOST_SOURCE).nullish().describe(what);

const contents = {
  subject: z.string().min(1).max(2000).nullish().describe('Rendered for each mail; 998 characters at most then.'),
  from: z.string().min(1).max(1000).nullish().describe('Sender where a send names none; its name may have variables.'),
  reply_to: z
    .union([z.string().max(1000), z.array(z.string().max(1000)).max(10)])
    .nullish()
    .describe('Where answers go.'),
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

const NewTemplate = z
  .strictObject({
    ...named,
    ...contents,
    publish: z.boolean().nullish().describe('`false` keeps a draft. Default: true.'),
  })
  .meta({ id: 'NewTemplate', description: 'A template that is to be made. It needs `html` or `text`.' });

const TemplateChange = z
  .strictObject({
    ...named,
    ...contents,
    publish: z.boolean().nullish().describe('Publishes what results. Default: false.'),
  })
  .meta({
    id: 'TemplateChange',
    description: 'The members to change; all others stay the same, and null removes a member.',
  });

const nullable = (says: string) => z.string().nullable().describe(says);

const TemplateRecord = z
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
          type: z.enum(TYPES).describe('What a send must give.'),
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

const sample = {
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

const params = z.object({ id: z.string().min(1).max(64).describe('Id or alias.') });
const faultsOfTemplates = [
  'missing_content',
  'invalid_sender',
  'invalid_address',
  'template_syntax_error',
  'template_render_failed',
  'already_exists',
] as const;

/** The members of a template that the audit keeps: not its text, of which every version is stored. */
const audited = ['alias', 'name', 'latest_version', 'published_version'];

export function templateRoutes(deps: TemplatesDeps): Route[] {
  return [
    createRoute(deps),
    listRoute(deps),
    renderRoute(deps),
    readRoute(deps),
    changeRoute(deps),
    removeRoute(deps),
    publishRoute(deps),
    versionsRoute(deps),
  ];
}

const answers = (description: string) => jsonResponse(description, TemplateRecord, 'A template', sample);

function createRoute(deps: TemplatesDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createTemplate',
      description:
        'Handlebars and Liquid may be mixed. A fault is reported with its line and column. The template is published at once unless `publish` is false.',
      scope: ['template'],
      act: { says: 'created the template {name}', type: 'template', keeps: audited },
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
      responses: { 201: { ...answers('The template.'), headers: { Location: 'Path of the template.' } } },
      problems: faultsOfTemplates,
    },
    async (call: Call<object, object, z.output<typeof NewTemplate>>) => {
      const given = call.body;
      const body = applied(empty, given);
      await checkSources(deps, body);
      checkBody(body);
      const name = given.name ?? given.alias ?? body.subject ?? 'Untitled';
      const { accountId } = call.caller;
      const created = { accountId, alias: given.alias ?? null, name, body, publish: given.publish !== false };
      const replyOf = (template: Template): Reply => createdReply(PATH, templateRecord(template));
      return answerChange(call, replyOf, (rowsFor) => createTemplate(deps, created, rowsFor));
    },
  );
}

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

/** Returns the body with the given members replaced; null removes a member. */
function applied(body: TemplateBody, given: Contents): TemplateBody {
  const or = <T>(value: T | undefined, before: T): T => (value === undefined ? before : value);
  return {
    subject: or(given.subject, body.subject),
    from: or(given.from, body.from),
    replyTo:
      given.reply_to === undefined
        ? body.replyTo
        : given.reply_to === null
          ? []
          : typeof given.reply_to === 'string'
            ? [given.reply_to]
            : given.reply_to,
    html: or(given.html, body.html),
    text: or(given.text, body.text),
    variables:
      given.variables === undefined
        ? body.variables
        : (given.variables ?? []).map(({ name, type, required, default: fallback }) => ({
            name,
            type: type ?? 'string',
            required: required ?? false,
            default: fallback ?? null,
          })),
    locale: given.locale ?? body.locale,
    timezone: given.timezone ?? body.timezone,
    strict: given.strict_variables ?? body.strict,
    sample: or(given.sample_variables, body.sample),
  };
}

/** Checks the syntax of the sources. Throws the first fault. */
async function checkSources({ renderer }: Pick<TemplatesDeps, 'renderer'>, body: TemplateBody): Promise<void> {
  const parts = sourcesOf(body).map(([name, part, source]) => ({ name, part, source }));
  for (const result of await renderer.read(parts)) if (!result.ok) throw templateProblem(result.faults[0], result.name);
}

/** Checks that there is content, and that addresses and sample values are valid. Throws the first fault. */
function checkBody(body: TemplateBody): void {
  if ((body.html ?? '') === '' && (body.text ?? '') === '')
    throw new Problem('missing_content', 'The template has no content: give it `html` or `text`.', { field: 'html' });
  if (body.sample !== null) checkVariables(body.sample, 'sample_variables');
  // With variables in it, an address can only be judged when it is filled in.
  if (body.from !== null && !body.from.includes('{')) checkAddress(body.from, 'from', 'invalid_sender');
  body.replyTo.forEach((text, n) => {
    checkAddress(text, body.replyTo.length === 1 ? 'reply_to' : `reply_to[${String(n)}]`, 'invalid_address');
  });
  const double = body.variables.find(({ name }, n) => body.variables.findIndex((one) => one.name === name) !== n);
  if (double !== undefined)
    throw new Problem('invalid_field', `The variable \`${double.name}\` is declared twice.`, { field: 'variables' });
}

function checkAddress(text: string, field: string, code: 'invalid_sender' | 'invalid_address'): void {
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem(code, `\`${field}\` does not match the address format rule: ${parsed.why}.`, { field });
}

function sourcesOf(body: TemplateBody): [name: string, part: Part, source: string][] {
  const all: [string, Part, string | null][] = [
    ['subject', 'subject', body.subject],
    ['from', 'header', body.from],
    ['html', 'html', body.html],
    ['text', 'text', body.text],
  ];
  return all.flatMap(([name, part, text]): [string, Part, string][] => (text === null ? [] : [[name, part, text]]));
}

const changedReply = ({ before, ...template }: Template & { before: TemplateRow }): Reply => ({
  status: 200,
  body: templateRecord(template),
  before,
});

function listRoute({ db, cursors }: TemplatesDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listTemplates',
      description:
        'The latest version of each, newest template first, without `html`, `text` and `sample_variables` (null here).',
      scope: ['template:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of templates.', TemplateRecord, 'One template', {
        ...sample,
        html: null,
        sample_variables: null,
      }),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const { templates, hasMore } = await pageOfTemplates({ db }, wanted);
        return {
          data: templates.map(templateRecord),
          hasMore,
        };
      }),
  );
}

const versionParameter = z.strictObject({
  version: integerParameter(1, 1_000_000_000).optional().describe('The latest where not given.'),
});

function readRoute({ db }: TemplatesDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getTemplate',
      description: 'By id or alias: the latest version, or the one asked for.',
      scope: ['template:read'],
      params,
      query: versionParameter,
      responses: { 200: answers('The template.') },
    },
    async ({ params: { id }, query: { version }, caller }) => {
      const template = await findTemplate({ db }, { accountId: caller.accountId, idOrAlias: id, version });
      return { status: 200, body: templateRecord(template) };
    },
  );
}

function changeRoute(deps: TemplatesDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateTemplate',
      description:
        'Given members replace the old ones, null removes one. New content makes a new version, a draft until it is published; sends use the published version until then.',
      scope: ['template'],
      act: { says: 'changed the template {name}', type: 'template', keeps: audited },
      params,
      body: TemplateChange,
      bodyExamples: {
        subject: { summary: 'Another subject, published', value: { subject: 'Good day, {{ name }}', publish: true } },
      },
      responses: { 200: answers('The template.') },
      problems: faultsOfTemplates,
    },
    async (call: Call<z.output<typeof params>, object, z.output<typeof TemplateChange>>) => {
      const { alias: newAlias, name, publish, ...given } = call.body;
      const changes = Object.values(given).some((value) => value !== undefined);
      // Unchanged sources were checked before.
      await checkSources(deps, applied(empty, given));
      const change = (before: TemplateBody): TemplateBody => {
        const after = applied(before, given);
        checkBody(after);
        return after;
      };
      const wanted = {
        accountId: call.caller.accountId,
        idOrAlias: call.params.id,
        change: changes ? change : null,
        publish: publish === true,
        ...(newAlias === undefined ? {} : { alias: newAlias }),
        ...(name == null ? {} : { name }),
      };
      return answerChange(call, changedReply, (rowsFor) => changeTemplate(deps, wanted, rowsFor));
    },
  );
}

function removeRoute(deps: TemplatesDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'deleteTemplate',
      description: 'With all versions. Mail that was accepted with it is sent as it is: it was rendered then.',
      scope: ['template'],
      act: { says: 'deleted the template {name}', type: 'template', keeps: audited },
      params,
      responses: { 204: { description: 'Deleted.' } },
    },
    async (call) => {
      const replyOf = (before: TemplateRow): Reply => ({ status: 204, body: null, before });
      const wanted = { accountId: call.caller.accountId, idOrAlias: call.params.id };
      return answerChange(call, replyOf, (rowsFor) => deleteTemplate(deps, wanted, rowsFor));
    },
  );
}

function publishRoute(deps: TemplatesDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/publish`,
      operationId: 'publishTemplate',
      description: 'From now on sends use it, unless they name a version.',
      scope: ['template'],
      act: { says: 'published the template {name}', type: 'template', keeps: audited },
      params,
      responses: { 200: answers('The template.') },
    },
    async (call) => {
      const wanted = { accountId: call.caller.accountId, idOrAlias: call.params.id, change: null, publish: true };
      return answerChange(call, changedReply, (rowsFor) => changeTemplate(deps, wanted, rowsFor));
    },
  );
}

const TemplateVersions = z
  .object({
    object: z.literal('list'),
    data: z
      .array(
        z.object({
          object: z.literal('template_version'),
          version: z.int().describe('Number of the version.'),
          status: z.enum(['draft', 'published', 'superseded']).describe('Whether sends use it.'),
          created_at: z.iso.datetime().describe('When it was made.'),
        }),
      )
      .describe('The versions, newest first.'),
  })
  .meta({ id: 'TemplateVersions', description: 'The versions of a template.' });

const versionSample = (version: number, status: string) => ({
  object: 'template_version',
  version,
  status,
  created_at: '2026-01-31T09:30:02.481Z',
});

function versionsRoute({ db }: TemplatesDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/versions`,
      operationId: 'listTemplateVersions',
      description: 'Newest first, the last hundred.',
      scope: ['template:read'],
      params,
      responses: {
        200: jsonResponse('The versions.', TemplateVersions, 'Two versions', {
          object: 'list',
          data: [versionSample(2, 'draft'), versionSample(1, 'published')],
        }),
      },
    },
    async ({ params: { id }, caller }) => {
      const { row, versions } = await versionsOf({ db }, { accountId: caller.accountId, idOrAlias: id });
      const statusOf = (version: number): string =>
        version === row.published_version
          ? 'published'
          : version > (row.published_version ?? 0)
            ? 'draft'
            : 'superseded';
      const data = versions.map(({ version, created_at }) => ({
        object: 'template_version',
        version,
        status: statusOf(version),
        created_at: rfc3339(created_at),
      }));
      return { status: 200, body: { object: 'list', data } };
    },
  );
}

const RenderRequest = z
  .strictObject({
    ...templateMembers,
    template_id: templateMembers.template_id.describe('Id or alias; or give `subject`, `html` and `text` themselves.'),
    subject: contents.subject,
    html: contents.html,
    text: contents.text,
    mark_missing: z
      .boolean()
      .optional()
      .describe('Writes `⟦name⟧` where a text has no value, for a preview that people look at.'),
  })
  .meta({ id: 'RenderRequest', description: 'What is to be rendered, and with what.' });

const PartRecord = z.object({
  rendered: nullable('What comes out; null where there is a fault.'),
  errors: z
    .array(
      z.object({
        code: z.string().describe('Code of the error catalogue.'),
        line: z.int().nullable().describe('Line of the source, from 1.'),
        column: z.int().nullable().describe('Column of the line, from 1.'),
        message: z.string().describe('What is wrong, for people.'),
      }),
    )
    .describe('Faults of this part.'),
});

const RenderRecord = z
  .object({
    object: z.literal('render'),
    valid: z.boolean().describe('Whether no part has a fault.'),
    subject: PartRecord.nullable().describe('The subject line; null where there is none.'),
    html: PartRecord.nullable().describe('The HTML body; null where there is none.'),
    text: PartRecord.nullable().describe('The plain text body; null where there is none.'),
    variables: z.array(z.string()).describe('Names that the template asks for.'),
    missing: z
      .array(z.string())
      .describe(
        'Paths of values that the template reads and `variables` lacks; `items[].price`: in an entry of a list.',
      ),
    sample_variables: z
      .record(z.string(), z.unknown())
      .describe(
        'Values that fit the template: those of `variables`, and guesses for what they lack, made from what the template does with them.',
      ),
  })
  .meta({ id: 'Render', description: 'What a template looks like with these variables, and what is wrong with it.' });

const renderSample: z.output<typeof RenderRecord> = {
  object: 'render',
  valid: true,
  subject: null,
  html: { rendered: '<p>Hello Ana</p>', errors: [] },
  text: null,
  variables: ['name'],
  missing: [],
  sample_variables: { name: 'Ana' },
};

function renderRoute({ db, renderer }: TemplatesDeps): Route {
  return route(
    {
      method: 'POST',
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
      responses: {
        200: jsonResponse('The parts.', RenderRecord, 'Without a fault', renderSample),
      },
      problems: ['mutually_exclusive_fields', 'missing_content', 'unknown_template'],
    },
    async ({ body, caller, now }: Call<object, object, z.output<typeof RenderRequest>>) => {
      const { template_id: id, template_version: version } = body;
      const own = [body.subject, body.html, body.text].some((one) => one != null);
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
      const parts = sourcesOf({
        ...(template?.body ?? {
          ...empty,
          subject: body.subject ?? null,
          html: body.html ?? null,
          text: body.text ?? null,
        }),
        from: null,
      }).map(([name, part, text]): PartSource => ({ name, part, source: text }));
      const defaults = Object.fromEntries(
        (template?.body.variables ?? []).flatMap(({ name, default: fallback }) =>
          fallback === null ? [] : [[name, fallback]],
        ),
      );
      const given = { ...defaults, ...body.variables };
      const sample = joinSamples((await renderer.read(parts)).map((one) => one.sample));
      const results = await renderer.render(parts, {
        variables: body.mark_missing === true ? markMissing(sample, given) : given,
        strict: body.strict_variables ?? template?.body.strict ?? false,
        locale: body.locale ?? template?.body.locale ?? 'en',
        timezone: body.timezone ?? template?.body.timezone ?? 'UTC',
        now,
      });
      const missing = missingIn(sample, given).map(({ path }) => path);
      return {
        status: 200,
        body: { ...renderRecord(results), missing, sample_variables: completeSample(sample, given) },
      };
    },
  );
}

async function requireTemplate(
  deps: Pick<TemplatesDeps, 'db'>,
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
): Omit<z.output<typeof RenderRecord>, 'missing' | 'sample_variables'> {
  const part = (wanted: string): z.output<typeof PartRecord> | null => {
    const result = results.find(({ name }) => name === wanted);
    if (result === undefined) return null;
    if (result.ok) return { rendered: result.output, errors: [] };
    return {
      rendered: null,
      errors: result.faults.map(({ code, line, column, message }) => ({ code, line, column, message })),
    };
  };
  return {
    object: 'render',
    valid: results.every(({ ok }) => ok),
    subject: part('subject'),
    html: part('html'),
    text: part('text'),
    variables: [...new Set(results.flatMap(({ variables }) => variables))],
  };
}

function templateRecord({ row, version, body }: Template): z.output<typeof TemplateRecord> {
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
