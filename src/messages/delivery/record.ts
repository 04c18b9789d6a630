/**
 * The only place where a delivery changes. The units of a grouped commit are written together: one statement reads all their
 * deliveries, decide() says what each change means, and one statement per table writes it. Nothing can change between the read and the
 * write: SQLite has one writer, and on PostgreSQL the read locks its rows.
 */
import { OWN_ACCOUNT } from '../../accounts/account-store.ts';
import type { Clock } from '../../base/clock.ts';
import { newId } from '../../base/id.ts';
import { erasedDetail } from '../../events/event.ts';
import { addToStats, addTry, statTypesOf, type StatFacts } from '../../events/stats.ts';
import { addressKey, ERASED_ADDRESS } from '../../mail/address.ts';
import { decide, type Decision, capped, type DecidedAttempt } from './decide.ts';
import type { DeliveryState, DeliveryChange } from './delivery.ts';
import type { DueHint } from './due-hint.ts';
import { isFailure, noticeRows, type NoticeRule, type Failure } from './failure-notice.ts';
import { addToCounters } from '../store/books.ts';
import { removeSealedContents } from '../store/stored-content.ts';
import type { Committer, Work } from '../../storage/commit.ts';
import type { Connection } from '../../storage/connection.ts';
import { columnsFrom, jsonReader } from '../../storage/json-rows.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import { allDone, insertRows, type Rows } from '../../storage/rows.ts';
import { statement } from '../../storage/sql.ts';
import { integer, orNull, text } from '../../storage/table.ts';
import {
  type AttemptRow,
  type CounterRow,
  type EventRow,
  type StatRow,
  type SuppressionReason,
  type SuppressionRow,
  deliveries,
  type DeliveryRow,
  type MessageRow,
} from '../../storage/tables.ts';

export interface Occurrence {
  deliveryId: string;
  change: DeliveryChange;
}

/** The result of one change. `applied` is false if the change is not allowed in the present status; `state` is null for an unknown delivery. */
export interface Recorded {
  applied: boolean;
  state: DeliveryState | null;
  /** Where the notice of the failure waits, if one was written. */
  notice?: DueHint;
}

/** Changes that are made in one transaction, in order, with further rows (an audit line, for example). */
interface ChangeUnit {
  occurrences: readonly Occurrence[];
  rows?: Rows | RowsAfter;
}

/** Makes rows from the results (a stored answer, for example). Runs inside the transaction, where the changed rows can be read. */
export type RowsAfter = (tx: Connection, recorded: readonly Recorded[]) => Promise<Rows>;

export function createRecorder(deps: {
  commit: Committer;
  clock: Clock;
  /** Is called when the events are durable. */
  written: (recorded: readonly Recorded[]) => void;
  /** Is called for each complaint that changed its delivery. */
  complained?: (deliveryId: string) => void;
  /** Writes failure notices to senders who submitted by SMTP; without it none are written. */
  notices?: NoticeRule;
}) {
  const work: Work<ChangeUnit, readonly Recorded[], Map<string, PendingUpdate>> = {
    name: recordWork.name,
    read: (db, units) =>
      loadUpdates(
        db,
        units.flatMap(({ occurrences }) => occurrences),
        deps.clock.now(),
      ),
    run: (tx, units, updates) => writeGroup(tx, units, updates, deps.clock.now(), deps.notices),
  };
  return {
    /** Decides and writes all occurrences in one transaction; returns one result for each. */
    async record(occurrences: readonly Occurrence[], rows?: Rows | RowsAfter): Promise<readonly Recorded[]> {
      const unit: ChangeUnit = rows === undefined ? { occurrences } : { occurrences, rows };
      const recorded = await deps.commit.submit(work, unit, 1024 * occurrences.length);
      deps.written(recorded);
      for (const [at, { deliveryId, change }] of occurrences.entries())
        if (change.kind === 'complained' && recorded[at]?.applied === true) deps.complained?.(deliveryId);
      return recorded;
    },
  };
}

export type Recorder = ReturnType<typeof createRecorder>;

