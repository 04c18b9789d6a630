/**
 * The views that operators read with `sqlite3 -readonly` or psql; names and columns stay the same when tables change. Times are RFC 3339 texts, flags
 * 0 or 1. They are dropped before migrations and made again after: SQLite refuses to rebuild a table that a view reads.
 */
import type { Knex } from 'knex';
import { dialectOf, type Dialect } from './sql.ts';

interface View {
  name: string;
  says: string;
  /** For each column its expression and its meaning. */
  columns: (sql: Dialect) => Readonly<Record<string, readonly [sql: string, says: string]>>;
  from: string;
}

export const views: readonly View[] = [
  {
    name: 'v_messages',
    says: 'Messages, one row each. Ids sort by time of acceptance.',
    columns: ({ time }) => ({
      id: ['m.id', 'message id, as in the API'],
      account_id: ['m.account_id', 'whose it is'],
      account: ['a.name', 'name of the account'],
      created_at: [time('m.created_at'), 'when it was accepted'],
      send_at: [time('m.send_at'), 'when it was to be sent, if later'],
      from_address: ['m.from_address', 'sender'],
      to_address: ['m.to_address', 'recipient of the To field'],
      subject: ['m.subject', 'subject'],
      stream: ['m.stream', 'slug of its stream'],
      status: ['m.status', 'status of the To recipient'],
      status_at: [time('m.status_at'), 'since when'],
      last_event: ['m.last_event_type', 'type of the last event'],
      last_event_at: [time('m.last_event_at'), 'time of the last event'],
      opens: ['m.opens', 'opens by people'],
      clicks: ['m.clicks', 'clicks by people'],
      tags: ['m.tags_json', 'tags, a JSON list'],
      metadata: ['m.metadata_json', 'metadata, JSON'],
      template_id: ['m.template_id', 'template it was made from'],
      template_version: ['m.template_version', 'version of that template'],
      batch_id: ['m.batch_id', 'bulk send it belongs to'],
      key_id: ['m.key_id', 'API key it was sent with'],
      request_id: ['m.request_id', 'request it came with'],
      rfc_message_id: ['m.rfc_message_id', 'Message-ID field'],
      test: ['m.test', '1 if delivery was simulated'],
    }),
    from: 'FROM messages m LEFT JOIN accounts a ON a.id = m.account_id',
  },
  {
    name: 'v_recipients',
    says: 'Recipients: one row for each address of each message, with where its delivery stands.',
    columns: ({ time, flag }) => ({
      id: ['d.id', 'id of the delivery'],
      message_id: ['d.message_id', 'message id'],
      account_id: ['d.account_id', 'whose it is'],
      type: ['d.type', 'to, cc or bcc'],
      address: ['d.address', 'the address'],
      domain: ['d.domain', 'what is looked up to deliver it; `~simulator` is simulated'],
      status: ['d.status', 'status'],
      status_at: [time('d.status_at'), 'since when'],
      attempts: ['d.attempt_count', 'attempts begun'],
      trying: [flag('d.claim_epoch IS NOT NULL'), '1 while an attempt runs'],
      next_attempt_at: [
        `CASE WHEN d.claim_epoch IS NULL THEN ${time('d.due_at')} END`,
        'next attempt, or `give_up_at`; null when finished',
      ],
      give_up_at: [time('d.give_up_at'), 'when the queue gives up'],
      smtp_code: ['d.smtp_code', 'code of the last reply'],
      enhanced_code: ['d.enhanced_code', 'its enhanced code'],
      smtp_reply: ['d.smtp_reply', 'its words'],
      mx: ['d.mx', 'host that gave it'],
      tls: ['d.tls', 'TLS version of the last connection'],
      test: ['d.test', '1 if delivery is simulated'],
    }),
    from: 'FROM deliveries d',
  },
  {
    name: 'v_attempts',
    says: 'Delivery attempts, each with what the other side said.',
    columns: ({ time }) => ({
      id: ['t.id', 'id of the attempt'],
      message_id: ['t.message_id', 'message id'],
      recipient_id: ['t.delivery_id', '`id` in v_recipients'],
      address: ['d.address', 'the recipient'],
      domain: ['d.domain', 'its domain'],
      number: ['t.number', 'first, second, ...'],
      started_at: [time('t.started_at'), 'begin'],
      ended_at: [time('t.ended_at'), 'end'],
      ms: ['t.ended_at - t.started_at', 'its length in milliseconds'],
      outcome: ['t.outcome', 'accepted, deferred, refused or uncertain'],
      class: ['t.class', 'hard, soft, block or undetermined'],
      reason: ['t.reason', 'why, in one word'],
      smtp_code: ['t.smtp_code', 'code of the reply'],
      enhanced_code: ['t.enhanced_code', 'its enhanced code'],
      smtp_reply: ['t.smtp_reply', 'its words'],
      mx: ['t.mx', 'host'],
      ip: ['t.ip', 'its address'],
      source: ['t.source', 'our address'],
      tls: ['t.tls_json', 'TLS: JSON, or null'],
      timings: ['t.timings_json', 'milliseconds of each phase, JSON'],
      next_attempt_at: [time('t.next_attempt_at'), 'next attempt'],
    }),
    from: 'FROM attempts t LEFT JOIN deliveries d ON d.id = t.delivery_id',
  },
  {
    name: 'v_events',
    says: 'The event log, in the order in which it was written.',
    columns: ({ time }) => ({
      sequence: ['e.sequence', 'position; never given twice'],
      id: ['e.id', 'event id, as in the API'],
      at: [time('e.at'), 'when it happened'],
      type: ['e.type', 'sent, delivered, bounced, ...'],
      account_id: ['e.account_id', 'whose it is'],
      message_id: ['e.message_id', 'message id'],
      recipient_id: ['e.delivery_id', '`id` in v_recipients'],
      address: ['d.address', 'the recipient'],
      status: ['e.status', 'its status right after'],
      machine: ['e.machine', '1 for opens and clicks by machines'],
      detail: ['e.detail_json', 'the member named after the type, JSON'],
      test: ['e.test', '1 if delivery was simulated'],
    }),
    from: 'FROM events e LEFT JOIN deliveries d ON d.id = e.delivery_id',
  },
  {
    name: 'v_lanes',
    says: 'What waits, by destination domain. `posthorn queue lanes` shows how the running server handles it.',
    columns: ({ time, nowMs }) => ({
      domain: ['d.domain', 'destination'],
      waiting: ['COUNT(*)', 'recipients that are not finished'],
      due: [`COUNT(*) FILTER (WHERE d.due_at <= ${nowMs})`, 'of these, those that could be tried now'],
      oldest_due_at: [time('MIN(d.due_at)'), 'when the first of them fell or falls due'],
      last_due_at: [time('MAX(d.due_at)'), 'when the last of them falls due'],
    }),
    from: 'FROM deliveries d WHERE d.due_at IS NOT NULL GROUP BY d.domain',
  },
  {
    name: 'v_audit',
    says: 'The audit log: every use of a key, and every act in the dashboard and on the command line.',
    columns: ({ time }) => ({
      id: ['u.id', 'id of the line'],
      at: [time('u.at'), 'when'],
      account_id: ['u.account_id', 'account, if one was concerned'],
      account: ['a.name', 'its name'],
      actor: [
        'u.actor',
        'who: `key:<name>`, `member:<address>`, `operator`, `server`; `api` or `smtp` if no key was known',
      ],
      key_id: ['u.key_id', 'API key'],
      ip: ['u.ip', 'address it came from'],
      method: ['u.method', 'HTTP method, or the kind of act'],
      endpoint: ['u.endpoint', 'path, or command'],
      status: ['u.status', 'HTTP status'],
      result: ['u.result', 'ok, refused, failed or idempotency_mismatch'],
      error_code: ['u.error_code', 'code of the error'],
      request_id: ['u.request_id', 'request id'],
      ms: ['u.ms', 'its length in milliseconds'],
      idempotency_replayed: ['u.idempotency_replayed', '1 if an earlier answer was given again'],
      user_agent: ['u.user_agent', 'User-Agent field'],
      operation: ['u.operation', 'name of the operation'],
      object_type: ['u.object_type', 'kind of the object that it was done to'],
      object_id: ['u.object_id', 'id or name of that object'],
      before_json: ['u.before_json', 'how it was before, as JSON: what changed'],
      after_json: ['u.after_json', 'how it was after, as JSON: what changed'],
      summary: ['u.summary', 'the act as a sentence; null for what only reads'],
      path: ['u.path', 'path as it was asked, if it differs from the endpoint'],
      error_field: ['u.error_field', 'field that was refused'],
      idempotency_key: ['u.idempotency_key', 'Idempotency-Key field'],
    }),
    from: 'FROM audit u LEFT JOIN accounts a ON a.id = u.account_id',
  },
];

