/**
 * Writes the end of calls, together inside a grouped commit: a line of the delivery log for each attempt, a row for
 * a call that has to be made again, and the endpoint's cursor and health. A delivered call costs one line and its share of one update.
 */
import type { Knex } from 'knex';
import { groupBy } from '../base/sets.ts';
import { readTestedPage, SLICES, type BoundedRowPage, readPage, type PagePart, type RowPage } from '../storage/page.ts';
import type { Connection } from '../storage/connection.ts';
import type { Committer, Work } from '../storage/commit.ts';
import type { StoreDeps } from '../storage/database.ts';
import { allDone, insertRows } from '../storage/rows.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { dialectOf, statement } from '../storage/sql.ts';
import { integer, orNull, text } from '../storage/table.ts';
import { webhookCalls, type WebhookCallRow, type WebhookCause, type WebhookDeliveryRow } from '../storage/tables.ts';
import type { Health } from './retry.ts';

/** The work left for an event after an attempt. `hasRow`: it failed before, or was asked for again. */
export type Owed =
  | { kind: 'nothing'; hasRow: boolean }
  | { kind: 'retry'; dueAt: number }
  /** All attempts are used up: kept for a replay of what failed. */
  | { kind: 'given_up' };

export interface CallEnd {
  line: WebhookDeliveryRow;
  owed: Owed;
  /** Until when the endpoint asked not to be called, or null. */
  restsUntil: number | null;
  /** The event's place in the log. */
  sequence: number;
  /** Returns how far the endpoint's log is settled once these events are, too; called inside the transaction. */
  settledUpTo(also: ReadonlySet<number>): number;
}

const BYTES_A_LINE = 1500;
const callEnds: Work<CallEnd, Health | null> = { name: 'webhook calls', run: writeEnds };

/** Writes the end of an attempt; gives the endpoint's health after it, or null if the endpoint is gone. */
export const recordCallEnd = (commit: Committer, end: CallEnd): Promise<Health | null> =>
  commit.submit(callEnds, end, BYTES_A_LINE);

async function writeEnds(tx: Connection, ends: readonly CallEnd[]): Promise<(Health | null)[]> {
  const updating = updateEndpoints(tx, ends);
  const lines = { webhook_deliveries: ends.map(({ line }) => line) };
  await allDone([updating, insertRows(tx, [lines]), keepOwed(tx, ends), dropDone(tx, ends)]);
  const healths = await updating;
  return ends.map(({ line }) => healths.get(line.webhook_id) ?? null);
}

async function updateEndpoints(tx: Connection, ends: readonly CallEnd[]): Promise<Map<string, Health>> {
  const byEndpoint = groupBy(ends, ({ line }) => line.webhook_id);
  const rows = [...byEndpoint].map(([id, own]) => ({ id, settled: cursorOf(own), ...changeOf(own) }));
  const changed = await tx.all<Health & { id: string }>(noteEnds, [endpointChanges.json(rows)]);
  return new Map(changed.map(({ id, ...health }) => [id, health]));
}

const LATER_CURSOR = 'CASE WHEN j.settled > webhooks.cursor THEN j.settled ELSE webhooks.cursor END';

const endpointChanges = rowsParameter({
  id: text(),
  settled: integer(),
  success_at: orNull(integer()),
  failure_at: orNull(integer()),
  failed: integer(),
  failed_since: orNull(integer()),
  rests_until: orNull(integer()),
});

const noteEnds = statement(
  (sql) => `UPDATE webhooks SET cursor = ${LATER_CURSOR},
       last_success_at = COALESCE(j.success_at, last_success_at), last_failure_at = COALESCE(j.failure_at, last_failure_at),
       failures = CASE WHEN j.success_at IS NULL THEN failures + j.failed ELSE j.failed END,
       failing_since = CASE WHEN j.success_at IS NULL THEN COALESCE(failing_since, j.failed_since) ELSE j.failed_since END,
       rests_until = CASE WHEN j.rests_until IS NULL THEN CASE WHEN j.success_at IS NULL THEN webhooks.rests_until END
         WHEN webhooks.rests_until > j.rests_until THEN webhooks.rests_until ELSE j.rests_until END
     FROM ${endpointChanges.table(sql, 'j')}
     WHERE webhooks.id = j.id RETURNING webhooks.id, failures, failing_since, warned_at`,
);

function cursorOf(ends: readonly CallEnd[]): number {
  const settled = new Set(ends.map(({ sequence }) => sequence));
  return Math.max(...ends.map((end) => end.settledUpTo(settled)));
}