async function writeGroup(
  tx: Connection,
  units: readonly ChangeUnit[],
  updates: ReadonlyMap<string, PendingUpdate>,
  now: number,
  notices: NoticeRule | undefined,
): Promise<(readonly Recorded[])[]> {
  const toWrite = newRowsToWrite();
  /** Opens and clicks that this group has already counted, by message: another recipient's hit in the same group adds to them. */
  const seen = new Map<string, Pick<DeliveryState, 'opens' | 'clicks'>>();
  const results = units.map((unit) =>
    unit.occurrences.map(({ deliveryId, change }): Recorded => {
      const one = updates.get(deliveryId);
      if (one === undefined) return { applied: false, state: null };
      const messageId = one.row.message_id;
      const state = 'hit' in change ? { ...one.state, ...seen.get(messageId) } : one.state;
      const decision = decide(state, withSuppression(change, one.row), now);
      if ('hit' in change) seen.set(messageId, { opens: decision.state.opens, clicks: decision.state.clicks });
      applyDecision(one, decision, change, now, toWrite);
      const hasNotice = notices !== undefined && addFailure(one.row, decision, toWrite);
      const notice = hasNotice ? { notice: noticeHint(one.row.notice_to ?? '', now) } : {};
      return { applied: decision.applied, state: decision.state, ...notice };
    }),
  );

  const changed = [...updates.values()].filter((one) => one.changed);
  const noticeMails =
    notices === undefined || toWrite.failures.length === 0 ? [] : await noticeRows(tx, notices, toWrite.failures, now);
  const writes = insertRows(tx, [
    ...noticeMails,
    {
      attempts: toWrite.attempts,
      events: toWrite.events,
      suppressions: toWrite.suppressions,
      counters: [...toWrite.counters.values()],
      event_counts: [...toWrite.stats.values()],
    },
    ...units.flatMap(({ rows }) => (rows === undefined || typeof rows === 'function' ? [] : [rows])),
  ]);
  await allDone([updateDeliveries(tx, changed), updateMessages(tx, changed), writes]);
  const ownEnded = changed.flatMap(({ row, state }) =>
    row.account_id === OWN_ACCOUNT && state.dueAt === null ? row.message_id : [],
  );
  if (ownEnded.length > 0) await removeSealedContents(tx, ownEnded);
  for (const [at, { rows }] of units.entries())
    if (typeof rows === 'function') await insertRows(tx, [await rows(tx, results[at] ?? [])]);
  return results;
}

/** Adds the failure if its sender gets a notice; returns whether it does. Simulated mail never does: nothing of it may leave. */
function addFailure(row: LoadedDelivery, { steps, state, events }: Decision, toWrite: RowsToWrite): boolean {
  const [event] = events;
  if (row.notice_to === null || row.test === 1 || steps.length === 0 || event === undefined || !isFailure(state.status))
    return false;
  toWrite.failures.push({ messageId: row.message_id, address: row.address, event });
  return true;
}

const noticeHint = (address: string, now: number): DueHint => ({
  domain: address.slice(address.lastIndexOf('@') + 1).toLowerCase(),
  class: 0,
  accountId: OWN_ACCOUNT,
  dueAt: now,
});

/** Adds the suppression of the recipient, if there is one, to a claim. */
function withSuppression(change: DeliveryChange, row: LoadedDelivery): DeliveryChange {
  const { suppression_id: id, suppression_reason: reason } = row;
  return change.kind !== 'claimed' || id === null || reason === null
    ? change
    : { ...change, suppressedBy: { id, reason } };
}

const newRowsToWrite = () => ({
  attempts: [] as AttemptRow[],
  events: [] as EventRow[],
  suppressions: [] as SuppressionRow[],
  counters: new Map<string, CounterRow>(),
  stats: new Map<string, StatRow>(),
  failures: [] as Failure[],
});
export type RowsToWrite = ReturnType<typeof newRowsToWrite>;

