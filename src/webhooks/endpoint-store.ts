/** Webhook endpoints in the database: registered, listed, changed, removed, their secrets rotated. */
import { randomBytes } from 'node:crypto';
import { newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { Problem } from '../base/problem.ts';
import { eventTypes } from '../events/event.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import { readPage, type PagePart, type RowPage } from '../storage/page.ts';
import { insertRows, type Rows, type RowsFor } from '../storage/rows.ts';
import { auditRow, type ActWords } from '../operations/audit-row.ts';
import { columnsOf } from '../storage/record.ts';
import { webhooks, type AuditRow, type WebhookRow } from '../storage/tables.ts';
import { webhookRecord, type Endpoint, type EndpointSecret } from './endpoint.ts';
import { SECRET_BYTES } from './signature.ts';
import { DAY_MS } from '../base/time.ts';

export interface EndpointDeps extends StoreDeps {
  keyring: Keyring;
  /** Makes the fan-out read this endpoint's row again. */
  changed: (webhookId: string) => void;
}

/** Which endpoint: the operator, who is above accounts, gives `accountId` null. */
export interface EndpointRef {
  accountId: string | null;
  id: string;
}

/** The settings of an endpoint, checked already: members of its record, the values of its headers, and whether it is not paused. */
export interface EndpointSettings {
  url?: string | undefined;
  description?: string | undefined;
  events?: string[] | undefined;
  streams?: string[] | undefined;
  domains?: string[] | undefined;
  addresses?: string[] | undefined;
  include_machine_events?: boolean | undefined;
  include_engagement?: boolean | undefined;
  concurrency?: number | undefined;
  headers?: readonly (readonly [name: string, value: string])[] | undefined;
  enabled?: boolean | undefined;
}

export interface NewEndpoint extends EndpointSettings {
  url: string;
  accountId: string;
  createdBy: string;
}

export interface WithSecrets {
  row: WebhookRow;
  secrets: readonly EndpointSecret[];
}

const noFailures = { failures: 0, failing_since: null, warned_at: null, rests_until: null };

/** A new endpoint as it is if nothing else was asked for. */
const usual = {
  description: '',
  events_json: JSON.stringify(eventTypes),
  streams_json: '[]',
  domains_json: '[]',
  addresses_json: '[]',
  include_machine_events: 0,
  include_engagement: 0,
  concurrency: 10,
  header_names_json: '[]',
  headers_sealed: null,
  disabled_reason: null,
  ...noFailures,
  last_success_at: null,
  last_failure_at: null,
};

const MOST_ENDPOINTS = 100;
/** Time for which a replaced secret signs beside the new one. */
const OLD_SECRET_MS = DAY_MS;
/** A receiver tries each signature of a call, so their number is kept small. */
const MOST_OLD_SECRETS = 5;

/** Registers an endpoint, which gets all events from now on. Throws `already_exists` and `invalid_state`. */
export async function createEndpoint(
  deps: EndpointDeps,
  wanted: NewEndpoint,
  alsoCommit: RowsFor<WithSecrets>,
): Promise<WithSecrets> {
  const { db, clock, keyring } = deps;
  const now = clock.now();
  const id = newId('whk', now);
  const secrets: EndpointSecret[] = [{ secret: randomBytes(SECRET_BYTES), until: null }];
  const made = await db.commit.transact(async (tx) => {
    await refuseTwin(tx, wanted.accountId, wanted.url, id);
    const there = await tx.all('SELECT id FROM webhooks WHERE account_id = ?', [wanted.accountId]);
    if (there.length >= MOST_ENDPOINTS)
      throw new Problem('invalid_state', `An account has at most ${String(MOST_ENDPOINTS)} webhook endpoints.`);
    const [newest] = await tx.all<{ last: number | null }>('SELECT MAX(sequence) AS last FROM events');
    const row: WebhookRow = {
      ...usual,
      ...settingColumns(keyring, id, wanted),
      id,
      url: wanted.url,
      account_id: wanted.accountId,
      secrets_sealed: sealSecrets(keyring, id, secrets),
      status: wanted.enabled === false ? 'paused' : 'active',
      cursor: newest?.last ?? 0,
      created_at: now,
      created_by: wanted.createdBy,
      updated_at: now,
    };
    await insertRows(tx, [{ webhooks: [row] }, alsoCommit({ row, secrets })]);
    return { row, secrets };
  });
  deps.changed(id);
  return made;
}

/** Throws `not_found`. */
export const findEndpoint = ({ db }: Pick<StoreDeps, 'db'>, ref: EndpointRef): Promise<WebhookRow> =>
  lookUp(db.prepared, ref);

/** Returns those of these endpoints that exist. */
export const endpointsNamed = async ({ db }: Pick<StoreDeps, 'db'>, ids: readonly string[]): Promise<WebhookRow[]> =>
  await db.reader<WebhookRow>('webhooks').whereIn('id', ids);

/** Returns one page, newest first, from an endpoint on (its id, exclusive), forwards or backwards. */
export async function pageOfEndpoints(
  { db }: Pick<StoreDeps, 'db'>,
  { accountId, ...page }: PagePart & { accountId: string },
): Promise<RowPage<WebhookRow>> {
  return readPage<WebhookRow>(db.reader<WebhookRow>('webhooks').where({ account_id: accountId }), page);
}

/** Changes what is given. Enabling one that was disabled, or another URL, forgets its failures. Throws `not_found` and `already_exists`. */
export async function updateEndpoint(
  deps: EndpointDeps,
  ref: EndpointRef,
  changes: EndpointSettings,
  alsoCommit: RowsFor<WebhookRow>,
): Promise<WebhookRow> {
  const { db, clock, keyring } = deps;
  const columns = settingColumns(keyring, ref.id, changes);
  const changed = await db.commit.transact(async (tx) => {
    const before = await lookUp(tx, ref);
    if (changes.url !== undefined) await refuseTwin(tx, before.account_id, changes.url, ref.id);
    const row = await changeRow(tx, before, {
      ...columns,
      ...(columns.url === undefined || columns.url === before.url ? {} : noFailures),
      ...statusAfter(before, changes.enabled),
      updated_at: clock.now(),
    });
    await insertRows(tx, [alsoCommit(row)]);
    return row;
  });
  deps.changed(ref.id);
  return changed;
}

function statusAfter(before: WebhookRow, enabled: boolean | undefined): Partial<WebhookRow> {
  if (enabled === undefined || (enabled && before.status === 'active')) return {};
  // One that we have disabled stays so, with its reason, until it is enabled.
  if (!enabled) return before.status === 'active' ? { status: 'paused', rests_until: null } : {};
  return { status: 'active', disabled_reason: null, ...noFailures };
}

/** Removes an endpoint with its waiting calls; its delivery log is deleted when it is old. Throws `not_found`. */
export async function removeEndpoint(deps: EndpointDeps, ref: EndpointRef, alsoCommit: () => Rows): Promise<void> {
  await deps.db.commit.transact(async (tx) => {
    await lookUp(tx, ref);
    await tx.run('DELETE FROM webhook_calls WHERE webhook_id = ?', [ref.id]);
    await tx.run('DELETE FROM webhook_replays WHERE webhook_id = ?', [ref.id]);
    await tx.run('DELETE FROM webhooks WHERE id = ?', [ref.id]);
    await insertRows(tx, [alsoCommit()]);
  });
  deps.changed(ref.id);
}

/** Makes a new secret; older ones sign for a day: the receiver can change over. Throws `not_found`, and `invalid_state` for too many valid ones. */
export async function rotateSecret(
  deps: EndpointDeps,
  ref: EndpointRef,
  alsoCommit: RowsFor<WithSecrets>,
): Promise<WithSecrets> {
  const { db, clock, keyring } = deps;
  const fresh: EndpointSecret = { secret: randomBytes(SECRET_BYTES), until: null };
  const rotated = await db.commit.transact(async (tx) => {
    const before = await lookUp(tx, ref);
    const now = clock.now();
    const old = openedBefore(keyring, before)
      .map(({ secret, until }) => ({ secret, until: until ?? now + OLD_SECRET_MS }))
      .filter(({ until }) => until > now);
    if (old.length > MOST_OLD_SECRETS)
      throw new Problem('invalid_state', `The secret was changed ${String(MOST_OLD_SECRETS)} times within a day.`);
    const secrets = [fresh, ...old];
    const row = await changeRow(tx, before, {
      secrets_sealed: sealSecrets(keyring, ref.id, secrets),
      updated_at: now,
    });
    await insertRows(tx, [alsoCommit({ row, secrets })]);
    return { row, secrets };
  });
  deps.changed(ref.id);
  return rotated;
}

/**
 * Disables an endpoint that has answered no call for days or answered 410, with a line in the audit log and the rows that `alsoCommit`
 * returns. Resolves with the result of `alsoCommit`; null if the endpoint was not active.
 */
export async function disableEndpoint<More extends { rows: readonly Rows[] }>(
  { db, clock }: StoreDeps,
  id: string,
  reason: string,
  alsoCommit: (tx: Connection, row: WebhookRow) => Promise<More>,
): Promise<More | null> {
  return db.commit.transact(async (tx) => {
    const now = clock.now();
    const [row] = await tx.all<WebhookRow>(
      `UPDATE webhooks SET status = 'disabled', disabled_reason = ?, updated_at = ? WHERE id = ? AND status = 'active' RETURNING *`,
      [reason, now, id],
    );
    if (row === undefined) return null;
    const more = await alsoCommit(tx, row);
    await insertRows(tx, [{ audit: [disabledAudit(row, now)] }, ...more.rows]);
    return more;
  });
}

const disabled: ActWords = {
  says: 'disabled the webhook endpoint {url}: {disabled_reason}',
  type: 'webhook',
  keeps: ['url', 'status', 'disabled_reason'],
};

const disabledAudit = (row: WebhookRow, now: number): AuditRow =>
  auditRow({
    at: now,
    accountId: row.account_id,
    actor: `webhook:${row.id}`,
    method: 'SYSTEM',
    endpoint: 'webhook_disabled',
    operation: 'webhook.disabled',
    words: disabled,
    deed: { before: { ...row, status: 'active', disabled_reason: null }, after: row },
    status: 200,
    requestId: newId('req', now),
  });

/** Returns the row with its secrets opened: throws if the keyring cannot open them. */
export function openEndpoint(keyring: Keyring, row: WebhookRow): Endpoint {
  const record = webhookRecord(row, null);
  return {
    ...record,
    accountId: row.account_id,
    events: new Set(record.events),
    headers:
      row.headers_sealed === null
        ? []
        : (JSON.parse(keyring.open(headerPurpose(row.id), row.headers_sealed).toString()) as [string, string][]),
    secrets: openSecrets(keyring, row),
  };
}

/** Returns the secrets, newest first. Throws if the keyring cannot open them. */
export function openSecrets(keyring: Keyring, { id, secrets_sealed }: WebhookRow): EndpointSecret[] {
  const stored = JSON.parse(keyring.open(secretPurpose(id), secrets_sealed).toString()) as [string, number | null][];
  return stored.map(([secret, until]) => ({ secret: Buffer.from(secret, 'base64'), until }));
}

/** Returns the secrets in use, or none if the key that sealed them is lost: then a new one is all that helps. */
function openedBefore(keyring: Keyring, row: WebhookRow): EndpointSecret[] {
  const keyId = row.secrets_sealed.split('.')[1] ?? '';
  return keyring.lostIds.includes(keyId) ? [] : openSecrets(keyring, row);
}

function sealSecrets(keyring: Keyring, id: string, secrets: readonly EndpointSecret[]): string {
  const stored = secrets.map(({ secret, until }) => [secret.toString('base64'), until]);
  return keyring.seal(secretPurpose(id), JSON.stringify(stored));
}

const secretPurpose = (id: string): string => `webhook:${id}`;
const headerPurpose = (id: string): string => `webhook-headers:${id}`;

function settingColumns(keyring: Keyring, id: string, { headers, ...given }: EndpointSettings): Partial<WebhookRow> {
  const columns = columnsOf(webhooks, given);
  if (headers === undefined) return columns;
  const sealed = headers.length === 0 ? null : keyring.seal(headerPurpose(id), JSON.stringify(headers));
  return { ...columns, header_names_json: JSON.stringify(headers.map(([name]) => name)), headers_sealed: sealed };
}

/** Writes the given columns, and returns the row as it is then. The other columns are written by the calls themselves. */
async function changeRow(tx: Connection, before: WebhookRow, columns: Partial<WebhookRow>): Promise<WebhookRow> {
  const names = Object.keys(columns);
  await tx.run(`UPDATE webhooks SET ${names.map((name) => `${name} = ?`).join(', ')} WHERE id = ?`, [
    ...Object.values(columns),
    before.id,
  ]);
  return { ...before, ...columns };
}

async function lookUp(tx: Connection, { accountId, id }: EndpointRef): Promise<WebhookRow> {
  const [row] = await tx.all<WebhookRow>('SELECT * FROM webhooks WHERE id = ?', [id]);
  if (row === undefined || (accountId !== null && row.account_id !== accountId)) throw noSuchEndpoint();
  return row;
}

async function refuseTwin(tx: Connection, accountId: string, url: string, id: string): Promise<void> {
  const twins = await tx.all('SELECT id FROM webhooks WHERE account_id = ? AND url = ? AND id <> ?', [
    accountId,
    url,
    id,
  ]);
  if (twins.length > 0)
    throw new Problem('already_exists', 'There is a webhook endpoint with this URL already. Change that one.', {
      field: 'url',
    });
}

const noSuchEndpoint = (): Problem => new Problem('not_found', 'There is no such webhook endpoint.');
