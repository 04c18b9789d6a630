/** Templates and their versions. A change makes a new version; a published version never changes. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { isId, newId } from '../base/id.ts';
import { Problem, notFound } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { hasAtLeast, readPage, type PagePart } from '../storage/page.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import { tables, type TemplateRow, type TemplateVersionRow } from '../storage/tables.ts';

export interface TemplateDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
}

/** The types that a variable can be declared with: those of JSON. */
export const VARIABLE_TYPES = ['string', 'number', 'boolean', 'object', 'array'] as const;

export interface DeclaredVariable {
  name: string;
  type: (typeof VARIABLE_TYPES)[number];
  required: boolean;
  default: unknown;
}

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
  /** Values for the preview and the test mail; null if none are kept, and in what a send reads. */
  sample: Readonly<Record<string, unknown>> | null;
}

export interface Template {
  row: TemplateRow;
  version: number;
  body: TemplateBody;
}

const MOST_TEMPLATES = 10_000;

/** Versions of one template that are kept, the latest ones; the published one is kept besides. */
const MOST_VERSIONS = 1000;

/** Adds a template. Throws `already_exists` if the account has another template with this alias, and `invalid_state` if it has too many. */
export async function createTemplate(
  { db, clock }: TemplateDeps,
  input: { accountId: string; alias: string | null; name: string; body: TemplateBody; publish: boolean; by: string },
  alsoInTransaction: RowsFor<Template> = noRows,
): Promise<Template> {
  const now = clock.now();
  const row: TemplateRow = {
    id: newId('tpl', now),
    account_id: input.accountId,
    alias: input.alias,
    name: input.name,
    latest_version: 1,
    published_version: input.publish ? 1 : null,
    created_at: now,
    updated_at: now,
    published_at: input.publish ? now : null,
  };
  const template = { row, version: 1, body: input.body };
  return db.commit.transact(async (tx) => {
    await refuseTaken(tx, row);
    if (await hasAtLeast(tx, 'templates', row.account_id, MOST_TEMPLATES))
      throw new Problem(
        'invalid_state',
        `An account has at most ${String(MOST_TEMPLATES)} templates. Delete one first.`,
      );
    await insertRows(tx, [
      { templates: [row], template_versions: [versionRow(row.id, 1, input.body, { at: now, by: input.by })] },
      alsoInTransaction(template),
    ]);
    return template;
  });
}

/** Returns the name of a template that was made without one. */
export const nameFor = (alias: string | null, { subject }: TemplateBody): string => alias ?? subject ?? 'Untitled';

/**
 * Changes the given properties; a name of null becomes the usual one. `change` makes the new body from the latest; the same makes no version, and a
 * new one ends the oldest of too many. Throws `not_found` and `already_exists`.
 */
export async function changeTemplate(
  { db, clock }: TemplateDeps,
  input: {
    accountId: string;
    idOrAlias: string;
    alias?: string | null;
    name?: string | null;
    change: ((body: TemplateBody) => TemplateBody) | null;
    publish: boolean;
    /** The actor, for a version that it makes. */
    by: string;
  },
  alsoInTransaction: RowsFor<Template & { before: TemplateRow }> = noRows,
): Promise<Template> {
  const now = clock.now();
  return db.commit.transact(async (tx) => {
    const before = await load(tx, input.accountId, input.idOrAlias);
    const latest = await loadVersion(tx, before, before.latest_version);
    const body = input.change === null ? latest.body : input.change(latest.body);
    const isNew = !isSameContent(body, latest.body);
    const version = isNew ? before.latest_version + 1 : before.latest_version;
    const alias = input.alias === undefined ? before.alias : input.alias;
    const changed: TemplateRow = {
      ...before,
      alias,
      name: input.name === undefined ? before.name : (input.name ?? nameFor(alias, body)),
      latest_version: version,
      published_version: input.publish ? version : before.published_version,
      published_at: input.publish && before.published_version !== version ? now : before.published_at,
    };
    const row = isDeepStrictEqual(changed, before) ? before : { ...changed, updated_at: now };
    await refuseTaken(tx, row);
    await tx.run(
      'UPDATE templates SET alias = ?, name = ?, latest_version = ?, published_version = ?, updated_at = ?, published_at = ? WHERE id = ?',
      [row.alias, row.name, row.latest_version, row.published_version, row.updated_at, row.published_at, row.id],
    );
    const template = { row, version, body };
    const fresh = isNew ? [versionRow(row.id, version, body, { at: now, by: input.by })] : [];
    if (isNew && version > MOST_VERSIONS)
      await tx.run('DELETE FROM template_versions WHERE template_id = ? AND version <= ? AND version <> ?', [
        row.id,
        version - MOST_VERSIONS,
        row.published_version ?? 0,
      ]);
    await insertRows(tx, [{ template_versions: fresh }, alsoInTransaction({ ...template, before })]);
    return template;
  });
}

/** Deletes a template. Accepted mail is not affected: it was rendered then. Throws `not_found`. */
export async function deleteTemplate(
  { db }: Pick<TemplateDeps, 'db'>,
  { accountId, idOrAlias }: { accountId: string; idOrAlias: string },
  alsoInTransaction: RowsFor<TemplateRow> = noRows,
): Promise<void> {
  await db.commit.transact(async (tx) => {
    const row = await load(tx, accountId, idOrAlias);
    await tx.run('DELETE FROM template_versions WHERE template_id = ?', [row.id]);
    await tx.run('DELETE FROM templates WHERE id = ?', [row.id]);
    await insertRows(tx, [alsoInTransaction(row)]);
  });
}

