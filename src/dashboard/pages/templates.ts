/** Templates: list, editor with preview, comparison of versions, test mail. */
import { readJson } from '../../api/json.ts';
import { roundedProblem } from '../../api/json-numbers.ts';
import { Problem } from '../../base/problem.ts';
import type { Render, Template } from '../../client/types.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, definedMembers, fieldText } from '../forms.ts';
import { pageOf, pagerOf } from '../links.ts';
import { get, move, needs, post, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { checkPage, previewPage, reportPage, type Preview } from '../preview.ts';
import { isStale, refuseStale, seenIn } from '../stale-forms.ts';
import { PREVIEW_CSP } from './messages.ts';

const WHERE = '/templates';

export function templatePages({ config }: Pick<DashboardDeps, 'config'>): Page[] {
  return [
    get(WHERE, list),
    needs(
      'template',
      get(`${WHERE}/new`, (visit) => editor(visit, null, null)),
    ),
    post(
      `${WHERE}/new`,
      withFault(create, (visit, fault) => editor(visit, null, fault)),
    ),
    post(`${WHERE}/preview`, (visit) => framed(visit, previewPage)),
    post(`${WHERE}/check`, (visit) => framed(visit, checkPage)),
    get(`${WHERE}/:id`, async (visit) => editor(visit, await read(visit), null)),
    post(
      `${WHERE}/:id`,
      withFault(change, async (visit, fault) => editor(visit, await read(visit), fault)),
    ),
    get(`${WHERE}/:id/versions`, versions),
    post(`${WHERE}/:id/publish`, async (visit) => {
      refuseUnseen(visit, await read(visit), 'published');
      await visit.ask('publishTemplate', { params: visit.params });
      return move(placeOf(visit), 'Published: sends use this version now.');
    }),
    needs(
      'template',
      post(`${WHERE}/:id/send`, (visit) => sendTest(config.simulator.domain, visit)),
    ),
    post(`${WHERE}/:id/remove`, async (visit) => {
      await visit.ask('deleteTemplate', { params: visit.params });
      return move(WHERE, 'The template is deleted.');
    }),
  ];
}

const placeOf = ({ params }: Visit): string => `${WHERE}/${params['id'] ?? ''}`;

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const templates = await visit.ask('listTemplates', { query: pageOf(query) });
  return view('templates', 'Templates', { rows: templates.data, pager: pagerOf(WHERE, query, templates) });
}

const read = (visit: Visit, version: string | null = null): Promise<Template> =>
  visit.ask('getTemplate', { params: visit.params, query: { version } });

async function editor(visit: Visit, template: Template | null, fault: Problem | null): Promise<Shown> {
  const { form } = visit;
  const sample = form.get('sample_variables') ?? (await sampleText(visit, template));
  const entered = fault === null ? (template ?? {}) : filledIn(form);
  const data = {
    template,
    entered,
    seen: template === null ? null : seenIn(form, fault, changeable(template)),
    sample,
    fault,
    hasEditor: true,
    // A page that shows a refused text again does not show the one that these would publish or try.
    isShown: fault === null,
    isDraft: fault === null && template !== null && template.published_version !== template.version,
  };
  return view('template', template === null ? 'New template' : template.name, data);
}

/** Returns the values that the version keeps as JSON, or else the names that it reads, with empty texts to fill in. */
async function sampleText(visit: Visit, template: Template | null): Promise<string> {
  if (template === null) return JSON.stringify({ name: 'Ana' }, null, 2);
  const { id, version, sample_variables: kept } = template;
  if (kept !== null) return JSON.stringify(kept, null, 2);
  const body = { template_id: id, template_version: version };
  const { variables } = await visit.ask('renderTemplate', { body });
  return JSON.stringify(Object.fromEntries(variables.map((name) => [name, ''])), null, 2);
}

/** Returns what the editor's form changes. */
const changeable = (template: Template): unknown => {
  const { version, alias, name, subject, from, html, text, sample_variables: sample } = template;
  return [version, alias, name, subject, from, html, text, sample];
};

/** Throws a Problem if the template is another than the page with the button showed. */
function refuseUnseen({ form }: Visit, template: Template, done: 'published' | 'sent'): void {
  if (isStale(form, changeable(template)))
    throw new Problem(
      'invalid_state',
      `The template was changed after you opened its page, so nothing was ${done}. Go back and look at it as it is now.`,
    );
}

const contentOf = (form: URLSearchParams): object => ({
  alias: fieldText(form, 'alias') ?? null,
  name: fieldText(form, 'name') ?? null,
  subject: fieldText(form, 'subject') ?? null,
  from: fieldText(form, 'from') ?? null,
  // A text field ends its lines with CR LF; what was typed has LF.
  html: lines(form.get('html')),
  text: lines(form.get('text')),
  sample_variables: sampleIn(form),
  publish: form.get('publish') !== null,
});

