/** `POST /v1/templates/render`: renders a template without sending it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { declarationFaults, withDefaults, type DeclarationFault } from '../messages/request/templated-send.ts';
import { checkVariables, requireTemplateOf, templateMembers } from '../messages/request/template-members.ts';
import type { PartResult, PartSource } from '../templates/renderer.ts';
import { findTemplate, type Template } from '../templates/template-store.ts';
import type { ApiContext } from './context.ts';
import { flag, maybe, maybeWhole, shows, text, texts } from './record-schema.ts';
import { jsonResponse, route, type Call, type Route } from './route.ts';
import { contents, empty, sourcesOf } from './template-schemas.ts';

const RenderRequest = z
  .strictObject({
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
  })
  .meta({ id: 'RenderRequest', description: 'What is to be rendered, and with what.' });

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

const RenderRecord = z
  .object({
    object: z.literal('render'),
    valid: flag('Whether no part has a fault.', true),
    subject: shows(PartRecord.nullable().describe('The subject line; null if there is none.'), null),
    html: PartRecord.nullable().describe('The HTML body; null if there is none.'),
    text: shows(PartRecord.nullable().describe('The plain text body; null if there is none.'), null),
    variables: texts('Names that the template asks for.', ['name']),
  })
  .meta({ id: 'Render', description: 'What a template looks like with these variables, and what is wrong with it.' });

export const renderTemplate = ({ db, renderer }: ApiContext): Route =>
  route(
    {
      method: 'POST',
      path: '/v1/templates/render',
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
    async ({ body, caller, now }: Call<object, object, z.output<typeof RenderRequest>>) => {
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
      const parts = sourcesOf({
        ...(template?.body ?? {
          ...empty,
          subject: body.subject ?? null,
          html: body.html ?? null,
          text: body.text ?? null,
        }),
        from: null,
      }).map(([name, part, text]): PartSource => ({ name, part, source: text }));
      const declared = template?.body.variables ?? [];
      const given = withDefaults(declared, body.variables ?? {});
      const results = await renderer.render(caller.accountId, parts, {
        variables: given,
        marksMissing: body.mark_missing === true,
        strict: body.strict_variables ?? template?.body.strict ?? false,
        locale: body.locale ?? template?.body.locale ?? 'en',
        timezone: body.timezone ?? template?.body.timezone ?? 'UTC',
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
  };
}
