/** Templates: list, editor with preview, comparison of versions, test mail. */
import { readJson } from '../../api/json.ts';
import { Problem } from '../../base/problem.ts';
import type { Render, Template } from '../../client/types.ts';
import { filledIn, definedMembers, fieldText, refuseStale, seenIn } from '../forms.ts';
import { pageOf, pagerOf } from '../links.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';
import { PREVIEW_CSP } from './messages.ts';
import { escapeHtml } from '../../base/html.ts';
import { whoText } from '../audit-words.ts';
import { sampleFor, starters } from '../template-starters.ts';
import { withoutHints } from '../mail-html.ts';

const WHERE = '/templates';

export const templatePages: readonly Page[] = [
  get(WHERE, list),
  get(`${WHERE}/new`, (visit) => editor(visit, null, null), { scope: 'template' }),
  post(`${WHERE}/new`, create, { again: (visit, fault) => editor(visit, null, fault) }),
  post(`${WHERE}/new/fill`, (visit) => fill(visit, null), { scope: 'template' }),
  post(`${WHERE}/preview`, preview),
  get(`${WHERE}/:id`, async (visit) => editor(visit, await read(visit), null)),
  post(`${WHERE}/:id`, change, { again: async (visit, fault) => editor(visit, await read(visit), fault) }),
  post(`${WHERE}/:id/fill`, async (visit) => fill(visit, await read(visit)), { scope: 'template' }),
  get(`${WHERE}/:id/versions`, versions),
  get(`${WHERE}/:id/versions/:version`, versionFrame),
  post(`${WHERE}/:id/restore`, restore),
  post(`${WHERE}/:id/publish`, async (visit) => {
    refuseStale(visit.form, changeable(await read(visit)));
    await visit.ask('publishTemplate', { params: visit.params });
    return move(placeOf(visit), 'Published: sends use this version now.');
  }),
  post(`${WHERE}/:id/send`, sendTest, { scope: 'template' }),
  post(`${WHERE}/:id/remove`, async (visit) => {
    await visit.ask('deleteTemplate', { params: visit.params });
    return move(WHERE, 'The template is deleted.');
  }),
];

const placeOf = ({ params }: Visit): string => `${WHERE}/${params['id'] ?? ''}`;

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const templates = await visit.ask('listTemplates', { query: pageOf(query) });
  return view('templates', 'Templates', { rows: templates.data, pager: pagerOf(WHERE, query, templates) });
}

const read = (visit: Visit, version: string | null = null): Promise<Template> =>
  visit.ask('getTemplate', { params: visit.params, query: { version } });

/** Shows the editor with the template, or with what was typed: a refused form, or one whose sample was filled in. */
async function editor(
  visit: Visit,
  template: Template | null,
  fault: Problem | null,
  typed: URLSearchParams | null = fault === null ? null : visit.form,
): Promise<Shown> {
  const starter = template === null ? (starters.find(({ id }) => id === visit.query.get('start')) ?? null) : null;
  const sample =
    typed?.get('sample_variables') ??
    (starter === null ? await sampleText(visit, template) : JSON.stringify(starter.sample, null, 2));
  const opened = fault === null && typed === null ? visit.query.get('version') : null;
  const shown = opened === null || template === null ? template : await read(visit, opened);
  const data = {
    template,
    entered: typed === null ? (shown ?? starter ?? {}) : filledIn(typed),
    seen: template === null ? null : seenIn(visit.form, fault, changeable(template)),
    sample,
    fault,
    hasEditor: true,
    starters:
      template === null && typed === null
        ? starters.map(({ id, name }) => ({ id, label: name, on: id === starter?.id }))
        : [],
    opened: shown === template ? null : opened,
    // A page that shows a typed text again does not show the one that these would publish or try.
    isShown: typed === null && shown === template,
    isDraft: typed === null && template !== null && template.published_version !== template.version,
    draft: `${visit.account.id} ${template?.id ?? 'new'}`,
  };
  return view('template', template === null ? 'New template' : template.name, data);
}

/** Shows the editor again with a value in the sample for each name that the typed sources read. */
async function fill(visit: Visit, template: Template | null): Promise<Shown> {
  const { paths } = await rendered(visit);
  const kept = sampleIn(visit.form) ?? {};
  const typed = new URLSearchParams(visit.form);
  typed.set('sample_variables', JSON.stringify(sampleFor(paths, kept as Record<string, unknown>), null, 2));
  return editor(visit, template, null, typed);
}

