/**
 * Sends with templates or variables. They are rendered before all other checks, and the output takes the place of the template,
 * so every rule for a message holds for a rendered one as well. The rendered message is stored: every attempt sends the same.
 */
import { Problem } from '../../base/problem.ts';
import {
  createTemplateLoader,
  renderMessage,
  sharedExpressions,
  withSharedExpressions,
  type LoadTemplate,
  type RenderDeps,
  type RenderedMessage,
  type TemplateRef,
} from './render-message.ts';
import {
  isObject,
  readTemplateMembers,
  refuseBothContents,
  requireTemplateOf,
  withoutTemplateMembers,
  type Json,
  type TemplateMembers,
} from './template-members.ts';

/** A send request without templates. */
export interface ExpandedSend {
  body: Json;
  /** Entries of a bulk send that could not be rendered, by their index. */
  refused: ReadonlyMap<number, Problem>;
  /** The template of each entry, by its index; -1 is the single form. */
  templates: ReadonlyMap<number, TemplateRef>;
}

/** Milliseconds of rendering between two turns of the event loop; one entry takes some tens of microseconds. */
const SLICE_MS = 1;

/** Characters of all rendered messages of a request, which are in memory until they are stored: 1,000 with 50 KB each fit. */
const MOST_RENDERED = 64 * 1024 * 1024;
/** An ordinary request takes a fraction of a second. Slow templates within their own limit could use a thread for minutes. */
const MOST_RENDERING_MS = 30_000;

/** Renders a request. Throws the problem that refuses all of it. */
export async function expandSend(
  deps: RenderDeps,
  body: Json,
  {
    accountId,
    now,
    mostEntries,
    monotonic,
    nextSlice,
  }: {
    accountId: string;
    /** The time that `now` is in all templates of the request. */
    now: number;
    /** A request with more entries is not rendered: the checks that follow refuse it. */
    mostEntries: number;
    monotonic: () => number;
    nextSlice: () => Promise<void>;
  },
): Promise<ExpandedSend> {
  const loadTemplate = createTemplateLoader(deps, accountId);
  const shared = readTemplateMembers(body, '');
  requireTemplateOf(shared, '');
  const templates = new Map<number, TemplateRef>();
  const refused = new Map<number, Problem>();
  const { recipients } = body;
  if (recipients == null) {
    const message = await renderMessage(deps, {
      accountId,
      given: body,
      hasSender: body['from'] != null,
      members: shared,
      loadTemplate,
      now,
      prefix: '',
    });
    if (message.template !== null) templates.set(-1, message.template);
    return { body: message.body, refused, templates };
  }
  refuseBothContents(body, shared, '');
  if (!Array.isArray(recipients) || recipients.length > mostEntries)
    return { body: withoutTemplateMembers(body), refused, templates };
  if (shared.template_id != null) await loadTemplate(shared, '');
  const entries: unknown[] = [];
  const begun = monotonic();
  let last = begun;
  let rendered = 0;
  for (const [index, entry] of (recipients as unknown[]).entries()) {
    if (monotonic() - last > SLICE_MS) {
      await nextSlice();
      last = monotonic();
    }
    refuseTooMuch(rendered, last - begun);
    try {
      const message = await expandEntry(deps, { accountId, body, shared, entry, index, loadTemplate, now });
      entries.push(message.body);
      rendered += message.length;
      if (message.template !== null) templates.set(index, message.template);
    } catch (error) {
      // A fault of the server is not one of the entry: the client has to send the whole request again.
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      refused.set(index, error);
      entries.push(entry);
    }
  }
  refuseTooMuch(rendered, monotonic() - begun);
  const moved = sharedExpressions(body);
  const rest = Object.fromEntries(
    Object.entries(withoutTemplateMembers(body)).filter(([name]) => !moved.includes(name)),
  );
  return { body: { ...rest, recipients: entries }, refused, templates };
}

function refuseTooMuch(length: number, ms: number): void {
  if (length > MOST_RENDERED)
    throw new Problem(
      'message_too_large',
      `The rendered mails have more than ${String(MOST_RENDERED)} characters in all; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
  if (ms > MOST_RENDERING_MS)
    throw new Problem(
      'template_render_failed',
      `Rendering all entries takes longer than ${String(MOST_RENDERING_MS / 1000)} seconds; send to fewer recipients at once.`,
      { field: 'recipients' },
    );
}

/** Renders an entry of a bulk send with the shared members as its defaults. */
async function expandEntry(
  deps: RenderDeps,
  {
    accountId,
    body,
    shared,
    entry: own,
    index,
    loadTemplate,
    now,
  }: {
    accountId: string;
    body: Json;
    shared: TemplateMembers;
    entry: unknown;
    index: number;
    loadTemplate: LoadTemplate;
    now: number;
  },
): Promise<RenderedMessage<unknown>> {
  const prefix = `recipients[${String(index)}].`;
  if (!isObject(own)) return { body: own, template: null, length: 0 };
  const entry = withSharedExpressions(body, own);
  const members = readTemplateMembers(entry, prefix);
  refuseBothContents(entry, members, prefix);
  // html, text and template are one group: an entry that gives one of them replaces all three.
  const ownGroup = ['html', 'text', 'template_id'].some((name) => entry[name] != null);
  const group = ownGroup ? entry : body;
  const variables =
    shared.variables == null && members.variables == null ? null : { ...shared.variables, ...members.variables };
  const merged: TemplateMembers = {
    template_id: ownGroup ? members.template_id : shared.template_id,
    template_version: ownGroup ? members.template_version : (members.template_version ?? shared.template_version),
    variables,
    strict_variables: members.strict_variables ?? shared.strict_variables,
    locale: members.locale ?? shared.locale,
    timezone: members.timezone ?? shared.timezone,
  };
  requireTemplateOf(merged, prefix);
  if (merged.template_id == null && variables === null)
    return { body: withoutTemplateMembers(entry), template: null, length: 0 };
  const given = {
    ...entry,
    html: group['html'],
    text: group['text'],
    subject: entry['subject'] ?? body['subject'],
    reply_to: entry['reply_to'] ?? body['reply_to'],
  };
  // A shared sender is not copied into the entries: a fault in it is reported once, not for each entry.
  const hasSender = (entry['from'] ?? body['from']) != null;
  return renderMessage(deps, { accountId, given, hasSender, members: merged, loadTemplate, now, prefix });
}
