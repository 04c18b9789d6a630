/** `/v1/templates`: templates with their versions. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { actorOf } from '../keys/caller.ts';
import { recordOf } from '../storage/record.ts';
import { templateVersions, type TemplateRow } from '../storage/tables.ts';
import type { Renderer } from '../templates/renderer.ts';
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
import { answerChange, createdReply } from './answer-change.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { integerParameter } from './query.ts';
import { recordSchema, sampleOf } from './record-schema.ts';
import { type Call, jsonResponse, type Reply, route, type Route } from './route.ts';
import { applied, checkBody, checkGiven, empty } from './template-contents.ts';
import { renderRoute } from './template-render.ts';
import {
  NewTemplate,
  TemplateChange,
  templateRecordMembers,
  TemplateRecord,
  templateRecord,
} from './template-schemas.ts';

export interface TemplatesDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  renderer: Renderer;
  cursors: Cursors;
}

const PATH = '/v1/templates';
const params = z.object({ id: z.string().min(1).max(64).describe('Id or alias.') });
const faultsOfTemplates = [
  'missing_content',
  'invalid_sender',
  'invalid_address',
  'template_syntax_error',
  'template_render_failed',
  'already_exists',
] as const;

/** The audit does not keep the text, of which every version is stored. */
const audited = [...templateRecordMembers.audited, 'latest_version'];

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

const answers = (description: string) => jsonResponse(description, TemplateRecord, 'A template');

function createRoute(deps: TemplatesDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createTemplate',
      description:
        'Handlebars and Liquid may be mixed. A fault is reported with its line and column. The template is published at once unless `publish` is false. An account has at most 10,000.',
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
      problems: [...faultsOfTemplates, 'invalid_state'],
    },
    async (call: Call<object, object, z.output<typeof NewTemplate>>) => {
      const given = call.body;
      const body = applied(empty, given);
      await checkGiven(deps, call.caller.accountId, body);
      checkBody(body);
      const name = given.name ?? nameFor(given.alias ?? null, body);
      const { accountId } = call.caller;
      const created = {
        accountId,
        alias: given.alias ?? null,
        name,
        body,
        publish: given.publish !== false,
        by: actorOf(call.caller),
      };
      const replyOf = (template: Template): Reply => createdReply(PATH, templateRecord(template));
      return answerChange(call, replyOf, (rowsFor) => createTemplate(deps, created, rowsFor));
    },
  );
}

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
        ...sampleOf(TemplateRecord),
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
  version: integerParameter(1, 1_000_000_000).optional().describe('The latest if not given.'),
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
        'Given members replace the old ones, null removes one or makes it its default. Content that is new makes a new version, a draft until it is published; sends use the published version until then. The last 1,000 versions are kept, and the published one.',
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
      // Unchanged contents were checked before.
      await checkGiven(deps, call.caller.accountId, applied(empty, given));
      const wanted = {
        accountId: call.caller.accountId,
        idOrAlias: call.params.id,
        change: changes || publish === true ? changeTo(given) : null,
        publish: publish === true,
        by: actorOf(call.caller),
        ...(newAlias === undefined ? {} : { alias: newAlias }),
        ...(name === undefined ? {} : { name }),
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
      problems: ['missing_content', 'invalid_sender', 'invalid_address'],
    },
    async (call) => {
      const { accountId } = call.caller;
      const by = actorOf(call.caller);
      const wanted = { accountId, idOrAlias: call.params.id, change: changeTo({}), publish: true, by };
      return answerChange(call, changedReply, (rowsFor) => changeTemplate(deps, wanted, rowsFor));
    },
  );
}

const versionMembers = recordOf('template_version', templateVersions);
const TemplateVersion = recordSchema(versionMembers);
const TemplateVersions = z
  .object({ object: z.literal('list'), data: z.array(TemplateVersion).describe('The versions, newest first.') })
  .meta({ id: 'TemplateVersions', description: 'The versions of a template.' });

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
          data: [{ ...sampleOf(TemplateVersion), version: 2, status: 'draft' }, sampleOf(TemplateVersion)],
        }),
      },
    },
    async ({ params: { id }, caller }) => {
      const { row, versions } = await versionsOf({ db }, { accountId: caller.accountId, idOrAlias: id });
      const used = row.published_version ?? 0;
      const statusOf = (version: number) =>
        version === row.published_version ? 'published' : version > used ? 'draft' : 'superseded';
      const data = versions.map((one) => versionMembers(one, { status: statusOf(one.version) }));
      return { status: 200, body: { object: 'list', data } };
    },
  );
}