/** Returns the values that the version keeps as JSON, or else the names that it reads: empty texts to fill in, and samples of lists and objects. */
async function sampleText(visit: Visit, template: Template | null): Promise<string> {
  if (template === null) return JSON.stringify({ name: 'Ana' }, null, 2);
  const { id, version, sample_variables: kept } = template;
  if (kept !== null) return JSON.stringify(kept, null, 2);
  const body = { template_id: id, template_version: version };
  const { paths } = await visit.ask('renderTemplate', { body });
  const values = Object.entries(sampleFor(paths, {}));
  return JSON.stringify(
    Object.fromEntries(values.map(([name, value]) => [name, typeof value === 'object' ? value : ''])),
    null,
    2,
  );
}

const changeable = (template: Template): unknown => {
  const { version, alias, name, subject, from, html, text, sample_variables: sample } = template;
  return [version, alias, name, subject, from, html, text, sample];
};

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
  return read.value;
}

/** Shows what would be sent, with its faults, in the frame next to the editor. */
async function preview(visit: Visit): Promise<Shown> {
  const show = (data: object): Shown =>
    frame(visit.server.views.alone('preview', { style: STYLE, theme: visit.form.get('theme'), ...data }));
  try {
    const { variables, subject, html, text } = await rendered(visit);
    return show({
      variables,
      faults: Object.entries({ subject, html, text }).flatMap(([name, part]) =>
        (part?.errors ?? []).map((fault) => ({ ...fault, name, source: lineOf(visit.form.get(name), fault.line) })),
      ),
      subject: subject?.rendered == null ? null : markedHtml(subject.rendered),
      frames:
        html?.rendered == null
          ? []
          : themes.map((theme) => ({ theme, html: withoutHints(inTheme(html.rendered ?? '', theme)) })),
      text: text?.rendered == null ? null : markedHtml(text.rendered),
      isDerived: text === null,
    });
  } catch (error) {
    if (error instanceof Problem) return show({ problem: error.message });
    throw error;
  }
}

const LONGEST_LINE = 500;
const lineOf = (source: string | null, line: number | null): string | null =>
  line === null ? null : (source?.split('\n')[line - 1]?.slice(0, LONGEST_LINE) ?? null);

const frame = (body: string): Shown => ({ kind: 'file', body, type: 'text/html; charset=utf-8', csp: PREVIEW_CSP });

async function versions(visit: Visit): Promise<Shown> {
  const { data } = await visit.ask('listTemplateVersions', { params: visit.params });
  const template = await read(visit);
  const [from, to] = [
    visit.query.get('from') ?? String(Math.max(1, template.version - 1)),
    visit.query.get('to') ?? String(template.version),
  ];
  const [before, after] = await Promise.all([read(visit, from), read(visit, to)]);
  const changed = (['subject', 'html', 'text'] as const).filter((name) => (before[name] ?? '') !== (after[name] ?? ''));
  return view('template-versions', `Versions of ${template.name}`, {
    template,
    rows: data.map((row) => ({
      ...row,
      by: row.created_by === null ? '' : whoText({ actor: row.created_by, user_agent: null }),
      isFrom: String(row.version) === from,
      isTo: String(row.version) === to,
      isLive: row.version === template.published_version,
    })),
    isOnly: data.length === 1,
    from,
    to,
    parts: await Promise.all(
      changed.map(async (name) => ({ name, lines: await comparedLines(before[name] ?? '', after[name] ?? '') })),
    ),
  });
}

/** With more changed lines a comparison would take long: the two texts are then shown one after the other. */
const MOST_CHANGES = 1000;

/** Compares two versions of a text, line by line. */
export async function comparedLines(before: string, after: string) {
  // Imported where it is used: few pages need it.
  const { diffArrays } = await import('diff');
  const linesOf = (text: string): string[] => (text === '' ? [] : text.split(/\r?\n/));
  const [removed, added] = [linesOf(before), linesOf(after)];
  const changes = diffArrays(removed, added, { maxEditLength: MOST_CHANGES }) ?? [
    { value: removed, removed: true, added: false },
    { value: added, removed: false, added: true },
  ];
  return changes.flatMap((change) => {
    const [mark, kind] = change.added ? ['+', 'plus'] : change.removed ? ['-', 'minus'] : [' ', ''];
    return change.value.map((text) => ({ mark, kind, text }));
  });
}

/** Shows one version as it would be sent with its sample, for the frame in the list of versions. */
async function versionFrame(visit: Visit): Promise<Shown> {
  if (!/^\d+$/.test(visit.params['version'] ?? '')) throw new Problem('not_found', 'There is no such version.');
  const template = await read(visit, visit.params['version'] ?? '');
  const { id, version, sample_variables: sample } = template;
  const body = { template_id: id, template_version: version, variables: sample ?? {}, mark_missing: true };
  const { html, text } = await visit.ask('renderTemplate', { body });
  return frame(withoutHints(html?.rendered ?? `<pre>${escapeHtml(text?.rendered ?? '')}</pre>`));
}