/** Returns last success, last failure, failures since that success, the first of those, and the end of the rest that was asked for. */
function changeOf(ends: readonly CallEnd[]) {
  const lines = ends.map(({ line }) => line);
  const lastGood = lines.findLastIndex(({ status }) => status === 'delivered');
  const failed = lines.slice(lastGood + 1);
  const lastFailure = lines.findLast(({ status }) => status === 'failed');
  const rests = ends.flatMap(({ restsUntil }) => restsUntil ?? []);
  return {
    success_at: lines[lastGood]?.at ?? null,
    failure_at: lastFailure?.at ?? null,
    failed: failed.length,
    failed_since: failed[0]?.at ?? null,
    rests_until: rests.length === 0 ? null : Math.max(...rests),
  };
}

const calls = rowsParameter(webhookCalls.columns);
const callColumns = webhookCalls.names.join(', ');

async function keepOwed(tx: Connection, ends: readonly CallEnd[]): Promise<void> {
  const rows = ends.flatMap(({ line, owed, sequence }) =>
    owed.kind === 'nothing'
      ? []
      : [
          {
            webhook_id: line.webhook_id,
            sequence,
            cause: line.cause,
            attempts: line.attempt,
            due_at: owed.kind === 'retry' ? owed.dueAt : null,
            created_at: line.at,
          },
        ],
  );
  if (rows.length === 0) return;
  // An endpoint may have been removed while the call was under way.
  await tx.run(
    statement(
      (sql) => `INSERT INTO webhook_calls (${callColumns})
     SELECT ${callColumns} FROM ${calls.table(sql, 'j')}
     WHERE EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = j.webhook_id)
     ON CONFLICT (webhook_id, sequence) DO UPDATE SET attempts = excluded.attempts, due_at = excluded.due_at`,
    ),
    [calls.json(rows)],
  );
}

const doneCalls = rowsParameter(webhookCalls.columns, ['webhook_id', 'sequence']);

async function dropDone(tx: Connection, ends: readonly CallEnd[]): Promise<void> {
  const done = ends.flatMap(({ line, owed, sequence }) =>
    owed.kind === 'nothing' && owed.hasRow ? [{ webhook_id: line.webhook_id, sequence }] : [],
  );
  if (done.length === 0) return;
  await tx.run(
    statement(
      (sql) =>
        `DELETE FROM webhook_calls WHERE (webhook_id, sequence) IN
           (SELECT webhook_id, sequence FROM ${doneCalls.table(sql, 'j')})`,
    ),
    [doneCalls.json(done)],
  );
}

/** Returns the calls that are due first, or those of the oldest events; those of the future are included. */
export function nextCalls(
  prepared: Connection,
  webhookId: string,
  { by, limit }: { by: 'due_at' | 'sequence'; limit: number },
): Promise<WebhookCallRow[]> {
  return prepared.all<WebhookCallRow>(
    `SELECT * FROM webhook_calls WHERE webhook_id = ? AND due_at IS NOT NULL ORDER BY ${by} LIMIT ?`,
    [webhookId, limit],
  );
}

const firstDue = statement(
  ({ listed }) => `SELECT j.value AS id, (SELECT MIN(due_at) FROM webhook_calls WHERE webhook_id = j.value
      AND due_at IS NOT NULL) AS at FROM ${listed('j', 'text')}`,
);

/** Returns when the next call that waits is due, by endpoint; those without one are left out. */
export async function nextDueAt(
  { db }: Pick<StoreDeps, 'db'>,
  webhookIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await db.prepared.all<{ id: string; at: number | null }>(firstDue, [JSON.stringify(webhookIds)]);
  return new Map(rows.flatMap(({ id, at }) => (at === null ? [] : [[id, at] as const])));
}

/** Events beyond a cursor whose lines in the log of calls are looked at: more than come while one call is on the wire. */
const MOST_BEYOND = 20_000;

/**
 * Returns the events beyond a cursor that are not to be sent as new ones: they wait for their next attempt, were given up, or were delivered
 * while an earlier call was on the wire, which kept the cursor back until the process ended.
 */
export async function callsBeyond(prepared: Connection, webhookId: string, cursor: number): Promise<Set<number>> {
  const rows = await prepared.all<{ sequence: number }>(triedBeyond, [
    webhookId,
    cursor,
    cursor,
    cursor + MOST_BEYOND,
    webhookId,
  ]);
  return new Set(rows.map(({ sequence }) => sequence));
}

/** The plus sign keeps SQLite from the index by endpoint: near the end of the log few events are beyond the cursor. */
const triedBeyond = statement(
  ({ unindexed }) => `SELECT sequence FROM webhook_calls WHERE webhook_id = ? AND sequence > ?
    UNION ALL SELECT sequence FROM webhook_deliveries WHERE sequence > ? AND sequence <= ?
      AND ${unindexed('webhook_id')} = ? AND cause = 'event' AND error IS NULL`,
);

