/**
 * Exports: lists of the API as files, as CSV or as one JSON object a line (NDJSON). An operation adds a row, a rule of housekeeping
 * writes the file page by page (export-rule.ts), and the file can be fetched for seven days.
 */
import { unlink } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { isMissing } from '../base/error-code.ts';
import { jsonOf, operatorCaller, type Inside } from '../api/inside.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { scopeNames } from '../keys/scopes.ts';
import type { Config } from '../config/schema.ts';
import type { Database } from '../storage/database.ts';
import { insertRows } from '../storage/rows.ts';
import type { AccountRow, ExportRow } from '../storage/tables.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore, type StoreDeps } from './operation.ts';
import { requireFile } from './export-parts.ts';
import { ofOthersArgument, ownOnly, refuseOthers } from './owners.ts';

/** The kinds of exports: the operation of the API that reads each, and the parameter that ends its range. */
export const exportKinds = {
  messages: { operation: 'listMessages', until: 'created_before' },
  events: { operation: 'listEvents', until: 'occurred_before' },
  stats: { operation: 'getStats', until: 'until' },
  audit: { operation: 'listAuditEntries', until: 'until' },
} as const;
export type ExportKind = keyof typeof exportKinds;
/** The formats; NDJSON has the records as the API answers them. */
export const exportFormats = ['csv', 'ndjson'] as const;
const kinds = Object.keys(exportKinds) as [ExportKind, ...ExportKind[]];

export const EXPORTS_KEPT_MS = 7 * DAY_MS;
/** Files of an account, and exports that wait or run: of an account, and of all. */
const MOST_KEPT = 20;
const MOST_ACTIVE = 3;
const MOST_ACTIVE_IN_ALL = 30;
const LONGEST_VALUE = 1000;
/** Parameters that belong to one page of a list. */
const ofOnePage: ReadonlySet<string> = new Set(['limit', 'after', 'before', 'wait']);

const queryArgument = z
  .record(z.string().max(64), z.string().max(LONGEST_VALUE))
  .refine((query) => Object.keys(query).length <= 30, 'has at most 30 parameters');

const ref = z.strictObject({ account: accountArgument, id: z.string().max(64) });

export const exportOperations = {
  /** Adds an export of what the API's list gives for these parameters now. */
  'exports.create': onStore({
    act: { says: 'exported {kind}', type: 'export', keeps: ['kind', 'format', 'query'] },
    scope: 'message:read',
    args: z.strictObject({
      account: accountArgument,
      kind: z.enum(kinds),
      format: z.enum(exportFormats).optional(),
      query: queryArgument.optional(),
    }),
    async run(deps, { account, kind, format = 'csv', query: given = {} }, act) {
      const owner = await accountNamed(deps, account);
      act.concerns(owner.id);
      const now = deps.clock.now();
      const { until } = exportKinds[kind];
      const named = Object.entries(given).filter(([name, value]) => value !== '' && !ofOnePage.has(name));
      const query = { ...Object.fromEntries(named), [until]: given[until] ?? rfc3339(now) };
      // The operation refuses parameters that it does not know before anything waits.
      await readPage(deps, owner, { kind, query, cursor: null, limit: 1 });
      const row: ExportRow = {
        id: newId('exp', now),
        account_id: owner.id,
        kind,
        query_json: JSON.stringify(query),
        state: 'waiting',
        rows_done: 0,
        bytes_done: 0,
        cursor: null,
        is_cut: 0,
        error: null,
        created_at: now,
        created_by: act.actor,
        touched_at: now,
        finished_at: null,
        format,
      };
      await addRow(deps, row);
      act.on({ after: exportRecord(row) });
      return exportRecord(row);
    },
  }),
  /** Lists the exports of an account, the newest first. */
  'exports.list': onStore({
    act: null,
    scope: 'message:read',
    args: z.strictObject({ account: accountArgument }),
    async run({ db }, { account }) {
      const { id } = await accountNamed({ db }, account);
      const rows = await db
        .reader<ExportRow>('export_files')
        .where({ account_id: id })
        .orderBy('id', 'desc')
        .limit(MOST_KEPT);
      return { data: rows.map(exportRecord) };
    },
  }),
  /** Names the finished file of an export on the disk of the node that is asked. */
  'exports.file': onStore({
    act: null,
    scope: 'message:read',
    args: ref,
    async run(deps, { account, id }) {
      const row = await requireExport(deps, await accountNamed(deps, account), id);
      if (row.state === 'failed')
        throw new Problem('invalid_state', `This export has failed: ${row.error ?? 'no reason is given'}.`, {
          field: 'id',
        });
      if (row.state !== 'done')
        throw new Problem('invalid_state', 'This export is not finished, so it has no file.', { field: 'id' });
      const day = rfc3339(row.created_at).slice(0, 10);
      const { kind, format, bytes_done: bytes } = row;
      const file = fileOf(deps.config, row);
      await requireFile(deps.db, row, file);
      return { path: file, name: `${kind}-${day}.${format}`, format, bytes };
    },
  }),
  /** Removes an export with its file; one that runs ends. */
  'exports.remove': onStore({
    act: { says: 'removed the export {object}', type: 'export', keeps: ['kind'] },
    scope: 'message:read',
    forMembers: ownOnly,
    args: ref.extend({ of_others: ofOthersArgument }),
    async run(deps, { account, id, of_others: ofOthers }, act) {
      const owner = await accountNamed(deps, account);
      act.concerns(owner.id);
      const row = await requireExport(deps, owner, id);
      refuseOthers('this export', row, act, ofOthers);
      act.on({ before: exportRecord(row) });
      await removeExports(deps, [row]);
      return exportRecord(row);
    },
  }),
};

