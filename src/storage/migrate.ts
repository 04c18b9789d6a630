/**
 * The migrations, listed by hand: fixed names let a database made in development (`.ts`) and one made in production (`.js`) agree. They only go
 * forward, and a released name never changes. On PostgreSQL servers of the version before may run while a new one migrates. A step expands unless its
 * entry says that it contracts: they work on after new tables and columns with a default, and not if something they use is dropped, renamed or gets
 * another meaning.
 */
import type { Knex } from 'knex';
import { up as schema } from '../../migrations/001-schema.ts';
import { up as requestDetails } from '../../migrations/002-request-details.ts';
import { up as webhookCallsByEvent } from '../../migrations/003-webhook-calls-by-event.ts';
import { up as roles } from '../../migrations/004-roles.ts';
import { up as exportsAndViews } from '../../migrations/005-exports-and-views.ts';
import { up as templateSamples } from '../../migrations/006-template-samples.ts';
import { up as exportFormat } from '../../migrations/007-export-format.ts';
import { up as webhookRests } from '../../migrations/008-webhook-rests.ts';
import { up as packedBodies } from '../../migrations/009-packed-bodies.ts';
import { up as noPlannerFigures } from '../../migrations/010-no-planner-figures.ts';
import { up as lightHouse } from '../../migrations/011-light-house.ts';
import { up as limits } from '../../migrations/012-limits.ts';
import { up as oneTableOfLimits } from '../../migrations/013-one-table-of-limits.ts';
import { up as received } from '../../migrations/014-received.ts';
import { up as templateAuthors } from '../../migrations/015-template-authors.ts';
import { up as nodesBySigns } from '../../migrations/016-nodes-by-signs-of-life.ts';
import { up as plainCountdowns } from '../../migrations/017-plain-countdowns.ts';
import { up as limitCounts } from '../../migrations/018-limit-counts.ts';
import { up as mailsAnHour } from '../../migrations/019-mails-an-hour.ts';
import { dialectOf } from './sql.ts';
import { renewViews, withoutViews } from './views.ts';

export interface Migration {
  name: string;
  up: (knex: Knex) => Promise<void>;
  /** Servers of the version before cannot work after it: it waits until they have ended. */
  contracts?: true;
}

export const migrations: readonly Migration[] = [
  { name: '001-schema', up: schema },
  { name: '002-request-details', up: requestDetails },
  { name: '003-webhook-calls-by-event', up: webhookCallsByEvent },
  { name: '004-roles', up: roles },
  { name: '005-exports-and-views', up: exportsAndViews },
  { name: '006-template-samples', up: templateSamples },
  { name: '007-export-format', up: exportFormat },
  { name: '008-webhook-rests', up: webhookRests },
  { name: '009-packed-bodies', up: packedBodies, contracts: true },
  { name: '010-no-planner-figures', up: noPlannerFigures },
  { name: '011-light-house', up: lightHouse, contracts: true },
  { name: '012-limits', up: limits, contracts: true },
  { name: '013-one-table-of-limits', up: oneTableOfLimits, contracts: true },
  { name: '014-received', up: received },
  { name: '015-template-authors', up: templateAuthors },
  { name: '016-nodes-by-signs-of-life', up: nodesBySigns, contracts: true },
  { name: '017-plain-countdowns', up: plainCountdowns, contracts: true },
  { name: '018-limit-counts', up: limitCounts, contracts: true },
  { name: '019-mails-an-hour', up: mailsAnHour },
];

export const migrationNames: readonly string[] = migrations.map(({ name }) => name);

/** Called before each step with the number done and the number of all. */
export type MigrationStep = (done: number, of: number) => void;

export interface MigrationOptions {
  /** Runs first if the database has data; if it throws, nothing is changed. */
  before?: (() => Promise<void>) | undefined;
  step?: MigrationStep | undefined;
  /** Returns the servers that use the database, which is asked if steps are waiting; none if left out. */
  others?: () => Promise<readonly { name: string; version: string }[]>;
  /** The steps of this version; those of the list if left out. */
  list?: readonly Migration[] | undefined;
}

/** Thrown if this version cannot open the database, because its schema is too new or too old, or because older servers use it. */
export class UnsupportedSchema extends Error {}

/** Returns why this version cannot open a database that has taken these steps, as the end of a sentence about it, or null if it can. */
export function whyUnsupported(taken: readonly string[], list = migrations): string | null {
  const unknown = taken.filter((name) => list.every((one) => one.name !== name));
  return unknown.length === 0
    ? null
    : `was changed by a later version (${unknown.join(', ')}): start that version, or restore the backup that was made before`;
}

