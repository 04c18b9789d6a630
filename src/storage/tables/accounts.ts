/** Accounts: their settings, streams and keys, what was done, and answers kept for repeated requests. */
import { computed, flag, integer, json, orNull, real, table, text, texts, time, type RowOf } from '../table.ts';

/** A customer with its own mail, keys, domains and settings. */
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
    id: text().says('Id of the key.', 'key_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    name: text().says('For people.', 'shop').audited(),
    mode: text('live', 'test').says('Mail of a `test` key is simulated.', 'live').audited(),
    prefix: computed(text().says('The part of the key that is not secret.', 'ak_live_4fGh7Jk2')),
    /** The 8 characters of the key that are not secret: it is found by them, and named by them in lists and logs. */
    public_id: text(),
    /** SHA-256 of the whole key, hex. The key itself is stored nowhere. */
    hash: text(),
    scopes_json: texts().says('What it may do.', ['send']).audited(),
    domains_json: texts().says('Sending domains it is restricted to; none means all.', ['acme.example']).audited(),
    allowed_ips_json: texts()
      .says('Addresses and ranges it may be used from; none means any.', ['203.0.113.0/24'])
      .audited(),
    expires_at: orNull(time()).says('When it ends by itself; null for never.').audited(),
    last_used_at: orNull(time()).says('When it was used last; null for never.', '2026-01-31T09:30:02.481Z'),
    last_used_ip: orNull(text()).says('Address that it was used from last.', '203.0.113.9'),
    last_used_endpoint: orNull(text()).says('Method and path, or `SMTP`.', 'POST /v1/messages'),
    /** `[[hour, uses], …]` of the last day, the hours counted since the epoch. */
    uses_json: text(),
    requests_24h: computed(integer().says('Uses in the last 24 hours, to the hour.', 1204)),
    created_at: time().says('When it was made.', '2026-01-30T08:00:00.000Z'),
    created_by: text().says('Who made it: another key, a person or the operator.', 'key:admin'),
    revoked_at: orNull(time()).says('May lie in the future: then the key is good until that time.').audited(),
  },
  { isReferredTo: true },
);
export type ApiKeyRow = RowOf<typeof apiKeys>;

export const streams = table(
  {
    id: text().says('Id of the stream.', 'str_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    slug: text().says('Name of the stream in a send request.', 'news').audited(),
    name: text().says('For people.', 'Newsletter').audited(),
    type: text('transactional', 'broadcast')
      .says('Recipients can unsubscribe from mail of a `broadcast` stream.', 'broadcast')
      .audited(),
    pool: text().says('Name of the sources it is sent from.', 'default').audited(),
    /** Order inside a lane, given to each delivery as its class. */
    priority: integer().says('0 goes first.', 1).audited(),
    paused: flag().says('While it is, nothing is accepted for it and what waits is held.').audited(),
    created_at: time().says('When it was made.', '2026-01-30T08:00:00.000Z'),
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

export const auditResults = ['ok', 'refused', 'failed', 'idempotency_mismatch'] as const;

export const audit = table(
  {
    id: text().says('Id of the entry.', 'aud_01jz5w8q3hf2m9d4x6k7c1b0na'),
    at: time().says('When it was.', '2026-01-31T09:30:02.481Z'),
    account_id: orNull(text()),
    key_id: orNull(text()).says(
      'Id of the key; null for what a person or the operator did.',
      'key_01jz5w8q3hf2m9d4x6k7c1b0na',
    ),
    actor: text().says(
      '`key:` and the name of the key, `member:` and the address of a person, `operator`, or `webhook:` and the id of an endpoint that was disabled.',
      'key:shop',
    ),
    ip: orNull(text()).says('Address that it came from.', '203.0.113.9'),
    method: text().says('HTTP method, or `CLI` for a command.', 'POST'),
    endpoint: text().says('The path as the description names it, such as `/v1/messages/{id}`.', '/v1/messages'),
    status: integer().says('HTTP status of the answer.', 202),
    result: text(...auditResults).says('How it ended.'),
    error_code: orNull(text()).says('Code of the error catalogue; null for a success.'),
    request_id: text().says('Id of the request.', 'req_01jz5w8q3hf2m9d4x6k7c1b0na'),
    ms: real().says('How long it took, in milliseconds.', 4),
    idempotency_replayed: flag().says('Whether an earlier answer was given again.'),
    user_agent: orNull(text()).says('Program that asked, as it called itself.', 'curl/8.5.0'),
    /** Null also in rows of versions before it was kept. */
    operation: orNull(text()).says('Name of the operation; null if the request reached none.', 'sendMessage'),
    object_type: orNull(text()).says('Kind of the object that it was done to; null for what only reads.', 'message'),
    object_id: orNull(text()).says('Id or name of that object.', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
    before_json: orNull(json<Record<string, unknown>>()).says(
      'Members of the object as they were before; null if it was made.',
    ),
    after_json: orNull(json<Record<string, unknown>>()).says('The same members after; null if it was removed.'),
    summary: orNull(text()).says(
      'The act as a sentence whose subject is `actor`; null for what only reads.',
      'sent msg_01jz5w8q3hf2m9d4x6k7c1b0na',
    ),
    /** Null also if it is `endpoint` itself. */
    path: orNull(text()).says(
      'The path as it was asked, without its query; null for an act without one, and if it names a person who was erased.',
      '/v1/messages',
    ),
    error_field: orNull(text()).says('The field that was refused.'),
    idempotency_key: orNull(text()).says(
      'The `Idempotency-Key`; null if the answer holds a secret, which is stored sealed under it.',
      '5f1c0b1e-8f60-4c67-9d0e-4f7b7a2f9d11',
    ),
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

/** The settings of an account; null means the server's own value. */
export const accountSettings = table({
  account_id: text(),
  track_opens: orNull(flag()),
  track_clicks: orNull(flag()),
  /** Days for which bodies, messages and events are kept. */
  content_days: orNull(integer()),
  messages_days: orNull(integer()),
  events_days: orNull(integer()),
  updated_at: integer(),
});
export type AccountSettingsRow = RowOf<typeof accountSettings>;