/** Puts a decision into the delivery (`one`) and adds all other rows to `toWrite`. */
export function applyDecision(
  one: PendingUpdate,
  decision: Decision,
  change: DeliveryChange,
  now: number,
  toWrite: RowsToWrite,
): void {
  const { row } = one;
  one.state = row.erased === 1 ? withoutReply(decision.state) : decision.state;
  if (decision.applied) one.changed = true;
  if (decision.applied && change.kind === 'rescheduled') one.sendAt = change.sendAt;
  if (decision.attempt !== null) {
    toWrite.attempts.push(attemptRow(one, decision.attempt, change, now));
    one.tls = decision.attempt.facts.tls?.protocol ?? null;
    if (decision.attempt.facts.source !== null) addTry(toWrite.stats, statFacts(one, decision.attempt.facts.source));
  }
  const source = decision.attempt?.facts.source ?? (isReport(change) ? row.source : null);
  for (const [from, to] of decision.steps) {
    one.statusAt = now;
    addToCounters(toWrite.counters, row.account_id, now, from, to);
    // A recipient counts as delivered or as bounced, so that both shares together are at most one.
    if (from === 'delivered' && to === 'bounced') addToStats(toWrite.stats, statFacts(one, source), ['delivered'], -1);
  }
  // Opens and clicks are recorded a little after they happened (tracking/hit.ts).
  const at = 'hit' in change ? change.hit.at : now;
  for (const event of decision.events) {
    // Opens and clicks by machines do not become the message's last event.
    if (event.machine !== true) one.lastEvent = { type: event.type, at };
    countHit(one, event.type, event.machine ?? false, at);
    // A recipient is put off once, however many attempts fail.
    if (event.type !== 'deferred' || decision.steps.length > 0)
      addToStats(toWrite.stats, statFacts(one, source), statTypesOf(event.type, event.detail, event.machine ?? false));
    toWrite.events.push({
      id: newId('evt', now),
      account_id: row.account_id,
      type: event.type,
      at,
      test: row.test,
      message_id: row.message_id,
      delivery_id: row.id,
      status: decision.state.status,
      machine: event.machine === true ? 1 : 0,
      detail_json: JSON.stringify(row.erased === 1 ? erasedDetail(event.type, event.detail) : event.detail),
    });
  }
  if (decision.suppress !== null) {
    const email = change.kind === 'unsubscribed' ? (change.email ?? row.address) : row.address;
    const entry = suppressionRow(row, email, decision.suppress, now);
    // Of entries for one address in one commit the first is written, and a complaint wins (storage/tables/suppressions.ts).
    if (entry.reason === 'complaint') toWrite.suppressions.unshift(entry);
    else toWrite.suppressions.push(entry);
  }
}

const withoutReply = (state: DeliveryState): DeliveryState => ({
  ...state,
  lastReply: { ...state.lastReply, smtpReply: null },
});

/** Whatever happens to a mail counts in the hour that it was first due: shares of a time are of the mail of that time. */
const statFacts = ({ row, state }: PendingUpdate, source: string | null): StatFacts => ({
  accountId: row.account_id,
  at: state.queuedAt,
  test: row.test === 1,
  stream: row.stream,
  domain: row.from_domain,
  recipient: row.address,
  tags: row.tags_json === '[]' ? [] : (JSON.parse(row.tags_json) as string[]),
  template: row.template_id,
  key: row.key_id,
  source,
});

function countHit(one: PendingUpdate, type: string, machine: boolean, now: number): void {
  if (type !== 'opened' && type !== 'clicked') return;
  if (machine) one.bots[type === 'opened' ? 'opens' : 'clicks']++;
  else {
    one[type]++;
    one.hitAt[type] = now;
  }
}

function attemptRow(
  { row, state }: PendingUpdate,
  { facts, outcome, verdict, nextAttemptAt }: DecidedAttempt,
  change: DeliveryChange,
  now: number,
): AttemptRow {
  return {
    id: newId('att', now),
    delivery_id: row.id,
    message_id: row.message_id,
    number: change.kind === 'outcome' ? change.attempt : state.attemptCount,
    started_at: facts.startedAt,
    ended_at: facts.endedAt,
    mx: facts.mx,
    ip: facts.ip,
    source: facts.source,
    tls_json: facts.tls === null ? null : JSON.stringify(facts.tls),
    timings_json: JSON.stringify(facts.timings),
    outcome,
    smtp_code: facts.smtpCode,
    enhanced_code: facts.enhancedCode,
    smtp_reply: row.erased === 1 ? null : capped(facts.smtpReply),
    class: verdict?.class ?? null,
    reason: verdict?.reason ?? null,
    next_attempt_at: nextAttemptAt,
  };
}

