/**
 * Rules of housekeeping that write exports and remove old ones. A step writes a few pages behind the bytes that are finished, and
 * then commits how far it came: after a crash the next step overwrites what was not committed. On PostgreSQL the pages are committed with it
 * (export-parts.ts), so that the next node that leads can go on.
 */
import { mkdir, open, readdir, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '../base/error-code.ts';
import { auditColumns } from '../api/audit-list.ts';
import type { Inside } from '../api/inside.ts';
import { csvLine } from '../base/csv.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import { HOUR_MS } from '../base/time.ts';
import type { Config } from '../config/schema.ts';
import { statTypes } from '../events/stats.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import type { Database } from '../storage/database.ts';
import type { AccountRow, ExportRow } from '../storage/tables.ts';
import { addPart } from './export-parts.ts';
import {
  EXPORTS_KEPT_MS,
  exportFolder,
  fileOf,
  readPage,
  removeExports,
  removeFile,
  type ExportKind,
} from './exports.ts';

export interface ExportRuleDeps {
  db: Pick<Database, 'commit' | 'reader' | 'engine'>;
  clock: Clock;
  log: Pick<Log, 'info' | 'warn' | 'error'>;
  config: Pick<Config, 'dataDir'>;
  inside: Pick<Inside, 'ask'>;
  /** Returns false while new mail is refused since the disk is full. */
  hasRoom: () => boolean;
}

/** A new export is begun within this time. */
const EVERY_MS = 2_000;
const PAGE_ROWS = 100;
const PAGES_A_STEP = 4;
/** The largest file. */
const MOST_BYTES = 256 * 1024 * 1024;

/** The columns of a file, and the path of each in the record of the API. */
const columns: Readonly<Record<ExportKind, readonly string[]>> = {
  messages: [
    'id',
    'created_at',
    'status',
    'from',
    'to',
    'subject',
    'stream',
    'tags',
    'template_id',
    'batch_id',
    'test',
    'engagement.opens',
    'engagement.clicks',
  ],
  events: [
    'id',
    'timestamp',
    'type',
    'data.message_id',
    'data.recipient',
    'data.subject',
    'data.tags',
    'test',
    'detail',
  ],
  stats: ['at', 'key', ...statTypes.map((type) => `counts.${type}`)],
  audit: auditColumns,
};

/** Returns a rule that writes the export whose last step is the longest ago. */
export function exportRule(deps: ExportRuleDeps, mostBytes = MOST_BYTES) {
  return {
    name: 'exports',
    everyMs: EVERY_MS,
    stepRows: 1,
    silent: true as const,
    async step(): Promise<number> {
      const [row] = await deps.db
        .reader<ExportRow>('export_files')
        .whereIn('state', ['waiting', 'running'])
        .orderBy('touched_at')
        .limit(1);
      if (row === undefined) return 0;
      try {
        await advance(deps, row, mostBytes);
      } catch (error) {
        // A database that is away for a moment comes back: the next step goes on where this one began.
        if (deps.db.engine === 'postgres' && isStorageTrouble(error) && !isOfQuery(error)) throw error;
        await fail(deps, row, error);
      }
      return 1;
    },
  };
}

/** Too slow (57014), out of memory (53200), or over a limit such as `temp_file_limit` (53400): the query would be so the next time, too. */
const OF_QUERY: readonly unknown[] = ['57014', '53200', '53400'];
const isOfQuery = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && OF_QUERY.includes(error.code);

/** Returns a rule that removes exports after seven days. */
export function oldExports({ db, clock, config }: Pick<ExportRuleDeps, 'db' | 'clock' | 'config'>) {
  return {
    name: 'old exports',
    everyMs: HOUR_MS,
    stepRows: 100,
    async step(): Promise<number> {
      const before = clock.now() - EXPORTS_KEPT_MS;
      const old = await db.reader<ExportRow>('export_files').where('created_at', '<', before).limit(100);
      if (old.length > 0) await removeExports({ db, config }, old);
      return old.length;
    },
  };
}

/** Returns a rule that removes the files of this node that no row names: other nodes remove exports too. */
export function strayExports({ db, config }: { db: Pick<Database, 'reader'>; config: Pick<Config, 'dataDir'> }) {
  return {
    name: 'stray exports',
    everyMs: HOUR_MS,
    stepRows: Infinity,
    silent: true as const,
    onEveryNode: true as const,
    async step(): Promise<number> {
      await removeStrays(db, config);
      return 0;
    },
  };
}

async function removeStrays(db: Pick<Database, 'reader'>, config: Pick<Config, 'dataDir'>): Promise<void> {
  const names = await namesIn(exportFolder(config));
  if (names.length === 0) return;
  const rows = await db.reader<ExportRow>('export_files').select('id', 'format');
  const known = new Set(rows.map((row) => fileOf(config, row)));
  const files = names
    .filter((name) => /\.(?:csv|ndjson)$/.test(name))
    .map((name) => path.join(exportFolder(config), name));
  for (const file of files) if (!known.has(file)) await removeFile(file);
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Writes the next pages, and commits how far the file is now. */
async function advance(deps: ExportRuleDeps, row: ExportRow, mostBytes: number): Promise<void> {
  if (!deps.hasRoom()) throw new Problem('invalid_state', 'The disk of the server is full.');
  const [owner] = await deps.db.reader<AccountRow>('accounts').where({ id: row.account_id });
  if (owner === undefined) throw new Problem('not_found', 'Its account is gone.');
  const pages = await readPages(deps, owner, row, mostBytes);
  if (deps.db.engine === 'sqlite') {
    const file = await openFile(deps.config, row);
    try {
      await file.write(pages.text, 0, pages.text.length, row.bytes_done);
      await file.sync();
    } finally {
      await file.close();
    }
  }
  await commitStep(deps, row, pages);
}

/** Reads the next pages as text, up to the size that is left for the file. */
async function readPages(
  { inside }: Pick<ExportRuleDeps, 'inside'>,
  owner: AccountRow,
  row: ExportRow,
  mostBytes: number,
): Promise<Step> {
  const texts: Buffer[] = [];
  let { rows_done: rows, bytes_done: bytes, cursor } = row;
  let [isDone, isCut] = [false, false];
  const query = JSON.parse(row.query_json) as Record<string, string>;
  for (let page = 0; page < PAGES_A_STEP && !isDone; page += 1) {
    const { data, next } = await readPage({ inside }, owner, {
      kind: row.kind,
      query,
      cursor,
      limit: PAGE_ROWS,
    });
    const text = Buffer.from((bytes === 0 ? headingOf(row) : '') + data.map((record) => lineOf(row, record)).join(''));
    if (bytes + text.length > mostBytes) {
      [isDone, isCut] = [true, true];
      break;
    }
    texts.push(text);
    [rows, bytes, cursor, isDone] = [rows + data.length, bytes + text.length, next, next === null];
  }
  return { text: Buffer.concat(texts), rows, bytes, cursor, isDone, isCut };
}

/** Opens the file, without what a step wrote that was not committed. Throws where finished rows are gone. */
async function openFile(config: Pick<Config, 'dataDir'>, row: ExportRow): Promise<FileHandle> {
  await mkdir(exportFolder(config), { recursive: true, mode: 0o700 });
  const file = await open(fileOf(config, row), row.bytes_done === 0 ? 'w' : 'r+', 0o600);
  const { size } = await file.stat();
  if (size >= row.bytes_done) {
    await file.truncate(row.bytes_done);
    return file;
  }
  await file.close();
  throw new Problem('invalid_state', 'Its file is shorter than what was written.');
}

/** How far an export is after some pages, and their text. */
interface Step {
  text: Buffer;
  rows: number;
  bytes: number;
  cursor: string | null;
  isDone: boolean;
  isCut: boolean;
}

async function commitStep({ db, clock, config, log }: ExportRuleDeps, row: ExportRow, step: Step): Promise<void> {
  const now = clock.now();
  const { text, rows, bytes, cursor, isDone, isCut } = step;
  const changed = await db.commit.transact(async (tx) => {
    const found = await tx.all<{ id: string }>(
      `UPDATE export_files SET state = ?, rows_done = ?, bytes_done = ?, cursor = ?, is_cut = ?, touched_at = ?, finished_at = ?
       WHERE id = ? RETURNING id`,
      [isDone ? 'done' : 'running', rows, bytes, cursor, Number(isCut), now, isDone ? now : null, row.id],
    );
    if (found.length > 0 && text.length > 0 && tx.engine === 'postgres')
      await addPart(tx, row.id, row.bytes_done, text);
    return found;
  });
  // It was removed meanwhile.
  if (changed.length === 0) await removeFile(fileOf(config, row));
  else if (isDone)
    log.info({ event: 'export_done', export_id: row.id, kind: row.kind, rows, bytes }, 'an export is finished');
}

async function fail({ db, clock, config, log }: ExportRuleDeps, row: ExportRow, error: unknown): Promise<void> {
  const isExpected = error instanceof Problem;
  const why = isExpected ? error.message : 'The file could not be written; the log of the server has the reason.';
  log[isExpected ? 'warn' : 'error']({ event: 'export_failed', export_id: row.id, err: error }, 'an export failed');
  await db.commit.transact((tx) =>
    tx.run(`UPDATE export_files SET state = 'failed', error = ?, finished_at = ? WHERE id = ?`, [
      why,
      clock.now(),
      row.id,
    ]),
  );
  await removeFile(fileOf(config, row));
}

/** Returns the first line: of each column the last part of its path. NDJSON has none. */
const headingOf = ({ kind, format }: ExportRow): string =>
  format === 'csv' ? `${csvLine(columns[kind].map((at) => at.slice(at.indexOf('.') + 1)))}\n` : '';

/** Returns the line of a record. `csvLine` keeps spreadsheets from taking a value as a formula. */
const lineOf = ({ kind, format }: ExportRow, record: Readonly<Record<string, unknown>>): string =>
  format === 'csv'
    ? `${csvLine(columns[kind].map((at) => cellOf(valueOf(record, at))))}\n`
    : `${JSON.stringify(record)}\n`;

/** Returns the value at a path; `detail` of an event is the object that is named like its type. */
function valueOf(record: Readonly<Record<string, unknown>>, at: string): unknown {
  const steps = at === 'detail' ? ['data', String(record['type'])] : at.split('.');
  return steps.reduce<unknown>(
    (here, step) => (typeof here === 'object' && here !== null ? (here as Record<string, unknown>)[step] : undefined),
    record,
  );
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(String).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
