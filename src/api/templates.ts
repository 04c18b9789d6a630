/** `/v1/templates`: templates with their versions. */
import { z } from 'zod';
import { actorOf } from '../keys/caller.ts';
import { recordOf } from '../storage/record.ts';
import { templateVersions, type TemplateRow } from '../storage/tables.ts';
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  findTemplate,
  nameFor,
  pageOfTemplates,
  versionsOf,
  type Template,
  type TemplateBody,
} from '../templates/template-store.ts';
import { answerChange, created } from './answer-change.ts';
import type { ApiContext } from './context.ts';
import { pageResponse } from './page.ts';
import { integerParameter } from './query.ts';
import { recordSchema, sampleOf } from './record-schema.ts';
import { resource } from './resource.ts';
import { jsonResponse, type Call, type Reply } from './route.ts';
import {
  applied,
  checkBody,
  checkGiven,
  empty,
  NewTemplate,
  TemplateChange,
  TemplateRecord,
  templateRecord,
  templateRecordMembers,
} from './template-schemas.ts';
import { renderTemplate } from './template-render.ts';

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

const versionParameter = z.strictObject({
  version: integerParameter(1, 1_000_000_000).optional().describe('The latest if not given.'),
});

const get = kind.get(
  {
    operationId: 'getTemplate',
    description: 'By id or alias: the latest version, or the one asked for.',
    query: versionParameter,
  },
  async (call: Call<Params, z.output<typeof versionParameter>, undefined>, { db }) =>
    templateRecord(await findTemplate({ db }, { ...refOf(call), version: call.query.version })),
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

const publish = kind.at(
  'POST',
  `${PATH}/{id}/publish`,
  {
    operationId: 'publishTemplate',
    description: 'From now on sends use it, unless they name a version.',
    says: 'published the template {name}',
    problems: ['missing_content', 'invalid_sender', 'invalid_address'],
  },
  (call: Call<Params, object, undefined>, context: ApiContext) => {
    const wanted = { ...refOf(call), change: changeTo({}), publish: true, by: actorOf(call.caller) };
    return answerChange(call, changedReply, (rowsFor) => changeTemplate(context, wanted, rowsFor));
  },
);

const versionMembers = recordOf('template_version', templateVersions);
const TemplateVersion = recordSchema(versionMembers);
const TemplateVersions = z
  .object({ object: z.literal('list'), data: z.array(TemplateVersion).describe('The versions, newest first.') })
  .meta({ id: 'TemplateVersions', description: 'The versions of a template.' });

const versions = kind.at(
  'GET',
  `${PATH}/{id}/versions`,
  {
    operationId: 'listTemplateVersions',
    description: 'Newest first, the last hundred.',
    responses: {
      200: jsonResponse('The versions.', TemplateVersions, 'Two versions', {
        object: 'list',
        data: [{ ...sampleOf(TemplateVersion), version: 2, status: 'draft' }, sampleOf(TemplateVersion)],
      }),
    },
  },
  async (call: Call<Params, object, undefined>, { db }: ApiContext) => {
    const { row, versions } = await versionsOf({ db }, refOf(call));
    const used = row.published_version ?? 0;
    const statusOf = (version: number) =>
      version === row.published_version ? 'published' : version > used ? 'draft' : 'superseded';
    const data = versions.map((one) => versionMembers(one, { status: statusOf(one.version) }));
    return { status: 200, body: { object: 'list', data } };
  },
);

export const templateOperations = [create, list, renderTemplate, get, update, remove, publish, versions];