/** Returns the statement that makes a view. SQLite keeps its comments: `.schema v_messages` shows them. */
export function viewStatement({ name, says, columns, from }: View, sql: Dialect): string {
  const entries = Object.entries(columns(sql));
  const lines = entries.map(
    ([column, [expression, means]], at) =>
      `  ${expression} AS ${column}${at === entries.length - 1 ? '' : ','} -- ${means}`,
  );
  return `CREATE VIEW ${name} AS -- ${says}\nSELECT\n${lines.join('\n')}\n${from}`;
}

/** Runs `change`, which may rebuild tables, while there are no views, and then makes those that this program knows. */
export async function withoutViews<Result>(knex: Knex, change: () => Promise<Result>): Promise<Result> {
  for (const { name } of views) await knex.raw(`DROP VIEW IF EXISTS ${name}`);
  const result = await change();
  await renewViews(knex);
  return result;
}

/** Makes the views that are missing or were made by another version. Nothing is written if all views are up to date. */
export async function renewViews(knex: Knex): Promise<void> {
  const sql = dialectOf(knex);
  const rows = await knex.raw<Record<'name' | 'sql', string>[]>(sql.viewTexts);
  const there = new Map(rows.map((row) => [row.name, row.sql]));
  const stale = views.filter((view) => there.get(view.name) !== viewStatement(view, sql));
  if (stale.length === 0) return;
  await knex.transaction(async (tx) => {
    for (const view of stale) {
      const text = viewStatement(view, sql);
      await tx.raw(`DROP VIEW IF EXISTS ${view.name}`);
      await tx.raw(text);
      if (sql.engine === 'postgres') await tx.raw(`COMMENT ON VIEW ${view.name} IS '${text.replaceAll("'", "''")}'`);
    }
  });
}