const lines = (text: string | null): string | null =>
  text === null || text.trim() === '' ? null : text.replaceAll('\r\n', '\n');

async function create(visit: Visit): Promise<Shown> {
  const { id } = await visit.ask('createTemplate', { body: contentOf(visit.form) });
  return move(`${WHERE}/${id}`, 'The template is created.');
}

async function change(visit: Visit): Promise<Shown> {
  const before = await read(visit);
  refuseStale(visit.form, changeable(before));
  const after = await visit.ask('updateTemplate', { params: visit.params, body: contentOf(visit.form) });
  const said = after.version === before.version ? 'Saved.' : `Saved as version ${String(after.version)}.`;
  const isOut = after.published_version === after.version;
  return move(placeOf(visit), isOut ? `${said} Sends use it now.` : `${said} Sends use it once it is published.`);
}

/** Renders the sources of the form. Throws a Problem for sample values that are not a JSON object. */
async function rendered(visit: Visit): Promise<Render> {
  const { form } = visit;
  const sources = {
    subject: fieldText(form, 'subject'),
    html: lines(form.get('html')) ?? undefined,
    text: lines(form.get('text')) ?? undefined,
  };
  return await visit.ask('renderTemplate', {
    body: { ...definedMembers(sources), variables: filledOf(sampleIn(form) ?? {}), mark_missing: true },
  });
}

/** Returns the values without empty texts, which are still to be filled in. */
const filledOf = (sample: object): object =>
  Object.fromEntries(Object.entries(sample).filter(([, value]) => value !== ''));

/** Returns the sample values of the form; null for an empty field. Throws a Problem for what the API would refuse in a body. */
function sampleIn(form: URLSearchParams): object | null {
  const text = fieldText(form, 'sample_variables');
  if (text === undefined) return null;
  const field = 'sample_variables';
  const read = readJson(Buffer.from(text));
  if (read.kind !== 'ok')
    throw new Problem('invalid_field', 'The sample values must be one JSON object, with each member once.', { field });
  const [rounded] = read.rounded;
  if (rounded !== undefined) throw new Problem('invalid_field', roundedProblem(rounded).message, { field });
  return read.value;
}

/** Renders the sources, or shows their faults, for the frame next to the editor. */
async function framed(visit: Visit, page: (found: Preview) => string): Promise<Shown> {
  try {
    const { variables, ...found } = await rendered(visit);
    const parts = (['subject', 'html', 'text'] as const).flatMap((name) => {
      const source = lines(visit.form.get(name));
      if (source === null) return [];
      return [{ name, source, rendered: found[name]?.rendered ?? null, faults: found[name]?.errors ?? [] }];
    });
    return frame(page({ variables, parts }));
  } catch (error) {
    if (error instanceof Problem) return frame(reportPage(error.message));
    throw error;
  }
}

const frame = (body: string): Shown => ({ kind: 'file', body, type: 'text/html; charset=utf-8', csp: PREVIEW_CSP });

async function versions(visit: Visit): Promise<Shown> {
  const { data } = await visit.ask('listTemplateVersions', { params: visit.params });
  const template = await read(visit);
  const [from, to] = [
    visit.query.get('from') ?? String(Math.max(1, template.version - 1)),
    visit.query.get('to') ?? String(template.version),
  ];
  const [before, after] = await Promise.all([read(visit, from), read(visit, to)]);
  // Imported where it is used: few pages need it.
  const { compareLines } = await import('../compare-lines.ts');
  return view('template-versions', `Versions of ${template.name}`, {
    template,
    rows: data.map((row) => ({ ...row, isFrom: String(row.version) === from, isTo: String(row.version) === to })),
    isOnly: data.length === 1,
    from,
    to,
    parts: (['subject', 'html', 'text'] as const)
      .filter((name) => (before[name] ?? '') !== (after[name] ?? ''))
      .map((name) => ({ name, lines: compareLines(before[name] ?? '', after[name] ?? '') })),
  });
}

async function sendTest(simulator: string, visit: Visit): Promise<Shown> {
  const template = await read(visit);
  refuseUnseen(visit, template, 'sent');
  const body = definedMembers({
    from: template.from ?? fieldText(visit.form, 'from') ?? `Posthorn <hello@${simulator}>`,
    to: visit.form.get('to') ?? '',
    // With sources of its own a send can have another subject than the template has.
    subject: `[Test] ${template.subject ?? template.name}`,
    html: template.html ?? undefined,
    text: template.text ?? undefined,
    reply_to: template.reply_to.length === 0 ? undefined : template.reply_to,
    strict_variables: template.strict_variables,
    locale: template.locale,
    timezone: template.timezone,
    variables: sampleIn(visit.form) ?? {},
  });
  const { id } = await visit.ask('sendMessage', { body });
  return move(`/messages/${id}`, 'Sent. Its outcome appears below by itself.');
}
