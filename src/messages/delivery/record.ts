/**
 * The one place where a delivery changes. `happen` units are written together inside a grouped commit: one statement reads
 * all deliveries of the group, decide() says what each change means, one statement a table writes it. As there is one
 * writer, nothing can change between the reading and the writing.
 */
import type { Connection } from '../../storage/connection.ts';
import type { Committer, Work } from '../../storage/commit.ts';
import { columnsFrom, jsonReader } from '../../storage/json-rows.ts';
import { allDone, insertRows, type Rows } from '../../storage/rows.ts';
import type {
  AttemptRow,
  CounterRow,
  DeliveryRow,
  EventRow,
  MessageRow,
  StatRow,
  SuppressionReason,
  SuppressionRow,
} from '../../storage/tables.ts';
import type { Clock } from '../../base/clock.ts';
import { newId } from '../../base/id.ts';
import { addToStats, addTry, statTypesOf, type StatFacts } from '../../events/stats.ts';
import { decide, type Decision } from './decide.ts';
import type { DeliveryState, DeliveryChange } from './delivery.ts';
import { isFailure, noticeRows, type Failure, type NoticeRule } from './failure-notice.ts';
import { dayOf } from '../../base/time.ts';

/** What happened to which delivery. */
export interface Occurrence {
  deliveryId: string;
  change: DeliveryChange;
}

/** What became of it. `applied` is false where there was no arrow, and `state` is null where there is no such delivery. */
export interface Recorded {
  applied: boolean;
  state: DeliveryState | null;
  /** The class of the bounce that it meant, where it meant one. */
  bounced?: string;
  /** Set where a notice of its failure was written: the domain that it goes to. */
  noticeTo?: string;
}

/** Changes that belong together, in order, with rows (an audit line, say) to be written in the same transaction. */
interface HappenUnit {
  occurrences: readonly Occurrence[];
  rows?: Rows | RowsAfter;
}

/** Rows that say what has become of it (an answer, say): made inside the transaction, where the changed rows can be read. */
export type RowsAfter = (tx: Connection, recorded: readonly Recorded[]) => Promise<Rows>;

export interface Recorder {
  /** Decides and writes all of it in one transaction; one answer for each occurrence. */
  record(occurrences: readonly Occurrence[], rows?: Rows | RowsAfter): Promise<readonly Recorded[]>;
}

export const RECORD_CHANGE = 'happen';

/** `written` is told of events once they are durable. */
export function createRecorder(deps: {
  commit: Committer;
  clock: Clock;
  written: (recorded: readonly Recorded[]) => void;
  /** Hears of each complaint that counted. */
  complained?: (deliveryId: string) => void;
  /** How senders by SMTP are told of failures; without it they are not. */
  notices?: NoticeRule;
}): Recorder {
  const work: Work<HappenUnit, readonly Recorded[], Map<string, PendingUpdate>> = {
    name: RECORD_CHANGE,
    read: (db, units) => load(db, units, deps.clock.now()),
    run: (tx, units, folding) => writeGroup(tx, units, folding, deps.clock.now(), deps.notices),
  };
  return {
    async record(occurrences, rows) {
      const unit: HappenUnit = rows === undefined ? { occurrences } : { occurrences, rows };
      const recorded = await deps.commit.submit(work, unit, 1024 * occurrences.length);
      deps.written(recorded);
      for (const [at, { deliveryId, change }] of occurrences.entries())
        if (change.kind === 'complained' && recorded[at]?.applied === true) deps.complained?.(deliveryId);
      return recorded;
    },
  };
}

const DELIVERY_COLUMNS = [
  'id',
  'message_id',
  'account_id',
  'address',
  'address_key',
  'lead',
  'test',
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
const MESSAGE_COLUMNS = [
  'opens',
  'clicks',
  'stream',
  'from_domain',
  'template_id',
  'tags_json',
  'expires_at',
  'notice_to',
] as const satisfies readonly (keyof MessageRow)[];

/** A delivery with what else is needed of it; `suppressed` is `<id> <reason>` where the address is on the list. */
export type Loaded = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]> &
  Pick<MessageRow, (typeof MESSAGE_COLUMNS)[number]> & {
    suppressed: string | null;
    /** The source of its last attempt, where what happens needs it. */
    source: string | null;
  };

/** One delivery of the group while its changes are folded. */
export interface PendingUpdate {
  row: Loaded;
  state: DeliveryState;
  statusAt: number;
  tls: string | null;
  changed: boolean;
  lastEvent: { type: string; at: number } | null;
  opened: number;
  clicked: number;
  bots: { opens: number; clicks: number };
  hitAt: { opened: number | null; clicked: number | null };
  /** The new time of sending, where it was moved. */
  sendAt: number | null;
}

