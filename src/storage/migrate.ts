/**
 * Runs the migrations. They are listed by hand, with fixed names, so that a database made in development (`.ts`) and one made in
 * production (`.js`) agree. Names never change once released.
 */
import type { Knex } from 'knex';
import { up as ground } from '../../migrations/001-ground.ts';
import { up as api } from '../../migrations/002-api.ts';
import { up as templates } from '../../migrations/003-templates.ts';
import { up as admin } from '../../migrations/004-admin.ts';
import { up as stats } from '../../migrations/005-stats.ts';
import { up as webhooks } from '../../migrations/007-webhooks.ts';
import { up as tracking } from '../../migrations/008-tracking.ts';
import { up as inbound } from '../../migrations/009-inbound.ts';
import { renewViews, withoutViews } from './views.ts';
import { up as engine } from '../../migrations/012-engine.ts';
import { up as tls } from '../../migrations/013-tls.ts';
import { up as sources } from '../../migrations/014-sources.ts';
import { up as lists } from '../../migrations/016-lists.ts';
import { up as aggregates } from '../../migrations/019-aggregates.ts';
import { up as contentBases } from '../../migrations/017-content-bases.ts';
import { up as dashboard } from '../../migrations/011-dashboard.ts';
import { up as listings } from '../../migrations/020-listings.ts';
import { up as messageBlocks } from '../../migrations/021-message-blocks.ts';
import { up as templateStats } from '../../migrations/022-template-stats.ts';
import { up as keyUses } from '../../migrations/024-key-uses.ts';
import { up as summaries } from '../../migrations/026-summaries.ts';
import { up as batchContents } from '../../migrations/027-batch-contents.ts';
import { up as tlsHosts } from '../../migrations/029-tls-hosts.ts';
import { up as domainGrace } from '../../migrations/030-domain-grace.ts';
import { up as strangers } from '../../migrations/031-strangers.ts';
import { up as signIn } from '../../migrations/033-sign-in.ts';
import { up as sandbox } from '../../migrations/034-sandbox.ts';
import { up as resends } from '../../migrations/036-resends.ts';
import { up as plainLists } from '../../migrations/037-plain-lists.ts';
import { up as auditObjects } from '../../migrations/038-audit-objects.ts';
import { up as ownMail } from '../../migrations/015-own-mail.ts';
import { up as eventCounts } from '../../migrations/018-event-counts.ts';

interface Migration {
  name: string;
  up: (knex: Knex) => Promise<void>;
}

const migrations: readonly Migration[] = [
  { name: '001-ground', up: ground },
  { name: '002-api', up: api },
  { name: '003-templates', up: templates },
  { name: '004-admin', up: admin },
  { name: '005-stats', up: stats },
  { name: '007-webhooks', up: webhooks },
  { name: '008-tracking', up: tracking },
  { name: '009-inbound', up: inbound },
  { name: '011-dashboard', up: dashboard },
  { name: '012-engine', up: engine },
  { name: '013-tls', up: tls },
  { name: '014-sources', up: sources },
  { name: '015-own-mail', up: ownMail },
  { name: '016-lists', up: lists },
  { name: '017-content-bases', up: contentBases },
  { name: '018-event-counts', up: eventCounts },
  { name: '019-aggregates', up: aggregates },
  { name: '020-listings', up: listings },
  { name: '021-message-blocks', up: messageBlocks },
  { name: '022-template-stats', up: templateStats },
  { name: '024-key-uses', up: keyUses },
  { name: '026-summaries', up: summaries },
  { name: '027-batch-contents', up: batchContents },
  { name: '029-tls-hosts', up: tlsHosts },
  { name: '030-domain-grace', up: domainGrace },
  { name: '031-strangers', up: strangers },
  { name: '033-sign-in', up: signIn },
  { name: '034-sandbox', up: sandbox },
  { name: '036-resends', up: resends },
  { name: '037-plain-lists', up: plainLists },
  { name: '038-audit-objects', up: auditObjects },
];

/** The names in order. */
export const migrationNames: readonly string[] = migrations.map(({ name }) => name);

/** Migrations are forward only: going back means restoring the backup that was made before. */
const source: Knex.MigrationSource<Migration> = {
  getMigrations: () => Promise.resolve([...migrations]),
  getMigrationName: ({ name }) => name,
  getMigration: ({ up }) =>
    Promise.resolve({ up, down: () => Promise.reject(new Error('migrations only go forward')) }),
};

/** Called before each step with the number done and the number of all. */
export type MigrationStep = (done: number, of: number) => void;

/** Thrown if a later version has changed the database. */
export class NewerDatabase extends Error {}

/**
 * Brings the database up to date and returns the names of the steps. `before` runs first if the database has data. Throws
 * `NewerDatabase` if the database has steps that this version does not know.
 */
export async function migrate(
  knex: Knex,
  before?: () => Promise<void>,
  step: MigrationStep = () => undefined,
): Promise<string[]> {
  await refuseNewer(knex);
  const state = await migrationState(knex);
  if (state.every(({ taken }) => taken)) {
    await renewViews(knex);
    return [];
  }
  if (state.some(({ taken }) => taken)) await before?.();
  const steps = state.filter(({ taken }) => !taken).map(({ name }) => name);
  const announcing: Knex.MigrationSource<Migration> = {
    ...source,
    getMigration: async (migration) => {
      const { up, down } = await source.getMigration(migration);
      return {
        up: (tx) => {
          step(steps.indexOf(migration.name), steps.length);
          return up(tx);
        },
        ...(down === undefined ? {} : { down }),
      };
    },
  };
  await freeLeftLock(knex);
  return await withoutViews(knex, async () => {
    const [, names] = (await knex.migrate.latest({ migrationSource: announcing, tableName: 'migrations' })) as [
      number,
      string[],
    ];
    return names;
  });
}

/**
 * Frees the lock that knex leaves behind if the program is killed during a step; the step itself was rolled back. Without this no
 * start would succeed again. A program that is still migrating holds SQLite's own lock: then this waits and throws.
 */
async function freeLeftLock(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('migrations_lock')) await knex('migrations_lock').update({ is_locked: 0 });
}

/** Brings an empty database to the step `name`, for tests of later migrations. */
export async function migrateTo(knex: Knex, name: string): Promise<void> {
  const steps = migrations.slice(0, migrationNames.indexOf(name) + 1);
  const until: Knex.MigrationSource<Migration> = { ...source, getMigrations: () => Promise.resolve(steps) };
  await knex.migrate.latest({ migrationSource: until, tableName: 'migrations' });
}

/** Runs first, since knex would report unknown steps as a corrupt list of migrations. */
async function refuseNewer(knex: Knex): Promise<void> {
  if (!(await knex.schema.hasTable('migrations'))) return;
  const rows = (await knex('migrations').select('name').orderBy('id')) as { name: string }[];
  const unknown = rows.map(({ name }) => name).filter((name) => !migrationNames.includes(name));
  if (unknown.length === 0) return;
  throw new NewerDatabase(
    `the database was changed by a later version (${unknown.join(', ')}): start that version, or restore the backup that was made before`,
  );
}

/** Returns the steps that this version knows, and whether the database has taken each. */
export async function migrationState(knex: Knex): Promise<{ name: string; taken: boolean }[]> {
  const [done] = (await knex.migrate.list({ migrationSource: source, tableName: 'migrations' })) as [
    { name: string }[],
  ];
  const taken = new Set(done.map(({ name }) => name));
  return migrations.map(({ name }) => ({ name, taken: taken.has(name) }));
}
