/** Deliveries while their changes are decided: read with one statement for a whole group, written back with one for each table. */
import type { Connection } from '../../storage/connection.ts';
import { columnsFrom, jsonReader } from '../../storage/json-rows.ts';
import { statement } from '../../storage/sql.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import { integer, orNull, text } from '../../storage/table.ts';
import { deliveries, type DeliveryRow, type MessageRow, type SuppressionReason } from '../../storage/tables.ts';
import { capped } from './decide.ts';
import type { DeliveryChange, DeliveryState } from './delivery.ts';
import { ERASED_ADDRESS } from '../../mail/address.ts';

/** The columns of a delivery that a change may write. */
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
    /** 1 if the recipient was erased. */
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
  /** The new time of sending, if it was moved. */
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

/** Reads the deliveries of all these changes. */
export async function loadUpdates(
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

/** Returns a delivery as it was read, before any change. */
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

/** Returns whether an attempt found the mailbox full. */
const findsFull = (change: DeliveryChange): boolean =>
  change.kind === 'outcome' && change.outcome.kind === 'deferred' && change.outcome.verdict.reason === 'mailbox_full';

/** Returns the columns of a delivery as its changes have left them. */
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

export async function updateDeliveries(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
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
export async function updateMessages(tx: Connection, changed: readonly PendingUpdate[]): Promise<void> {
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