/** Returns the latest version, or the one asked for. Throws `not_found`. */
export async function findTemplate(
  { db }: { db: Pick<Database, 'prepared'> },
  { accountId, idOrAlias, version }: { accountId: string; idOrAlias: string; version?: number | undefined },
): Promise<Template> {
  const row = await load(db.prepared, accountId, idOrAlias);
  return loadVersion(db.prepared, row, version ?? row.latest_version);
}

/** Returns the id of the template with this alias; any other text as it is: mail keeps the id of a template that is gone. */
export async function templateIdOf(
  { db }: { db: Pick<Database, 'prepared'> },
  { accountId, idOrAlias }: { accountId: string; idOrAlias: string },
): Promise<string> {
  if (isId('tpl', idOrAlias)) return idOrAlias;
  return (await lookUp(db.prepared, accountId, idOrAlias))?.id ?? idOrAlias;
}

/** Returns the version that a send uses: the one it names, else the published one; null without one. */
export async function templateToSend(
  { db }: { db: Pick<Database, 'prepared'> },
  { accountId, idOrAlias, version }: { accountId: string; idOrAlias: string; version: number | null },
): Promise<Template | null> {
  const row = await lookUp(db.prepared, accountId, idOrAlias);
  const wanted = version ?? row?.published_version ?? null;
  if (row === null || wanted === null) return null;
  const found = await versionOf(db.prepared, row.id, wanted, COLUMNS_OF_SENDS);
  return found === null ? null : { row, version: wanted, body: bodyOf(found) };
}

/** Returns one page, newest first: the latest version of each template, with null as `html`, `text` and `sample`. */
export async function pageOfTemplates(
  { db }: { db: Pick<Database, 'reader'> },
  { accountId, ...page }: PagePart & { accountId: string },
): Promise<{ templates: Template[]; hasMore: boolean }> {
  const query = db.reader<TemplateRow>('templates').where({ account_id: accountId });
  const { rows, hasMore } = await readPage<TemplateRow>(query, page);
  const wanted = rows.map(({ id, latest_version }) => [id, latest_version]);
  // Without the bodies, of which a page of a hundred could have 100 MB.
  const columns = tables.template_versions.names.filter((column) => !LARGE_COLUMNS.includes(column));
  const versions: TemplateVersionRow[] =
    wanted.length === 0
      ? []
      : await db
          .reader('template_versions')
          .whereIn(['template_id', 'version'], wanted)
          .select(...columns);
  const latest = new Map(
    versions.map((version) => [version.template_id, { ...version, html: null, text: null, sample_json: null }]),
  );
  const templates = rows.flatMap((row) => {
    const version = latest.get(row.id);
    return version === undefined ? [] : [{ row, version: version.version, body: bodyOf(version) }];
  });
  return { templates, hasMore };
}

const MOST_VERSIONS_SHOWN = 100;

/** Returns the last hundred versions, newest first. Throws `not_found`. */
export async function versionsOf(
  { db }: { db: Pick<Database, 'prepared' | 'reader'> },
  { accountId, idOrAlias }: { accountId: string; idOrAlias: string },
): Promise<{ row: TemplateRow; versions: Pick<TemplateVersionRow, 'version' | 'created_at' | 'created_by'>[] }> {
  const row = await load(db.prepared, accountId, idOrAlias);
  const versions = await db
    .reader<TemplateVersionRow>('template_versions')
    .where({ template_id: row.id })
    .orderBy('version', 'desc')
    .limit(MOST_VERSIONS_SHOWN)
    .select('version', 'created_at', 'created_by');
  return { row, versions };
}

async function lookUp(tx: Connection, accountId: string, idOrAlias: string): Promise<TemplateRow | null> {
  // An alias never looks like an id: the API refuses that.
  const column = isId('tpl', idOrAlias) ? 'id' : 'alias';
  const [row] = await tx.all<TemplateRow>(`SELECT * FROM templates WHERE account_id = ? AND ${column} = ?`, [
    accountId,
    idOrAlias,
  ]);
  return row ?? null;
}

async function load(tx: Connection, accountId: string, idOrAlias: string): Promise<TemplateRow> {
  const row = await lookUp(tx, accountId, idOrAlias);
  if (row === null) throw notFound('id', 'There is no such template.');
  return row;
}

/** Columns that a page of templates leaves out. */
const LARGE_COLUMNS: readonly string[] = ['html', 'text', 'sample_json'];
/** A send does not need the sample values, which may be as large as its own. */
const COLUMNS_OF_SENDS = tables.template_versions.names
  .map((column) => (column === 'sample_json' ? 'NULL AS sample_json' : column))
  .join(', ');

async function versionOf(
  tx: Connection,
  templateId: string,
  version: number,
  columns = '*',
): Promise<TemplateVersionRow | null> {
  const [row] = await tx.all<TemplateVersionRow>(
    `SELECT ${columns} FROM template_versions WHERE template_id = ? AND version = ?`,
    [templateId, version],
  );
  return row ?? null;
}

async function loadVersion(tx: Connection, row: TemplateRow, version: number): Promise<Template> {
  const found = await versionOf(tx, row.id, version);
  if (found === null) throw notFound('version', 'There is no such version.');
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

interface Making {
  at: number;
  /** The actor as the audit log names them. */
  by: string | null;
}

const versionRow = (
  templateId: string,
  version: number,
  body: TemplateBody,
  { at, by }: Making,
): TemplateVersionRow => ({
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
  created_at: at,
  created_by: by,
  sample_json: body.sample === null ? null : JSON.stringify(body.sample),
});

function isSameContent(one: TemplateBody, other: TemplateBody): boolean {
  const stored = (body: TemplateBody): unknown[] => Object.values(versionRow('', 0, body, { at: 0, by: null }));
  const others = stored(other);
  return stored(one).every((value, n) => value === others[n]);
}

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
  sample: row.sample_json === null ? null : (JSON.parse(row.sample_json) as Record<string, unknown>),
});