const suppressionRow = (
  row: LoadedDelivery,
  email: string,
  reason: SuppressionReason,
  now: number,
): SuppressionRow => ({
  id: newId('sup', now),
  account_id: row.account_id,
  email,
  address_key: addressKey(email),
  // An unsubscription is about one stream; a bounce or a complaint is about the address.
  scope: reason === 'unsubscribe' ? `stream:${row.stream}` : 'account',
  reason,
  // It would say who an erased recipient was.
  source_message_id: row.erased === 1 ? null : row.message_id,
  note: null,
  created_at: now,
  created_by: reason === 'unsubscribe' ? 'recipient' : 'posthorn',
  expires_at: null,
});

const CHANGED_COLUMNS = [
  'status',
  'status_at',
  'due_at',
  'queued_at',
  'give_up_at',
  'attempt_count',
  'claim_epoch',
  'no_domain_count',
  'no_domain_since',
  'smtp_code',
  'enhanced_code',
  'smtp_reply',
  'mx',
  'tls',
  'held_by',
  'held_at',
] as const satisfies readonly (keyof DeliveryRow)[];
const DELIVERY_COLUMNS = [
  'id',
  'message_id',
  'account_id',
  'address',
  'address_key',
  'lead',
  'test',
  ...CHANGED_COLUMNS,
] as const satisfies readonly (keyof DeliveryRow)[];
const MESSAGE_COLUMNS = [
  'opens',
  'clicks',
  'stream',
  'from_domain',
  'template_id',
  'key_id',
  'tags_json',
  'expires_at',
  'notice_to',
] as const satisfies readonly (keyof MessageRow)[];

/** A delivery with columns of its message. */
export type LoadedDelivery = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]> &
  Pick<MessageRow, (typeof MESSAGE_COLUMNS)[number]> & {
    /** The entry of the suppression list that the address is on, or null; read only for claims. */
    suppression_id: string | null;
    suppression_reason: SuppressionReason | null;
    /** When an attempt found the mailbox full for the first time; read only if another has found it so. */
    full_since: number | null;
    /** The source of its last attempt; read only for reports, which count against it. */
    source: string | null;
    erased: number;
    /** 1 if another unsubscription would change nothing; read only for these. */
    unsubscribed: number;
  };

/** One delivery of the group while its changes are applied one by one. */
export interface PendingUpdate {
  row: LoadedDelivery;
  state: DeliveryState;
  statusAt: number;
  tls: string | null;
  changed: boolean;
  lastEvent: { type: string; at: number } | null;
  opened: number;
  clicked: number;
  bots: { opens: number; clicks: number };
  hitAt: { opened: number | null; clicked: number | null };
  sendAt: number | null;
}

/**
 * Reads a column of the entry of the suppression list. Claims check the list again: an address may have been added since its mail was
 * accepted. An address has one entry a scope, so every column is read from the same one.
 */
const suppressionColumn = (name: 'id' | 'reason'): string =>
  `CASE WHEN ? = 1 AND d.test = 0 THEN (
     SELECT s.${name} FROM suppressions s
     WHERE s.account_id = d.account_id AND s.address_key = d.address_key
       AND s.scope IN ('account', 'stream:' || m.stream) AND (s.expires_at IS NULL OR s.expires_at > ?)
     ORDER BY s.scope LIMIT 1) END`;

