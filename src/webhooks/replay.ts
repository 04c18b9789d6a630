/** Replays events of a time to an endpoint. Each small step queues calls and moves the replay on in one transaction, so a restart goes on there. */
import { idFloor, newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { eventsNumbered, followEvents, type LoggedEvent } from '../events/event-log.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import { readPage, type PagePart, type RowPage } from '../storage/page.ts';
import { recordOf } from '../storage/record.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import { webhookReplays, type WebhookReplayRow } from '../storage/tables.ts';
import { queueCalls } from './call-store.ts';
import { wants, type Endpoint } from './endpoint.ts';

export interface ReplayRequest {
  webhookId: string;
  accountId: string;
  /** Events from this time on and before that one, milliseconds since the epoch. */
  since: number;
  until: number;
  /** `failed`: what was not delivered so far, whether it is still being tried or was given up. */
  which: WebhookReplayRow['which'];
  /** Empty means all types that the endpoint gets. */
  types: readonly string[];
}

/** An event's id is made when the event is written, which may be a little after its own time. */
const LEEWAY_MS = 60_000;
/** Events looked at in one step. */
const STEP = 200;
/** Reads of one step that find nothing. */
const MOST_READS = 25;
/** Replays of one endpoint that are not finished. They run one after the other, and each may read the whole log. */
const MOST_RUNNING = 10;

/** Begins a replay of what is in the log now. Throws `invalid_state` if the endpoint has too many that are not finished. */
export async function createReplay(
  { db, clock }: StoreDeps,
  request: ReplayRequest,
  alsoCommit: (row: WebhookReplayRow) => Rows,
): Promise<WebhookReplayRow> {
  const now = clock.now();
  const { webhookId, accountId, since, until, which, types } = request;
  return db.commit.transact(async (tx) => {
    await refuseTooMany(tx, webhookId);
    const [newest] = await tx.all<{ last: number | null }>('SELECT MAX(sequence) AS last FROM events');
    const last = newest?.last ?? 0;
    const row: WebhookReplayRow = {
      id: newId('whr', now),
      webhook_id: webhookId,
      account_id: accountId,
      since,
      until,
      which,
      types_json: JSON.stringify(types),
      status: 'running',
      position: ((await firstFrom(tx, since - LEEWAY_MS)) ?? last + 1) - 1,
      end_position: (await firstFrom(tx, until + LEEWAY_MS)) ?? last,
      queued: 0,
      created_at: now,
      finished_at: null,
    };
    await insertRows(tx, [{ webhook_replays: [row] }, alsoCommit(row)]);
    return row;
  });
}

async function refuseTooMany(tx: Connection, webhookId: string): Promise<void> {
  // The oldest goes first, so if the tenth newest is not finished, no newer one is.
  const [tenth] = await tx.all<{ status: string }>(
    'SELECT status FROM webhook_replays WHERE webhook_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?',
    [webhookId, MOST_RUNNING - 1],
  );
  if (tenth?.status !== 'running') return;
  const message = `${String(MOST_RUNNING)} replays of this endpoint are not finished. Wait until one is.`;
  throw new Problem('invalid_state', message);
}

/** Returns the number of the first event that was written at this time or later, by its id. */
async function firstFrom(tx: Connection, ms: number): Promise<number | undefined> {
  const [row] = await tx.all<{ sequence: number }>('SELECT sequence FROM events WHERE id >= ? ORDER BY id LIMIT 1', [
    idFloor('evt', ms),
  ]);
  return row?.sequence;
}

/** Takes the endpoint's oldest replay a step further. False if none is running. */
export async function stepReplay({ db, clock }: StoreDeps, endpoint: Endpoint): Promise<boolean> {
  const [replay] = await db.prepared.all<WebhookReplayRow>(
    `SELECT * FROM webhook_replays WHERE webhook_id = ? AND status = 'running' ORDER BY id LIMIT 1`,
    [endpoint.id],
  );
  if (replay === undefined) return false;
  const { events, position } = await candidatesOf(db.prepared, replay);
  const types = JSON.parse(replay.types_json) as string[];
  const sequences = events
    .filter((event) => event.at >= replay.since && event.at < replay.until && event.sequence <= replay.end_position)
    .filter((event) => wants(endpoint, event) && (types.length === 0 || types.includes(event.type)))
    .map(({ sequence }) => sequence);
  const isDone = position >= replay.end_position;
  const now = clock.now();
  await db.commit.transact(async (tx) => {
    // The condition keeps a replay of an endpoint that was removed meanwhile from leaving calls behind.
    const still = await tx.all(
      'UPDATE webhook_replays SET position = ?, queued = queued + ?, status = ?, finished_at = ? WHERE id = ? AND position = ? RETURNING id',
      [position, sequences.length, isDone ? 'done' : 'running', isDone ? now : null, replay.id, replay.position],
    );
    if (still.length > 0) await queueCalls(tx, { webhookId: endpoint.id, sequences, cause: 'replay', now });
  });
  return true;
}

interface Candidates {
  events: LoggedEvent[];
  position: number;
}

function candidatesOf(prepared: Connection, replay: WebhookReplayRow): Promise<Candidates> {
  return replay.which === 'all' ? loggedAfter(prepared, replay) : owedAfter(prepared, replay);
}

/** Reads events. A step without any would be a commit for nothing, so it reads on, up to a limit. */
async function loggedAfter(
  prepared: Connection,
  { account_id: accountId, position, end_position: end }: WebhookReplayRow,
): Promise<Candidates> {
  let page = await followEvents(prepared, [accountId], position, STEP);
  for (let reads = 1; reads < MOST_READS && page.events.length === 0 && page.hasMore && page.position < end; reads++)
    page = await followEvents(prepared, [accountId], page.position, STEP);
  return { events: page.events, position: page.hasMore ? page.position : Number.MAX_SAFE_INTEGER };
}

async function owedAfter(
  prepared: Connection,
  { webhook_id: webhookId, position }: WebhookReplayRow,
): Promise<Candidates> {
  const owed = await prepared.all<{ sequence: number }>(
    'SELECT sequence FROM webhook_calls WHERE webhook_id = ? AND sequence > ? ORDER BY sequence LIMIT ?',
    [webhookId, position, STEP],
  );
  const sequences = owed.map(({ sequence }) => sequence);
  const last = sequences.at(-1);
  const events = await eventsNumbered(prepared, sequences);
  return { events, position: last === undefined || owed.length < STEP ? Number.MAX_SAFE_INTEGER : last };
}

/** Returns one page of an endpoint's replays, newest first. */
export async function pageOfReplays(
  { db }: Pick<StoreDeps, 'db'>,
  { webhookId, ...page }: PagePart & { webhookId: string },
): Promise<RowPage<WebhookReplayRow>> {
  return readPage<WebhookReplayRow>(db.reader('webhook_replays').where({ webhook_id: webhookId }), page);
}

export const replayMembers = recordOf('webhook_replay', webhookReplays);
export const replayRecord = (row: WebhookReplayRow) => replayMembers(row, { only: row.which });