export interface RowsToWrite {
  attempts: AttemptRow[];
  events: EventRow[];
  suppressions: SuppressionRow[];
  counters: Map<string, CounterRow>;
  stats: Map<string, StatRow>;
  /** Of mail whose sender is to be told. */
  failures: Failure[];
}

async function writeGroup(
  tx: Connection,
  units: readonly HappenUnit[],
  folding: ReadonlyMap<string, PendingUpdate>,
  now: number,
  notices: NoticeRule | undefined,
): Promise<(readonly Recorded[])[]> {
  const gathered: RowsToWrite = {
    attempts: [],
    events: [],
    suppressions: [],
    counters: new Map(),
    stats: new Map(),
    failures: [],
  };

  const results = units.map((unit) =>
    unit.occurrences.map(({ deliveryId, change }): Recorded => {
      const one = folding.get(deliveryId);
      if (one === undefined) return { applied: false, state: null };
      const decision = decide(one.state, withSuppression(change, one.row), now);
      applyDecision(one, decision, change, now, gathered);
      const bounce = decision.events.find(({ type }) => type === 'bounced');
      const bounced = bounce === undefined ? {} : { bounced: String(bounce.detail['class']) };
      const isTold = notices !== undefined && noteFailure(one.row, decision, gathered);
      const noticeTo = isTold ? { noticeTo: domainOf(one.row.notice_to ?? '') } : {};
      return { applied: decision.applied, state: decision.state, ...bounced, ...noticeTo };
    }),
  );

  const changed = [...folding.values()].filter((one) => one.changed);
  const told =
    notices === undefined || gathered.failures.length === 0
      ? []
      : await noticeRows(tx, notices, gathered.failures, now);
  const writes = insertRows(tx, [
    ...told,
    {
      attempts: gathered.attempts,
      events: gathered.events,
      suppressions: gathered.suppressions,
      counters: [...gathered.counters.values()],
      event_counts: [...gathered.stats.values()],
    },
    ...units.flatMap(({ rows }) => (rows === undefined || typeof rows === 'function' ? [] : [rows])),
  ]);
  await allDone([updateDeliveries(tx, changed), updateMessages(tx, changed), writes]);
  for (const [at, { rows }] of units.entries())
    if (typeof rows === 'function') await insertRows(tx, [await rows(tx, results[at] ?? [])]);
  return results;
}

/** Whether this is an end that the sender is told of. Simulated mail tells nobody: nothing of it may leave. */
function noteFailure(row: Loaded, { steps, state, events }: Decision, gathered: RowsToWrite): boolean {
  const [event] = events;
  if (row.notice_to === null || row.test === 1 || steps.length === 0 || event === undefined || !isFailure(state.status))
    return false;
  gathered.failures.push({ messageId: row.message_id, address: row.address, event });
  return true;
}

const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1).toLowerCase();

/** Claims look at the suppression list once more: an address may have been added since its mail was accepted. */
const readLoaded = jsonReader<Loaded>(
  {
    ...columnsFrom('d', DELIVERY_COLUMNS),
    ...columnsFrom('m', MESSAGE_COLUMNS),
    suppressed: `(
       SELECT s.id || ' ' || s.reason FROM suppressions s
       WHERE d.test = 0 AND s.account_id = d.account_id AND s.address_key = d.address_key
         AND s.scope IN ('account', 'stream:' || m.stream) AND (s.expires_at IS NULL OR s.expires_at > ?)
       ORDER BY s.scope LIMIT 1)`,
    source: `CASE WHEN ? = 1 THEN (
       SELECT a.source FROM attempts a WHERE a.message_id = d.message_id AND a.delivery_id = d.id ORDER BY a.id DESC LIMIT 1) END`,
  },
  'FROM json_each(?) AS wanted JOIN deliveries d ON d.id = wanted.value JOIN messages m ON m.id = d.message_id',
);

async function load(db: Connection, units: readonly HappenUnit[], now: number): Promise<Map<string, PendingUpdate>> {
  const ids = [...new Set(units.flatMap(({ occurrences }) => occurrences.map(({ deliveryId }) => deliveryId)))];
  const isWanted = units.some(({ occurrences }) => occurrences.some(({ change }) => comesBack(change)));
  const rows = await readLoaded(db, [now, isWanted ? 1 : 0, JSON.stringify(ids)]);
  return new Map(rows.map((row) => [row.id, beginUpdate(row)]));
}