const readDeliveries = jsonReader<LoadedDelivery>(
  {
    ...columnsFrom('d', DELIVERY_COLUMNS),
    ...columnsFrom('m', MESSAGE_COLUMNS),
    suppression_id: suppressionColumn('id'),
    suppression_reason: suppressionColumn('reason'),
    full_since: `CASE WHEN ? = 1 THEN (
       SELECT MIN(a.ended_at) FROM attempts a
       WHERE a.message_id = d.message_id AND a.delivery_id = d.id AND a.reason = 'mailbox_full') END`,
    source: `CASE WHEN ? = 1 THEN (
       SELECT a.source FROM attempts a WHERE a.message_id = d.message_id AND a.delivery_id = d.id ORDER BY a.id DESC LIMIT 1) END`,
    erased: `CASE WHEN d.address_key = '${ERASED_ADDRESS}' THEN 1 ELSE 0 END`,
    unsubscribed: `CASE WHEN ? = 1
       AND EXISTS (SELECT 1 FROM events e WHERE e.message_id = d.message_id AND e.delivery_id = d.id AND e.type = 'unsubscribed')
       AND (d.test = 1 OR d.address_key = '${ERASED_ADDRESS}' OR EXISTS (
         SELECT 1 FROM suppressions u WHERE u.account_id = d.account_id AND u.address_key = d.address_key
           AND u.scope = 'stream:' || m.stream AND u.expires_at IS NULL))
       THEN 1 ELSE 0 END`,
  },
  ({ listed, locked }) =>
    `FROM ${listed('wanted', 'text')} JOIN deliveries d ON d.id = wanted.value JOIN messages m ON m.id = d.message_id
     ${locked('m.id, d.id', 'm, d')}`,
);

async function loadUpdates(
  db: Connection,
  changes: readonly { deliveryId: string; change: DeliveryChange }[],
  now: number,
): Promise<Map<string, PendingUpdate>> {
  const ids = [...new Set(changes.map(({ deliveryId }) => deliveryId))];
  const has = (is: (change: DeliveryChange) => boolean): number => (changes.some(({ change }) => is(change)) ? 1 : 0);
  const claims = has(({ kind }) => kind === 'claimed');
  const endsMail = has(({ kind }) => kind === 'unsubscribed');
  const asked = [claims, now, claims, now, has(findsFull), has(isReport), endsMail];
  const rows = await readDeliveries(db, [...asked, JSON.stringify(ids)]);
  return new Map(rows.map((row) => [row.id, beginUpdate(row)]));
}

export const beginUpdate = (row: LoadedDelivery): PendingUpdate => ({
  row,
  state: stateOf(row),
  statusAt: row.status_at,
  tls: row.tls,
  changed: false,
  lastEvent: null,
  opened: 0,
  clicked: 0,
  bots: { opens: 0, clicks: 0 },
  hitAt: { opened: null, clicked: null },
  sendAt: null,
});

const stateOf = (row: LoadedDelivery): DeliveryState => ({
  status: row.status,
  dueAt: row.due_at,
  queuedAt: row.queued_at,
  giveUpAt: row.give_up_at,
  attemptCount: row.attempt_count,
  claimEpoch: row.claim_epoch,
  noDomainCount: row.no_domain_count,
  noDomainSince: row.no_domain_since,
  fullSince: row.full_since,
  test: row.test === 1,
  lastReply: { smtpCode: row.smtp_code, enhancedCode: row.enhanced_code, smtpReply: row.smtp_reply, mx: row.mx },
  opens: row.opens,
  clicks: row.clicks,
  stream: row.stream,
  deliveredAt: row.status === 'delivered' ? row.status_at : null,
  expiresAt: row.expires_at,
  heldBy: row.held_by,
  heldAt: row.held_at,
  erased: row.erased === 1,
  unsubscribed: row.unsubscribed === 1,
});

/** Bounces and complaints come back long after the attempt, and count against the source that the mail left from. */
export const isReport = ({ kind }: DeliveryChange): boolean => kind === 'bounced' || kind === 'complained';

const findsFull = (change: DeliveryChange): boolean =>
  change.kind === 'outcome' && change.outcome.kind === 'deferred' && change.outcome.verdict.reason === 'mailbox_full';

