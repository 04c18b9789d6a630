/** Templates and their versions. A change makes a new version; what was published stays what it was. */
import type { Clock } from '../base/clock.ts';
import { isId, newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import { tables, type TemplateRow, type TemplateVersionRow } from '../storage/tables.ts';

export interface TemplateDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
}

/** A variable that a template says it needs. */
export interface DeclaredVariable {
  name: string;
  type: 'string' | 'number' | 'boolean' | 'object' | 'array';
  required: boolean;
  default: unknown;
}

/** What a version says. */
export interface TemplateBody {
  subject: string | null;
  from: string | null;
  replyTo: readonly string[];
  html: string | null;
  text: string | null;
  variables: readonly DeclaredVariable[];
  locale: string;
  timezone: string;
  strict: boolean;
}

export interface Template {
  row: TemplateRow;
  version: number;
  body: TemplateBody;
}

/** Rows that are committed together with the change, made from its result. */
export type TogetherWith = (template: Template) => Rows;

/** Throws `already_exists` where the account has another template of this alias. */
export async function createTemplate(
  { db, clock }: TemplateDeps,
  wish: { accountId: string; alias: string | null; name: string; body: TemplateBody; publish: boolean },
  together: TogetherWith = () => ({}),
): Promise<Template> {
  const now = clock.now();
  const row: TemplateRow = {
    id: newId('tpl', now),
    account_id: wish.accountId,
    alias: wish.alias,
    name: wish.name,
    latest_version: 1,
    published_version: wish.publish ? 1 : null,
    created_at: now,
    updated_at: now,
    published_at: wish.publish ? now : null,
  };
  const template = { row, version: 1, body: wish.body };
  return db.commit.transact(async (tx) => {
    await refuseTaken(tx, row);
    await insertRows(tx, [
      { templates: [row], template_versions: [versionRow(row.id, 1, wish.body, now)] },
      together(template),
    ]);
    return template;
  });
}

/** Changes what is given; `change` makes the new body from the latest. Throws `not_found` and `already_exists`. */
export async function changeTemplate(
  { db, clock }: TemplateDeps,
  wish: {
    accountId: string;
    idOrAlias: string;
    alias?: string | null;
    name?: string;
    change: ((body: TemplateBody) => TemplateBody) | null;
    publish: boolean;
  },
  together: TogetherWith = () => ({}),
): Promise<Template> {
  const now = clock.now();
  return db.commit.transact(async (tx) => {
    const before = await load(tx, wish.accountId, wish.idOrAlias);
    const latest = await loadVersion(tx, before, before.latest_version);
    const body = wish.change === null ? latest.body : wish.change(latest.body);
    const version = wish.change === null ? before.latest_version : before.latest_version + 1;
    const row: TemplateRow = {
      ...before,
      alias: wish.alias === undefined ? before.alias : wish.alias,
      name: wish.name ?? before.name,
      latest_version: version,
      published_version: wish.publish ? version : before.published_version,
      updated_at: now,
      published_at: wish.publish && before.published_version !== version ? now : before.published_at,
    };
    await refuseTaken(tx, row);
    await tx.run(
      'UPDATE templates SET alias = ?, name = ?, latest_version = ?, published_version = ?, updated_at = ?, published_at = ? WHERE id = ?',
      [row.alias, row.name, row.latest_version, row.published_version, row.updated_at, row.published_at, row.id],
    );
    const template = { row, version, body };
    const fresh = wish.change === null ? [] : [versionRow(row.id, version, body, now)];
    await insertRows(tx, [{ template_versions: fresh }, together(template)]);
    return template;
  });
}

/** Mail that was accepted with it is not touched: it was rendered then. Throws `not_found`. */
export async function deleteTemplate(
  { db }: Pick<TemplateDeps, 'db'>,
  { accountId, idOrAlias }: { accountId: string; idOrAlias: string },
  together: () => Rows = () => ({}),
): Promise<void> {
  await db.commit.transact(async (tx) => {
    const row = await load(tx, accountId, idOrAlias);
    await tx.run('DELETE FROM template_versions WHERE template_id = ?', [row.id]);
    await tx.run('DELETE FROM templates WHERE id = ?', [row.id]);
    await insertRows(tx, [together()]);
  });
}

/** The latest version, or the one asked for. Throws `not_found`. */
export async function findTemplate(
  { db }: { db: Pick<Database, 'prepared'> },
  { accountId, idOrAlias, version }: { accountId: string; idOrAlias: string; version?: number | undefined },
): Promise<Template> {
  const row = await load(db.prepared, accountId, idOrAlias);
  return loadVersion(db.prepared, row, version ?? row.latest_version);
}

/** What a send uses: the version it names, else the published one; null where there is none. */
export async function templateToSend(
  { db }: { db: Pick<Database, 'prepared'> },
  { accountId, idOrAlias, version }: { accountId: string; idOrAlias: string; version: number | null },
): Promise<Template | null> {
  const row = await lookUp(db.prepared, accountId, idOrAlias);
  const wanted = version ?? row?.published_version ?? null;
  if (row === null || wanted === null) return null;
  const found = await versionOf(db.prepared, row.id, wanted);
  return found === null ? null : { row, version: wanted, body: bodyOf(found) };
}

