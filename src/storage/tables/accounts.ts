/** Accounts: their settings, streams and keys, what was done, and answers kept for repeated requests. */
import { table, text, integer, real, orNull, type RowOf } from '../table.ts';

/**
 * The columns of every table, in the database's own spelling; the type of a row follows from them. Times are milliseconds since the epoch,
 * flags are 0 or 1, `*_json` columns hold JSON text. Ids are TypeIDs (base/id.ts): they sort by time of making.
 */
export const accounts = table(
  {
    id: text(),
    name: text(),
    plan: text(),
    created_at: integer(),
    /** 1 while the operator has paused its sending: no mail is accepted, and waiting mail is held. */
    paused: integer(),
  },
  { isReferredTo: true },
);
export type AccountRow = RowOf<typeof accounts>;

export const apiKeys = table(
  {
    id: text(),
    account_id: text(),
    name: text(),
    mode: text<'live' | 'test'>(),
    /** The 8 characters of the key that are not secret: it is found by them, and named by them in lists and logs. */
    public_id: text(),
    /** SHA-256 of the whole key, hex. The key itself is stored nowhere. */
    hash: text(),
    scopes_json: text(),
    domains_json: text(),
    allowed_ips_json: text(),
    expires_at: orNull(integer()),
    created_at: integer(),
    created_by: text(),
    revoked_at: orNull(integer()),
    last_used_at: orNull(integer()),
    last_used_ip: orNull(text()),
    /** `POST /v1/messages`, or `SMTP`. */
    last_used_endpoint: orNull(text()),
    /** `[[hour, uses], …]` of the last day, the hours counted since the epoch. */
    uses_json: text(),
  },
  { isReferredTo: true },
);
export type ApiKeyRow = RowOf<typeof apiKeys>;

export const streams = table(
  {
    id: text(),
    account_id: text(),
    slug: text(),
    name: text(),
    type: text<'transactional' | 'broadcast'>(),
    pool: text(),
    /** Order inside a lane, given to each delivery as its class: 0 goes before 1. */
    priority: integer(),
    created_at: integer(),
    /** 1 while it is paused: no mail is accepted for it, and waiting mail is held. */
    paused: integer(),
  },
  { isReferredTo: true },
);
export type StreamRow = RowOf<typeof streams>;

/** The pool of streams that name none. */
export const DEFAULT_POOL = 'default';

export const idempotency = table(
  {
    /** SHA-256 of (account, mode, method, path, Idempotency-Key), hex; for a form of the dashboard of (member, `dashboard`, method, address, fields). */
    key: text(),
    body_hash: text(),
    status: integer(),
    headers_json: text(),
    body: text(),
    created_at: integer(),
    expires_at: integer(),
    /** The API key, or the member, that made the first request; null if an earlier version stored it. */
    key_id: orNull(text()),
  },
  { hasLargeValues: true },
);
export type IdempotencyRow = RowOf<typeof idempotency>;

export const audit = table(
  {
    id: text(),
    at: integer(),
    account_id: orNull(text()),
    key_id: orNull(text()),
    /** `key:<name>`, `operator`, or `member:<email>`. */
    actor: text(),
    ip: orNull(text()),
    method: text(),
    endpoint: text(),
    status: integer(),
    result: text<'ok' | 'refused' | 'failed' | 'idempotency_mismatch'>(),
    error_code: orNull(text()),
    request_id: text(),
    ms: real(),
    idempotency_replayed: integer(),
    user_agent: orNull(text()),
    /** Name of the operation; null if a request reached none, and in rows of versions before it was kept. */
    operation: orNull(text()),
    /** The object that was changed. These columns are null for operations that only read. */
    object_type: orNull(text()),
    object_id: orNull(text()),
    /** The members of the object that changed, as they were and as they are. */
    before_json: orNull(text()),
    after_json: orNull(text()),
    /** The act as a sentence without its subject, such as `removed ana@example.net from suppressions`. */
    summary: orNull(text()),
    /** The path as it was asked, without the query; null if it is `endpoint` itself, if there was none, and if it names a person to be forgotten. */
    path: orNull(text()),
    /** The field that was refused. */
    error_field: orNull(text()),
    /** Null if the answer holds a secret: it is stored sealed under this key. */
    idempotency_key: orNull(text()),
  },
  // A write that was not confirmed in time is repeated, and may have been committed all the same.
  { onConflict: { key: ['id'] } },
);
export type AuditRow = RowOf<typeof audit>;

/** Details of a request, kept for a shorter time than its line in `audit`, since people's data may be in them. */
export const requestDetails = table(
  {
    request_id: text(),
    /** Null if the key was unknown. */
    account_id: orNull(text()),
    /** The query, without its `?`. */
    query: orNull(text()),
    error_message: orNull(text()),
    /** The JSON body, redacted and cut. */
    body: orNull(text()),
  },
  { onConflict: { key: ['request_id'] } },
);
export type RequestDetailsRow = RowOf<typeof requestDetails>;

export const settings = table({
  name: text(),
  value: text(),
});
export type SettingRow = RowOf<typeof settings>;

/** The settings of an account; null means the server's own value. */
export const accountSettings = table({
  account_id: text(),
  track_opens: orNull(integer()),
  track_clicks: orNull(integer()),
  /** Days for which bodies, messages and events are kept. */
  content_days: orNull(integer()),
  messages_days: orNull(integer()),
  events_days: orNull(integer()),
  updated_at: integer(),
});
export type AccountSettingsRow = RowOf<typeof accountSettings>;