/** A delivery as it stands, before anything happens to it. */
export const beginUpdate = (row: Loaded): PendingUpdate => ({
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

const stateOf = (row: Loaded): DeliveryState => ({
  status: row.status,
  dueAt: row.due_at,
  queuedAt: row.queued_at,
  giveUpAt: row.give_up_at,
  attemptCount: row.attempt_count,
  claimEpoch: row.claim_epoch,
  noDomainCount: row.no_domain_count,
  noDomainSince: row.no_domain_since,
  test: row.test === 1,
  lastReply: { smtpCode: row.smtp_code, enhancedCode: row.enhanced_code, smtpReply: row.smtp_reply, mx: row.mx },
  opens: row.opens,
  clicks: row.clicks,
  stream: row.stream,
  deliveredAt: row.status === 'delivered' ? row.status_at : null,
  expiresAt: row.expires_at,
  heldBy: row.held_by,
  heldAt: row.held_at,
});

/** A claim with what the suppression list says of its recipient. */
function withSuppression(change: DeliveryChange, { suppressed }: Loaded): DeliveryChange {
  if (change.kind !== 'claimed' || suppressed === null) return change;
  const [id = '', reason = ''] = suppressed.split(' ');
  return { ...change, suppressedBy: { id, reason: reason as SuppressionReason } };
}

/** What a decision means for the rows: the delivery's own in `one`, all others in `gathered`. */
export function applyDecision(
  one: PendingUpdate,
  decision: Decision,
  change: DeliveryChange,
  now: number,
  gathered: RowsToWrite,
): void {
  const { row } = one;
  one.state = decision.state;
  if (decision.applied) one.changed = true;
  if (decision.applied && change.kind === 'rescheduled') one.sendAt = change.sendAt;
  for (const [from, to] of decision.steps) {
    one.statusAt = now;
    count(gathered.counters, row.account_id, now, from, to);
  }
  if (decision.attempt !== null) {
    gathered.attempts.push(attemptRow(one, decision, change, now));
    one.tls = decision.attempt.facts.tls?.protocol ?? null;
    if (decision.attempt.facts.source !== null)
      addTry(gathered.stats, statFacts(row, now, decision.attempt.facts.source));
  }
  const source = decision.attempt?.facts.source ?? (comesBack(change) ? row.source : null);
  // A hit may be told a little after it was seen (tracking/hit.ts).
  const at = 'hit' in change ? change.hit.at : now;
  for (const event of decision.events) {
    // What a machine did is no news of the message.
    if (event.machine !== true) one.lastEvent = { type: event.type, at };
    countHit(one, event.type, event.machine ?? false, at);
    addToStats(
      gathered.stats,
      statFacts(row, at, source),
      statTypesOf(event.type, event.detail, event.machine ?? false),
    );
    gathered.events.push({
      id: newId('evt', now),
      account_id: row.account_id,
      type: event.type,
      at,
      test: row.test,
      message_id: row.message_id,
      delivery_id: row.id,
      status: decision.state.status,
      machine: event.machine === true ? 1 : 0,
      detail_json: JSON.stringify(event.detail),
    });
  }
  if (decision.suppress !== null) gathered.suppressions.push(suppressionRow(row, decision.suppress, now));
}

/** What counts against the source that the mail left from, long after that. */
const comesBack = ({ kind }: DeliveryChange): boolean => kind === 'bounced' || kind === 'complained';

const statFacts = (row: Loaded, now: number, source: string | null): StatFacts => ({
  accountId: row.account_id,
  at: now,
  test: row.test === 1,
  stream: row.stream,
  domain: row.from_domain,
  recipient: row.address,
  tags: row.tags_json === '[]' ? [] : (JSON.parse(row.tags_json) as string[]),
  template: row.template_id,
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
  decision: Decision,
  change: DeliveryChange,
  now: number,
): AttemptRow {
  const { facts, outcome, verdict, nextAttemptAt } = decision.attempt ?? noAttempt();
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
    smtp_reply: facts.smtpReply?.slice(0, 1000) ?? null,
    class: verdict?.class ?? null,
    reason: verdict?.reason ?? null,
    next_attempt_at: nextAttemptAt,
  };
}

function noAttempt(): never {
  throw new Error('an attempt row was asked for where there was no attempt');
}

const suppressionRow = (row: Loaded, reason: SuppressionReason, now: number): SuppressionRow => ({
  id: newId('sup', now),
  account_id: row.account_id,
  email: row.address,
  address_key: row.address_key,
  // A wish is about one kind of mail; a bounce or a complaint is about the address.
  scope: reason === 'unsubscribe' ? `stream:${row.stream}` : 'account',
  reason,
  source_message_id: row.message_id,
  note: null,
  created_at: now,
  created_by: reason === 'unsubscribe' ? 'recipient' : 'posthorn',
  expires_at: null,
});

/** The UTC day of a time, as the books name it. */

/** One recipient more that went from one status to another. */
export function count(
  counters: Map<string, CounterRow>,
  accountId: string,
  now: number,
  from: string,
  to: string,
): void {
  const day = dayOf(now);
  const key = `${accountId} ${day} ${from} ${to}`;
  const row = counters.get(key);
  if (row === undefined) counters.set(key, { account_id: accountId, day, from_status: from, to_status: to, n: 1 });
  else row.n++;
}

async function updateDeliveries(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
  if (changed.length === 0) return;
  const rows = changed.map(({ row, state, statusAt, tls }) => {
    const { smtpCode, enhancedCode, smtpReply, mx } = state.lastReply;
    return [
      row.id,
      state.status,
      statusAt,
      state.dueAt,
      state.attemptCount,
      state.claimEpoch,
      state.noDomainCount,
      state.noDomainSince,
      smtpCode,
      enhancedCode,
      smtpReply?.slice(0, 1000) ?? null,
      mx,
      tls,
      state.queuedAt,
      state.giveUpAt,
      state.heldBy,
      state.heldAt,
    ];
  });
  await tx.run(
    `UPDATE deliveries SET status = j.status, status_at = j.status_at, due_at = j.due_at, attempt_count = j.attempt_count,
       claim_epoch = j.claim_epoch, no_domain_count = j.no_domain_count, no_domain_since = j.no_domain_since,
       smtp_code = j.smtp_code, enhanced_code = j.enhanced_code, smtp_reply = j.smtp_reply, mx = j.mx, tls = j.tls,
       queued_at = j.queued_at, give_up_at = j.give_up_at, held_by = j.held_by, held_at = j.held_at
     FROM (SELECT value->>0 AS id, value->>1 AS status, value->>2 AS status_at, value->>3 AS due_at, value->>4 AS attempt_count,
       value->>5 AS claim_epoch, value->>6 AS no_domain_count, value->>7 AS no_domain_since, value->>8 AS smtp_code,
       value->>9 AS enhanced_code, value->>10 AS smtp_reply, value->>11 AS mx, value->>12 AS tls,
       value->>13 AS queued_at, value->>14 AS give_up_at, value->>15 AS held_by, value->>16 AS held_at FROM jsonb_each(?)) AS j
     WHERE deliveries.id = j.id`,
    [JSON.stringify(rows)],
  );
}

/** The message shows the status of its `to` recipient and the last event of any, and counts engagement. */
async function updateMessages(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
  const rows = changed.flatMap((one) => {
    const own = one.row.lead === 1 && one.state.status !== one.row.status;
    const seen = one.opened + one.clicked + one.bots.opens + one.bots.clicks;
    if (!own && one.lastEvent === null && one.sendAt === null && seen === 0) return [];
    const { opened, clicked, bots, hitAt } = one;
    return [
      [
        one.row.message_id,
        own ? one.state.status : null,
        one.statusAt,
        one.lastEvent?.type ?? null,
        one.lastEvent?.at ?? null,
        opened,
        clicked,
        bots.opens,
        bots.clicks,
        hitAt.opened,
        hitAt.clicked,
        one.sendAt,
      ],
    ];
  });
  // One statement updates a row once; recipients of the same message go one after the other.
  for (const layer of layersBy(rows, ([messageId]) => String(messageId))) {
    await tx.run(
      `UPDATE messages SET status = COALESCE(j.status, messages.status),
         status_at = CASE WHEN j.status IS NULL THEN messages.status_at ELSE j.status_at END,
         last_event_type = COALESCE(j.event, last_event_type), last_event_at = COALESCE(j.event_at, last_event_at),
         opens = opens + j.opened, clicks = clicks + j.clicked, bot_opens = bot_opens + j.machine_opens, bot_clicks = bot_clicks + j.machine_clicks,
         first_opened_at = COALESCE(first_opened_at, j.opened_at), last_opened_at = COALESCE(j.opened_at, last_opened_at),
         first_clicked_at = COALESCE(first_clicked_at, j.clicked_at), send_at = COALESCE(j.send_at, messages.send_at)
       FROM (SELECT value->>0 AS id, value->>1 AS status, value->>2 AS status_at, value->>3 AS event, value->>4 AS event_at,
         value->>5 AS opened, value->>6 AS clicked, value->>7 AS machine_opens, value->>8 AS machine_clicks, value->>9 AS opened_at,
         value->>10 AS clicked_at, value->>11 AS send_at FROM jsonb_each(?)) AS j
       WHERE messages.id = j.id`,
      [JSON.stringify(layer)],
    );
  }
}

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