/** Newest first, the latest version of each, its `html` and `text` null. */
export async function pageOfTemplates(
  { db }: { db: Pick<Database, 'reader'> },
  { accountId, limit, after, before }: { accountId: string; limit: number; after?: string; before?: string },
): Promise<{ templates: Template[]; hasMore: boolean }> {
  const query = db.reader<TemplateRow>('templates').where({ account_id: accountId });
  if (after !== undefined) query.andWhere('id', '<', after);
  if (before !== undefined) query.andWhere('id', '>', before);
  const rows: TemplateRow[] = await query.orderBy('id', before === undefined ? 'desc' : 'asc').limit(limit + 1);
  const hasMore = rows.length > limit;
  if (hasMore) rows.length = limit;
  if (before !== undefined) rows.reverse();
  const wanted = rows.map(({ id, latest_version }) => [id, latest_version]);
  // Without the bodies: a page of a hundred could have 100 MB of them.
  const columns = tables.template_versions.names.filter((column) => column !== 'html' && column !== 'text');
  const versions: TemplateVersionRow[] =
    wanted.length === 0
      ? []
      : await db
          .reader('template_versions')
          .whereIn(['template_id', 'version'], wanted)
          .select(...columns);
  const latest = new Map(versions.map((version) => [version.template_id, { ...version, html: null, text: null }]));
  const templates = rows.flatMap((row) => {
    const version = latest.get(row.id);
    return version === undefined ? [] : [{ row, version: version.version, body: bodyOf(version) }];
  });
  return { templates, hasMore };
}

const MOST_VERSIONS_SHOWN = 100;

/** Newest first, the last hundred. Throws `not_found`. */
export async function versionsOf(
  { db }: { db: Pick<Database, 'prepared' | 'reader'> },
  { accountId, idOrAlias }: { accountId: string; idOrAlias: string },
): Promise<{ row: TemplateRow; versions: { version: number; created_at: number }[] }> {
  const row = await load(db.prepared, accountId, idOrAlias);
  const versions = await db
    .reader<TemplateVersionRow>('template_versions')
    .where({ template_id: row.id })
    .orderBy('version', 'desc')
    .limit(MOST_VERSIONS_SHOWN)
    .select('version', 'created_at');
  return { row, versions };
}

async function lookUp(tx: Connection, accountId: string, idOrAlias: string): Promise<TemplateRow | null> {
  // No alias looks like an id: the API refuses such.
  const column = isId('tpl', idOrAlias) ? 'id' : 'alias';
  const [row] = await tx.all<TemplateRow>(`SELECT * FROM templates WHERE account_id = ? AND ${column} = ?`, [
    accountId,
    idOrAlias,
  ]);
  return row ?? null;
}

async function load(tx: Connection, accountId: string, idOrAlias: string): Promise<TemplateRow> {
  const row = await lookUp(tx, accountId, idOrAlias);
  if (row === null) throw new Problem('not_found', 'There is no such template.', { field: 'id' });
  return row;
}

async function versionOf(tx: Connection, templateId: string, version: number): Promise<TemplateVersionRow | null> {
  const [row] = await tx.all<TemplateVersionRow>(
    'SELECT * FROM template_versions WHERE template_id = ? AND version = ?',
    [templateId, version],
  );
  return row ?? null;
}

async function loadVersion(tx: Connection, row: TemplateRow, version: number): Promise<Template> {
  const found = await versionOf(tx, row.id, version);
  if (found === null) throw new Problem('not_found', 'There is no such version.', { field: 'version' });
  return { row, version, body: bodyOf(found) };
}

async function refuseTaken(tx: Connection, { id, account_id, alias }: TemplateRow): Promise<void> {
  if (alias === null) return;
  const other = await lookUp(tx, account_id, alias);
  if (other !== null && other.id !== id)
    throw new Problem('already_exists', `A template with the alias ${alias} exists: ${other.id}. Use another alias.`, {
      field: 'alias',
    });
}

const versionRow = (templateId: string, version: number, body: TemplateBody, now: number): TemplateVersionRow => ({
  template_id: templateId,
  version,
  subject: body.subject,
  from_text: body.from,
  reply_to_json: JSON.stringify(body.replyTo),
  html: body.html,
  text: body.text,
  variables_json: JSON.stringify(body.variables),
  locale: body.locale,
  timezone: body.timezone,
  strict: body.strict ? 1 : 0,
  created_at: now,
});

const bodyOf = (row: TemplateVersionRow): TemplateBody => ({
  subject: row.subject,
  from: row.from_text,
  replyTo: JSON.parse(row.reply_to_json) as string[],
  html: row.html,
  text: row.text,
  variables: JSON.parse(row.variables_json) as DeclaredVariable[],
  locale: row.locale,
  timezone: row.timezone,
  strict: row.strict === 1,
});