/** Brings the database up to date and returns the names of the steps. Throws `UnsupportedSchema`. */
export async function migrate(
  knex: Knex,
  { before, step = () => undefined, others, list = migrations }: MigrationOptions = {},
): Promise<string[]> {
  const taken = await takenSteps(knex);
  const why = whyUnsupported(taken, list);
  if (why !== null) throw new UnsupportedSchema(`the database ${why}`);
  const waiting = list.filter(({ name }) => !taken.includes(name));
  const steps = waiting.map(({ name }) => name);
  if (steps.length === 0) {
    await renewViews(knex);
    return [];
  }
  const contracting = waiting.find(({ contracts }) => contracts === true);
  // A database that has taken none has no servers.
  if (contracting !== undefined && taken.length > 0) refuseBeside(contracting.name, (await others?.()) ?? []);
  if (taken.length > 0) await before?.();
  await freeLeftLock(knex);
  return await withoutViews(knex, () => takeSteps(knex, list, steps, step));
}

/** Throws `UnsupportedSchema` if servers run that could not work after the step. */
function refuseBeside(step: string, others: readonly { name: string; version: string }[]): void {
  if (others.length === 0) return;
  const names = others.map(({ name, version }) => `${name} (${version})`).join(', ');
  throw new UnsupportedSchema(
    `the database needs ${step}, after which servers of the version before cannot work: end ${names} first (posthorn nodes list), then start this version`,
  );
}

async function takeSteps(
  knex: Knex,
  list: readonly Migration[],
  steps: readonly string[],
  step: MigrationStep,
): Promise<string[]> {
  const source: Knex.MigrationSource<Migration> = {
    getMigrations: () => Promise.resolve([...list]),
    getMigrationName: ({ name }) => name,
    getMigration: ({ name, up }) =>
      Promise.resolve({
        up: (tx) => {
          step(steps.indexOf(name), steps.length);
          return up(dialectOf(tx).engine === 'postgres' ? translating(tx) : tx);
        },
        // Going back means restoring the backup that was made before.
        down: () => Promise.reject(new Error('migrations only go forward')),
      }),
  };
  const [, names] = (await knex.migrate.latest({ migrationSource: source, tableName: 'migrations' })) as [
    number,
    string[],
  ];
  return names;
}

/**
 * Frees the lock that knex leaves if the program is killed during a step, which was rolled back: otherwise no start would succeed again. A program
 * that is still migrating holds SQLite's own lock: then this waits and throws.
 */
async function freeLeftLock(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('migrations_lock')) await knex('migrations_lock').update({ is_locked: 0 });
}

async function takenSteps(knex: Knex): Promise<string[]> {
  if (!(await knex.schema.hasTable('migrations'))) return [];
  const rows = (await knex('migrations').select('name').orderBy('id')) as { name: string }[];
  return rows.map(({ name }) => name);
}

/** Returns the steps that the database has taken, and those of this version that it lacks. */
export async function migrationState(knex: Knex): Promise<{ taken: string[]; missing: string[] }> {
  const taken = await takenSteps(knex);
  return { taken, missing: migrationNames.filter((name) => !taken.includes(name)) };
}

/**
 * Translates the migrations' tables, written for SQLite, into PostgreSQL's types. They have types in capitals and names in lower case. Numbers have
 * 64 bits, and texts are compared byte by byte, both as in SQLite.
 */

const types: readonly (readonly [RegExp, string])[] = [
  [/\bINTEGER NOT NULL PRIMARY KEY AUTOINCREMENT\b/g, 'BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY'],
  [/\bINTEGER\b/g, 'BIGINT'],
  [/\bTEXT\b/g, 'TEXT COLLATE "C"'],
  [/\bBLOB\b/g, 'BYTEA'],
  [/\bFLOAT\b/g, 'DOUBLE PRECISION'],
  [/\bWITHOUT ROWID\b/g, ''],
];

/** Rows of a table without a key of its own are known by the number that SQLite gives every row. */
const ROW_NUMBER = 'rowid BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY';

/** Returns the statement as PostgreSQL takes it; one that changes no table is returned as it is. */
export function postgresSchema(sql: string): string {
  if (!/^\s*(?:CREATE|ALTER) TABLE\b/.test(sql)) return sql;
  const translated = types.reduce((text, [found, type]) => text.replaceAll(found, type), sql);
  const needsNumber = /^\s*CREATE TABLE\b/.test(sql) && !/\bPRIMARY KEY\b/.test(sql);
  return needsNumber ? translated.replace('(', `(\n    ${ROW_NUMBER},`) : translated;
}

/** Returns a knex whose raw statements are translated: what a migration gets. */
function translating(knex: Knex): Knex {
  return new Proxy(knex, {
    get(target, name, receiver): unknown {
      if (name !== 'raw') return Reflect.get(target, name, receiver);
      return (sql: string, ...bindings: unknown[]): unknown =>
        (target.raw as (...of: unknown[]) => unknown)(postgresSchema(sql), ...bindings);
    },
  });
}