interface ExportDeps {
  db: Pick<Database, 'commit'>;
  config: Pick<Config, 'dataDir'>;
}

async function requireExport({ db }: Pick<StoreDeps, 'db'>, owner: AccountRow, id: string): Promise<ExportRow> {
  const [row] = await db.reader<ExportRow>('export_files').where({ account_id: owner.id, id });
  if (row === undefined) throw new Problem('not_found', 'There is no such export.', { field: 'id' });
  return row;
}

/** Adds the row where the account and the server have room for one more. */
async function addRow({ db }: Pick<StoreDeps, 'db'>, row: ExportRow): Promise<void> {
  await db.commit.transact(async (tx) => {
    const [count] = await tx.all<{ own: number; active: number; all_active: number }>(
      `SELECT COUNT(CASE WHEN account_id = ? THEN 1 END) AS own,
         COUNT(CASE WHEN account_id = ? AND state IN ('waiting', 'running') THEN 1 END) AS active,
         COUNT(CASE WHEN state IN ('waiting', 'running') THEN 1 END) AS all_active FROM export_files`,
      [row.account_id, row.account_id],
    );
    const { own = 0, active = 0, all_active: allActive = 0 } = count ?? {};
    if (own >= MOST_KEPT)
      throw new Problem('invalid_state', `An account keeps at most ${String(MOST_KEPT)} exports. Remove one first.`);
    if (active >= MOST_ACTIVE)
      throw new Problem(
        'invalid_state',
        `${String(MOST_ACTIVE)} exports of this account are being written. Wait for one.`,
      );
    if (allActive >= MOST_ACTIVE_IN_ALL)
      throw new Problem('invalid_state', 'The server has too many exports to write at the moment. Try again later.');
    await insertRows(tx, [{ export_files: [row] }]);
  });
}

/** Removes rows, then their files. */
export async function removeExports({ db, config }: ExportDeps, rows: readonly ExportRow[]): Promise<void> {
  await db.commit.transact(async (tx) => {
    for (const { id } of rows) await tx.run('DELETE FROM export_files WHERE id = ?', [id]);
  });
  for (const row of rows) await removeFile(fileOf(config, row));
}

/** Removes a file, unless it is gone already. */
export async function removeFile(file: string): Promise<void> {
  try {
    await unlink(file);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

export const exportFolder = ({ dataDir }: Pick<Config, 'dataDir'>): string => path.join(dataDir, 'exports');

export const fileOf = (config: Pick<Config, 'dataDir'>, { id, format }: Pick<ExportRow, 'id' | 'format'>): string =>
  path.join(exportFolder(config), `${id}.${format}`);

export interface ExportPage {
  data: readonly Readonly<Record<string, unknown>>[];
  /** Cursor of the next page; null at the end. */
  next: string | null;
}

/** The scopes that exports are read with: those of every member who can fetch the file. */
const scopesOfFiles = scopeNames.filter((name) => name !== 'event:engagement');

/**
 * Reads one page by the operation of the API, as the operator: its reads are bounded. A file is for all members of the account, and
 * not all of their roles may see address and program of opens and clicks: these are always left out.
 */
export async function readPage(
  { inside }: { inside: Pick<Inside, 'ask'> },
  owner: AccountRow,
  wanted: { kind: ExportKind; query: Readonly<Record<string, string>>; cursor: string | null; limit: number },
): Promise<ExportPage> {
  const { kind, query, cursor, limit } = wanted;
  const caller = { ...operatorCaller(owner), scopes: scopesOfFiles };
  const asking = { caller, ip: null, userAgent: null, whenOver: () => undefined };
  // Numbers come in one piece. Events are read from the first one on.
  const first = kind === 'events' ? 'start' : null;
  const paging = kind === 'stats' ? {} : { limit: String(limit), after: cursor ?? first };
  const reply = await inside.ask(asking, exportKinds[kind].operation, { query: { ...query, ...paging } });
  const page = jsonOf(reply) as { data: ExportPage['data']; has_more?: boolean; next_cursor?: string | null };
  return { data: page.data, next: page.has_more === true ? (page.next_cursor ?? null) : null };
}

export type ExportRecord = ReturnType<typeof exportRecord>;

function exportRecord(row: ExportRow) {
  return {
    object: 'export' as const,
    id: row.id,
    kind: row.kind,
    format: row.format,
    query: JSON.parse(row.query_json) as Record<string, string>,
    state: row.state,
    rows: row.rows_done,
    bytes: row.bytes_done,
    is_cut: row.is_cut === 1,
    error: row.error,
    created_at: rfc3339(row.created_at),
    created_by: row.created_by,
    finished_at: row.finished_at === null ? null : rfc3339(row.finished_at),
    removed_at: rfc3339(row.created_at + EXPORTS_KEPT_MS),
  };
}