/** The members that a version of a template has. */
const contents = [
  ...(['subject', 'from', 'reply_to', 'html', 'text', 'variables'] as const),
  ...(['locale', 'timezone', 'strict_variables', 'sample_variables'] as const),
];

/** Makes the content of an earlier version the newest, and publishes it: the versions in between stay. */
async function restore(visit: Visit): Promise<Shown> {
  const wanted = visit.form.get('version') ?? '';
  const template = await read(visit, wanted);
  const content = Object.fromEntries(contents.map((name) => [name, template[name]]));
  const { version } = await visit.ask('updateTemplate', { params: visit.params, body: { ...content, publish: true } });
  return move(placeOf(visit), `Version ${String(version)} has the content of version ${wanted}, and sends use it now.`);
}

async function sendTest(visit: Visit): Promise<Shown> {
  const template = await read(visit);
  refuseStale(visit.form, changeable(template));
  const body = definedMembers({
    from: template.from ?? fieldText(visit.form, 'from') ?? (await usualSender(visit)),
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

/** Returns an address of a verified domain, or of the simulator if there is none. */
async function usualSender(visit: Visit): Promise<string> {
  const { data } = await visit.ask('listDomains', { query: { status: 'verified', limit: '1' } });
  return `Posthorn <hello@${data[0]?.name ?? visit.server.config.simulator.domain}>`;
}

/** The frame has no scripts, no network and an opaque origin; the HTML has a frame inside of it, so that its styles do not affect the rest. */
const STYLE = `html{color-scheme:light dark;--dim:light-dark(#5d616b,#a0a4ae);--line:light-dark(#e6e6eb,#272a30)}[data-theme=light]{color-scheme:light}[data-theme=dark]{color-scheme:dark}
body{font:13px/1.5 system-ui,sans-serif;margin:10px 12px;color:light-dark(#17181c,#ececef);background:light-dark(#fff,#101114)}h2{font-size:12px;margin:14px 0 4px;color:var(--dim)}p{margin:0 0 6px}
code,pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
iframe{display:block;width:100%;height:56vh;min-height:200px;border:1px solid var(--line);border-radius:6px;box-sizing:border-box;background:#fff}
.subject{font-size:15px;font-weight:600;overflow-wrap:anywhere}.dim{color:var(--dim)}.text{border:1px solid var(--line);border-radius:6px;padding:8px 10px}
.parts{display:grid;gap:0 14px}@media(min-width:760px){.parts{grid-template-columns:minmax(0,3fr) minmax(0,2fr)}}
.faults code{display:block}
.faults{background:light-dark(#fdecea,#371b1a);color:light-dark(#b3261c,#ff9c93);border-radius:6px;padding:8px 10px 8px 26px;margin:0 0 8px}
mark{background:#ffe08a;color:#1b2430}.looks label{margin-right:10px}
body:has(#phone:checked) .parts iframe{width:375px;max-width:100%}iframe.light{color-scheme:light}iframe.dark{display:none;color-scheme:dark;background:#1b1f24}
body:has(#dark:checked) iframe.light{display:none}body:has(#dark:checked) iframe.dark{display:block}
.chip{display:inline-block;background:light-dark(#efeff3,#25272d);border-radius:4px;padding:0 6px;margin:0 4px 2px 0}`;

const themes = ['light', 'dark'] as const;

/**
 * Returns a mail's HTML as it looks in one theme. A frame of an opaque origin has the theme of the viewer's system whatever its style sheet says, so
 * conditions about the theme become ones that are always or never true.
 */
export const inTheme = (html: string, theme: (typeof themes)[number]): string =>
  html
    .replaceAll(/\(\s{0,9}prefers-color-scheme\s{0,9}:\s{0,9}(light|dark)\s{0,9}\)/gi, (_, wanted: string) =>
      wanted.toLowerCase() === theme ? '(min-width:0)' : '(max-width:0)',
    )
    .replaceAll(
      /(color-scheme["']?\s{0,9}(?::|content=["'])\s{0,9})(?:light\s{1,9}dark|dark\s{1,9}light)\b/gi,
      `$1${theme}`,
    );

/** Escapes a rendered text, and colours what stands for a missing value. */
const markedHtml = (text: string): string =>
  escapeHtml(text).replaceAll(/⟦[^⟧]{1,200}⟧/g, (name) => `<mark>${name}</mark>`);