function changedColumns({ state, statusAt, tls }: PendingUpdate): Pick<DeliveryRow, (typeof CHANGED_COLUMNS)[number]> {
  const { smtpCode, enhancedCode, smtpReply, mx } = state.lastReply;
  return {
    status: state.status,
    status_at: statusAt,
    due_at: state.dueAt,
    queued_at: state.queuedAt,
    give_up_at: state.giveUpAt,
    attempt_count: state.attemptCount,
    claim_epoch: state.claimEpoch,
    no_domain_count: state.noDomainCount,
    no_domain_since: state.noDomainSince,
    smtp_code: smtpCode,
    enhanced_code: enhancedCode,
    smtp_reply: capped(smtpReply),
    mx,
    tls,
    held_by: state.heldBy,
    held_at: state.heldAt,
  };
}

async function updateDeliveries(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
  if (changed.length === 0) return;
  const rows = changed.map((one) => ({ id: one.row.id, ...changedColumns(one) }));
  await tx.run(writeDeliveries, [changedDeliveries.json(rows)]);
}

const changedDeliveries = rowsParameter(deliveries.columns, ['id', ...CHANGED_COLUMNS]);
const writeDeliveries = statement(
  (sql) => `UPDATE deliveries SET ${CHANGED_COLUMNS.map((name) => `${name} = j.${name}`).join(', ')}
     FROM ${changedDeliveries.table(sql, 'j')} WHERE deliveries.id = j.id`,
);

/** Gives each message the status of its `to` recipient and the last event of any recipient, and adds to its opens and clicks. */
async function updateMessages(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
  const rows = changed.flatMap((one) => {
    const own = one.row.lead === 1 && one.state.status !== one.row.status;
    const seen = one.opened + one.clicked + one.bots.opens + one.bots.clicks;
    if (!own && one.lastEvent === null && one.sendAt === null && seen === 0) return [];
    const { opened, clicked, bots, hitAt } = one;
    return [
      {
        id: one.row.message_id,
        status: own ? one.state.status : null,
        status_at: one.statusAt,
        event: one.lastEvent?.type ?? null,
        event_at: one.lastEvent?.at ?? null,
        opened,
        clicked,
        bot_opens: bots.opens,
        bot_clicks: bots.clicks,
        opened_at: hitAt.opened,
        clicked_at: hitAt.clicked,
        send_at: one.sendAt,
      },
    ];
  });
  // One statement updates a row only once, so recipients of the same message go into statements of their own.
  for (const layer of layersBy(rows, ({ id }) => id)) await tx.run(writeMessages, [changedMessages.json(layer)]);
}

const changedMessages = rowsParameter({
  id: text(),
  status: orNull(text()),
  status_at: integer(),
  event: orNull(text()),
  event_at: orNull(integer()),
  opened: integer(),
  clicked: integer(),
  bot_opens: integer(),
  bot_clicks: integer(),
  opened_at: orNull(integer()),
  clicked_at: orNull(integer()),
  send_at: orNull(integer()),
});
const writeMessages = statement(
  (sql) => `UPDATE messages SET status = COALESCE(j.status, messages.status),
     status_at = CASE WHEN j.status IS NULL THEN messages.status_at ELSE j.status_at END,
     last_event_type = COALESCE(j.event, last_event_type), last_event_at = COALESCE(j.event_at, last_event_at),
     opens = opens + j.opened, clicks = clicks + j.clicked, bot_opens = messages.bot_opens + j.bot_opens,
     bot_clicks = messages.bot_clicks + j.bot_clicks,
     first_opened_at = COALESCE(first_opened_at, j.opened_at), last_opened_at = COALESCE(j.opened_at, last_opened_at),
     first_clicked_at = COALESCE(first_clicked_at, j.clicked_at), send_at = COALESCE(j.send_at, messages.send_at)
   FROM ${changedMessages.table(sql, 'j')} WHERE messages.id = j.id`,
);

/** Splits rows into lists in which no key occurs twice. */
function layersBy<T>(rows: readonly T[], keyOf: (row: T) => string): T[][] {
  const layers: T[][] = [];
  const depth = new Map<string, number>();
  for (const row of rows) {
    const at = depth.get(keyOf(row)) ?? 0;
    depth.set(keyOf(row), at + 1);
    (layers[at] ??= []).push(row);
  }
  return layers;
}

/** The work of `createRecorder`, for the database. */
export const recordWork = { name: 'record change', writes: [writeDeliveries, writeMessages] } as const;