/** Has these events sent to the endpoint (again), with all attempts before them. */
export async function queueCalls(
  tx: Connection,
  {
    webhookId,
    sequences,
    cause,
    now,
  }: { webhookId: string; sequences: readonly number[]; cause: WebhookCause; now: number },
): Promise<void> {
  await tx.run(
    statement(
      ({ listed }) => `INSERT INTO webhook_calls (webhook_id, sequence, cause, attempts, due_at, created_at)
     SELECT ?, value, ?, 0, ?, ? FROM ${listed('j', 'integer')} WHERE true
     ON CONFLICT (webhook_id, sequence) DO UPDATE SET cause = excluded.cause, attempts = 0, due_at = excluded.due_at`,
    ),
    [webhookId, cause, now, now, JSON.stringify(sequences)],
  );
}

/** Deletes calls of events that are deleted. */
export async function dropCalls(commit: Committer, webhookId: string, sequences: readonly number[]): Promise<void> {
  await commit.transact((tx) =>
    tx.run(
      statement(({ among }) => `DELETE FROM webhook_calls WHERE webhook_id = ? AND sequence ${among('integer')}`),
      [webhookId, JSON.stringify(sequences)],
    ),
  );
}

const newCursors = rowsParameter({ id: text(), settled: integer() });
const writeCursors = statement(
  (sql) => `UPDATE webhooks SET cursor = ${LATER_CURSOR} FROM ${newCursors.table(sql, 'j')} WHERE webhooks.id = j.id`,
);

/** Moves cursors to the events up to which the logs of their endpoints are settled. */
export async function moveCursors(
  commit: Committer,
  cursors: readonly { readonly id: string; readonly settled: number }[],
): Promise<void> {
  if (cursors.length > 0) await commit.transact((tx) => tx.run(writeCursors, [newCursors.json(cursors)]));
}

/** True for the first call that is about to warn of these failures. */
export async function noteWarned(commit: Committer, webhookId: string, now: number): Promise<boolean> {
  const noted = await commit.transact((tx) =>
    tx.all(
      'UPDATE webhooks SET warned_at = ? WHERE id = ? AND (warned_at IS NULL OR warned_at < failing_since) RETURNING id',
      [now, webhookId],
    ),
  );
  return noted.length > 0;
}

interface CallFilter {
  webhookId: string;
  status?: WebhookDeliveryRow['status'];
  /** Only calls for the event with this number. */
  sequence?: number;
}

/**
 * Returns one page of an endpoint's delivery log, newest first, from a line on (its id, exclusive), forwards or backwards. Attempts that
 * failed and those for one event have an index; among the others a bounded number is tested, and the page may be short.
 */
export async function pageOfDeliveries(
  { db }: Pick<StoreDeps, 'db'>,
  { webhookId, status, sequence, ...page }: PagePart & CallFilter,
  slices: readonly number[] = SLICES,
): Promise<RowPage<WebhookDeliveryRow> & Partial<BoundedRowPage<WebhookDeliveryRow>>> {
  const lines = (): Knex.QueryBuilder<WebhookDeliveryRow, WebhookDeliveryRow[]> =>
    db.reader<WebhookDeliveryRow>('webhook_deliveries');
  if (status === 'delivered' && sequence === undefined)
    return readTestedPage<WebhookDeliveryRow>(
      { inOrder: () => lines().where({ webhook_id: webhookId }), tested: (query) => query.whereNull('error') },
      page,
      slices,
    );
  const query = lines();
  // The plus sign keeps SQLite from the index by endpoint, which it would read in order from its end to its beginning.
  if (sequence === undefined) query.where({ webhook_id: webhookId });
  else query.where({ sequence }).whereRaw(`${dialectOf(db.reader).unindexed('webhook_id')} = ?`, [webhookId]);
  // An attempt that failed has an error, and only those are in the index of failures.
  if (status === 'failed') query.whereNotNull('error');
  if (status === 'delivered') query.whereNull('error');
  return readPage<WebhookDeliveryRow>(query, page);
}

const lastCalls = statement(
  ({ among }) => `SELECT d.* FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
    WHERE d.sequence ${among('integer')} AND w.account_id = ? ORDER BY d.position DESC LIMIT ?`,
);

/** Returns the last calls to the endpoints of an account for these events, oldest first. */
export async function callsForEvents(
  prepared: Connection,
  accountId: string,
  sequences: readonly number[],
  most: number,
): Promise<WebhookDeliveryRow[]> {
  const rows = await prepared.all<WebhookDeliveryRow>(lastCalls, [JSON.stringify(sequences), accountId, most]);
  return rows.reverse();
}

export async function findDelivery(
  { db }: Pick<StoreDeps, 'db'>,
  webhookId: string,
  id: string,
): Promise<WebhookDeliveryRow | null> {
  return (
    (await db.reader<WebhookDeliveryRow>('webhook_deliveries').where({ webhook_id: webhookId, id }).first()) ?? null
  );
}
