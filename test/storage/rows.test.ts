import assert from 'node:assert/strict';
import { limitRow } from '../support/harness/limit-rows.ts';
import fc from 'fast-check';
import { noCounts } from '../../src/events/stats.ts';
import { PackedRows, packsOf } from '../../src/storage/rows-parameter.ts';
import { insertRows, type Rows, type RowsToWrite } from '../../src/storage/rows.ts';
import { tables, type TableName, type Tables } from '../../src/storage/tables.ts';
import { ACCOUNT, NOW, acceptedCounter, contentRow, deliveryRow, messageRow } from '../support/harness/mail-rows.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { openTempDatabase, ROW_ORDER, type TempDatabase } from '../support/harness/temp-database.ts';

const odd = `"'\`;-- \\ ž 💌 \u202e \u2028 \u0000 \u001f\r\n\t{}[] %_`;

const counted = { stage: 1, sent: 2, blocked: 0, deferred: 0, complained: 0 };

/** A row of every table, with odd texts wherever one may stand. */
const samples: { readonly [T in TableName]: Tables[T] } = {
  accounts: { id: ACCOUNT, name: odd, plan: 'pro', created_at: NOW, paused: 0 },
  api_keys: {
    id: 'key_1',
    account_id: ACCOUNT,
    name: odd,
    mode: 'live',
    public_id: 'abcd',
    hash: 'ff',
    scopes_json: '[]',
    domains_json: '[]',
    allowed_ips_json: '[]',
    expires_at: null,
    created_at: NOW,
    created_by: odd,
    revoked_at: NOW,
    last_used_at: null,
    last_used_ip: null,
    last_used_endpoint: odd,
    uses_json: '[]',
  },
  domains: {
    id: 'dom_1',
    account_id: ACCOUNT,
    name: 'acme.test',
    status: 'verified',
    trusted: 1,
    return_path: 'rp.acme.test',
    track_opens: null,
    track_clicks: 0,
    records_json: JSON.stringify([odd]),
    receiving: 1,
    receiving_addresses_json: JSON.stringify([odd]),
    created_at: NOW,
    verified_at: NOW,
    checked_at: null,
    failing_since: null,
    refused_at: null,
    told_at: null,
  },
  dkim_keys: {
    id: 'dkm_1',
    domain_id: 'dom_1',
    selector: 's1',
    algorithm: 'rsa-sha256',
    private_key_sealed: odd,
    public_key: odd,
    state: 'active',
    created_at: NOW,
    active_at: NOW,
    retired_at: null,
  },
  streams: {
    id: 'str_1',
    account_id: ACCOUNT,
    slug: 's',
    name: odd,
    type: 'broadcast',
    pool: 'default',
    priority: 1,
    created_at: NOW,
    paused: 0,
  },
  suppressions: {
    id: 'sup_1',
    account_id: ACCOUNT,
    email: odd,
    address_key: odd,
    scope: 'account',
    reason: 'manual',
    source_message_id: null,
    note: odd,
    created_at: NOW,
    created_by: odd,
    expires_at: null,
  },
  batches: { id: 'bat_1', account_id: ACCOUNT, accepted: 1, rejected: 2, created_at: NOW, test: 0 },
  contents: contentRow({ html: odd.repeat(1000), text: null, raw: Buffer.from([0, 13, 255]) }),
  attachments: {
    content_id: 'cnt_1',
    position: 0,
    filename: odd,
    content_type: 'image/png',
    cid: null,
    disposition: 'inline',
    bytes: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
  },
  messages: messageRow({ subject: odd, from_name: odd, metadata_json: JSON.stringify({ [odd]: odd }), send_at: NOW }),
  deliveries: deliveryRow({ smtp_reply: odd, name: odd, claim_epoch: 3 }),
  attempts: {
    id: 'att_1',
    delivery_id: 'dlv_1',
    message_id: 'msg_1',
    number: 1,
    started_at: NOW,
    ended_at: NOW,
    mx: null,
    ip: '2001:db8::1',
    source: null,
    tls_json: null,
    timings_json: '{"connect":1.5}',
    outcome: 'accepted',
    smtp_code: 250,
    enhanced_code: null,
    smtp_reply: odd,
    class: null,
    reason: null,
    next_attempt_at: null,
  },
  events: {
    id: 'evt_1',
    account_id: ACCOUNT,
    type: 'sent',
    at: NOW,
    test: 0,
    message_id: 'msg_1',
    delivery_id: 'dlv_1',
    status: 'sent',
    machine: 0,
    detail_json: JSON.stringify({ text: odd }),
  },
  idempotency: {
    key: 'k',
    body_hash: 'h',
    status: 202,
    headers_json: '{}',
    body: odd.repeat(1000),
    created_at: NOW,
    expires_at: NOW,
    key_id: 'key_1',
  },
  audit: {
    id: 'aud_1',
    at: NOW,
    account_id: null,
    key_id: null,
    actor: odd,
    ip: null,
    method: 'POST',
    endpoint: '/v1/messages',
    status: 202,
    result: 'ok',
    error_code: null,
    request_id: 'req_1',
    ms: 1.25,
    idempotency_replayed: 0,
    user_agent: odd,
    operation: 'sendMessage',
    object_type: 'message',
    object_id: odd,
    before_json: null,
    after_json: '{}',
    summary: odd,
    path: odd,
    error_field: odd,
    idempotency_key: odd,
  },
  request_details: { request_id: 'req_1', account_id: null, query: odd, error_message: odd, body: '{}' },
  counters: acceptedCounter(3),
  message_tags: { account_id: ACCOUNT, tag: odd, message_id: 'msg_1' },
  message_metadata: { account_id: ACCOUNT, name: odd, value: odd, message_id: 'msg_1' },
  message_words: { account_id: ACCOUNT, word: odd, message_id: 'msg_1' },
  settings: { name: odd, value: odd },
  templates: {
    id: 'tpl_1',
    account_id: ACCOUNT,
    alias: odd,
    name: odd,
    latest_version: 1,
    published_version: 1,
    created_at: NOW,
    updated_at: NOW,
    published_at: NOW,
  },
  template_versions: {
    template_id: 'tpl_1',
    version: 1,
    subject: odd,
    from_text: odd,
    reply_to_json: '[]',
    html: odd,
    text: null,
    variables_json: '[]',
    locale: 'en',
    timezone: 'UTC',
    strict: 0,
    created_at: NOW,
    created_by: odd,
    sample_json: `{"a":${JSON.stringify(odd)}}`,
  },
  account_settings: {
    account_id: ACCOUNT,
    track_opens: 1,
    track_clicks: null,
    content_days: 7,
    messages_days: null,
    events_days: 30,
    updated_at: NOW,
  },
  event_counts: {
    account_id: ACCOUNT,
    span: 'hour',
    test: 0,
    tag: odd,
    at: NOW,
    stream: odd,
    domain: odd,
    provider: 'other',
    ...noCounts(),
    sent: 3,
    clicked: 2,
  },
  reports: {
    id: 'rep_1',
    received_at: NOW,
    client_ip: '192.0.2.1',
    sender: '',
    recipients_json: '[]',
    size: 3,
    state: 'new',
    kind: null,
    account_id: null,
    message_id: null,
    delivery_id: null,
    detail_json: '{}',
    raw: Buffer.from([0, 13, 255]),
  },
  received: {
    id: 'rcv_1',
    account_id: ACCOUNT,
    domain: 'acme.test',
    at: NOW,
    status: 'read',
    size: 3,
    client_ip: '192.0.2.1',
    helo: odd,
    envelope_json: '{}',
    from_json: null,
    from_key: odd,
    to_json: '[]',
    cc_json: '[]',
    reply_to_json: '[]',
    subject: odd,
    date: null,
    message_id: odd,
    in_reply_to: null,
    references_json: '[]',
    text: odd,
    html: odd,
    reply_text: null,
    truncated: 1,
    attachments_json: '[]',
    spf_json: null,
    dkim_json: '[]',
    dmarc_json: null,
    spam_headers_json: '{}',
    auto_submitted: null,
    answers: 'msg_1',
  },
  received_sources: { received_id: 'rcv_1', raw: Buffer.from([0, 13, 255]) },
  webhooks: {
    id: 'whk_1',
    account_id: ACCOUNT,
    url: odd,
    description: odd,
    events_json: '[]',
    streams_json: '[]',
    domains_json: '[]',
    addresses_json: '[]',
    include_machine_events: 1,
    include_engagement: 0,
    concurrency: 10,
    header_names_json: '[]',
    headers_sealed: null,
    secrets_sealed: odd,
    status: 'active',
    disabled_reason: odd,
    cursor: 3,
    failures: 0,
    failing_since: null,
    warned_at: null,
    rests_until: null,
    last_success_at: NOW,
    last_failure_at: null,
    created_at: NOW,
    created_by: odd,
    updated_at: NOW,
  },
  webhook_calls: { webhook_id: 'whk_1', sequence: 3, cause: 'event', attempts: 1, due_at: NOW, created_at: NOW },
  webhook_deliveries: {
    id: 'whd_1',
    webhook_id: 'whk_1',
    event_id: 'evt_1',
    event_type: 'sent',
    sequence: 3,
    cause: 'event',
    attempt: 1,
    at: NOW,
    ms: 3,
    status: 'failed',
    status_code: 500,
    error: odd,
    answer: odd,
    signature: 'v1,x',
    sample: null,
    next_attempt_at: NOW,
  },
  webhook_replays: {
    id: 'whr_1',
    webhook_id: 'whk_1',
    account_id: ACCOUNT,
    since: NOW,
    until: NOW,
    which: 'all',
    types_json: '[]',
    status: 'running',
    position: 1,
    end_position: 2,
    queued: 0,
    created_at: NOW,
    finished_at: null,
  },
  sts_policies: { domain: odd, policy_id: odd, policy_json: odd, fetched_at: NOW, expires_at: NOW },
  limit_counts: { ...{ rule: odd, subject: odd, span: '2026-01-31' }, ...counted },
  listings: { ip: odd, list: odd, since: NOW, until: null, codes: odd },
  list_checks: { ip: odd, list: odd, state: 'clear', at: NOW },
  limits: limitRow({
    id: odd,
    site: odd,
    source: odd,
    domain: odd,
    account: odd,
    since: NOW,
    until: NOW,
    cause: odd,
    stream: odd,
    actor: odd,
  }),
  tls_report_rows: {
    id: 'tlr_1',
    report_id: 'rep_1',
    org: odd,
    report_key: odd,
    domain: odd,
    from_at: NOW,
    until_at: NOW,
    policy: odd,
    result: odd,
    mx: odd,
    source_ip: odd,
    ip: odd,
    reason: odd,
    sessions: 1,
  },
  aggregate_reports: { kind: 'dmarc', org: 'o', report_key: 'k', domain: 'd', from_at: 1, report_id: 'r' },
  dmarc_rows: {
    id: 'dmr_1',
    report_id: 'rep_1',
    org: odd,
    report_key: odd,
    domain: odd,
    from_at: NOW,
    until_at: NOW,
    source_ip: odd,
    count: 1,
    disposition: odd,
    dkim: 'pass',
    spf: 'fail',
    header_from: odd,
    envelope_from: odd,
    dkim_domain: odd,
    dkim_selector: odd,
    dkim_result: odd,
    spf_domain: odd,
    spf_result: odd,
  },
  host_tls: { host: odd, workaround: 'reduced', workaround_until: NOW, offered_at: null },
  members: {
    id: 'mem_1',
    email: odd,
    email_key: odd,
    role: 'administrator',
    password_hash: odd,
    totp_sealed: null,
    totp_step: 5,
    created_at: NOW,
    created_by: odd,
    last_sign_in_at: null,
  },
  memberships: { member_id: 'mem_1', account_id: ACCOUNT },
  sessions: {
    token_hash: 'h',
    id: 'ses_1',
    member_id: 'mem_1',
    stage: 'open',
    account_id: null,
    created_at: NOW,
    seen_at: NOW,
    ip: '2001:db8::1',
    user_agent: odd,
  },
  sign_ins: {
    id: 'sgn_1',
    at: NOW,
    email_key: odd,
    ip: '127.0.0.1',
    user_agent: null,
    result: 'refused',
    source: '127.0.0.1',
  },
  setup_links: { token_hash: 'h', member_id: 'mem_1', created_at: NOW, expires_at: NOW, message_id: null },
  recovery_codes: { code_hash: 'h', member_id: 'mem_1', created_at: NOW, used_at: null },
};

/** PostgreSQL cannot store a NUL; JSON in a text has it as an escape. */
const keptText = (text: string): string => (isOnPostgres ? text.replaceAll('\0', '\uFFFD') : text);
const keptRow = (row: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === 'string' ? keptText(value) : (value as unknown),
    ]),
  );

const rowsOf = (tables: Partial<Tables>): Rows =>
  Object.fromEntries(Object.entries(tables).map(([table, row]) => [table, [row]]));

describe('storage/rows', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  it('gives back a row of each table as it went in', async () => {
    await temp.db.commit.insert(rowsOf(samples));
    for (const table of Object.keys(tables) as TableName[]) {
      const columns = tables[table].names.join(', ');
      const kept = await temp.db.prepared.all<{ name?: string }>(`SELECT ${columns} FROM ${table}`);
      // On PostgreSQL a database that is open has its epoch among the settings.
      const added = kept.filter(({ name }) => table !== 'settings' || name !== 'epoch');
      assert.deepEqual(added, [keptRow(samples[table])], table);
    }
  });

  it('writes any number of rows, over the border of one statement and not', async () => {
    for (const [at, count] of [1, 31, 32, 33, 127, 128, 129, 1000].entries()) {
      const tag = `t${at}`;
      const rows = Array.from({ length: count }, (_, n) => ({ account_id: ACCOUNT, tag, message_id: String(n) }));
      const contents = rows.map((_, n) => contentRow({ id: `${tag}-${n}`, html: `${tag} ${n}` }));
      await temp.db.commit.insert({ message_tags: rows, contents });
      assert.deepEqual(await temp.db.prepared.all('SELECT count(*) AS n FROM message_tags WHERE tag = ?', [tag]), [
        { n: count },
      ]);
      assert.deepEqual(
        await temp.db.prepared.all('SELECT count(DISTINCT html) AS n FROM contents WHERE id LIKE ?', [`${tag}-%`]),
        [{ n: count }],
      );
    }
  });

  it('adds the books’ entries up, within a unit and between them', async () => {
    await Promise.all(
      [1, 2, 3].map((n) => temp.db.commit.insert({ counters: [acceptedCounter(n), acceptedCounter(10, 'scheduled')] })),
    );
    await temp.db.commit.insert({ counters: [acceptedCounter(4), acceptedCounter(4, 'queued', 'acc_2')] });
    const rows = await temp.db.prepared.all('SELECT account_id AS a, to_status AS s, n FROM counters ORDER BY 1, 2');
    assert.deepEqual(rows, [
      { a: ACCOUNT, s: 'queued', n: 10 },
      { a: ACCOUNT, s: 'scheduled', n: 30 },
      { a: 'acc_2', s: 'queued', n: 4 },
    ]);
  });

  it('leaves a suppression that is there as it was, and replaces one that has ended or does not last, or by a complaint', async () => {
    const { suppressions: entry, accounts } = samples;
    const keep = { ...entry, id: 'sup_keep', address_key: 'keep@dest.test', expires_at: NOW + 2 };
    const ended = { ...entry, id: 'sup_ended', address_key: 'ended@dest.test', expires_at: NOW };
    const ending = { ...entry, id: 'sup_ending', address_key: 'ending@dest.test', expires_at: NOW + 2 };
    const accused = { ...entry, id: 'sup_accused', address_key: 'accused@dest.test' };
    await temp.db.commit.insert({ accounts: [accounts], suppressions: [entry, keep, ended, ending, accused] });
    const later = { ...entry, reason: 'hard_bounce' as const, created_at: NOW + 1 };
    await temp.db.commit.insert({
      suppressions: [
        { ...later, id: 'sup_2' },
        { ...later, id: 'sup_3', address_key: 'keep@dest.test', expires_at: NOW + 5 },
        { ...later, id: 'sup_4', address_key: 'ended@dest.test' },
        { ...later, id: 'sup_5', address_key: 'ending@dest.test' },
        { ...later, id: 'sup_6', address_key: 'accused@dest.test', reason: 'complaint' },
      ],
    });
    const rows = await temp.db.prepared.all('SELECT id, reason, expires_at FROM suppressions ORDER BY id');
    assert.deepEqual(rows, [
      { id: 'sup_1', reason: 'manual', expires_at: null },
      { id: 'sup_4', reason: 'hard_bounce', expires_at: null },
      { id: 'sup_5', reason: 'hard_bounce', expires_at: null },
      { id: 'sup_6', reason: 'complaint', expires_at: null },
      { id: 'sup_keep', reason: 'manual', expires_at: NOW + 2 },
    ]);
  });

  it('writes packed rows as the same rows, in their place', async () => {
    const rows = Array.from({ length: 300 }, (_, n) => ({
      ...samples.events,
      id: `evt_${String(n).padStart(3, '0')}`,
    }));
    const [first, ...packs] = [...packsOf('events', rows.slice(0, 260))];
    assert.ok(first instanceof PackedRows);
    assert.deepEqual(
      [first, ...packs].map(({ count }) => count),
      [128, 128, 4],
    );
    const mixed: RowsToWrite = { events: [first, ...packs, ...rows.slice(260)] };
    await temp.db.commit.insert(mixed);
    const kept = await temp.db.prepared.all<{ id: string; detail_json: string }>(
      `SELECT id, detail_json FROM events ORDER BY ${ROW_ORDER}`,
    );
    assert.deepEqual(
      kept,
      rows.map(({ id, detail_json }) => ({ id, detail_json })),
    );
  });

  it('takes no packed rows where they are merged with others', async () => {
    const packs = [...packsOf('counters', [acceptedCounter(1)])];
    await assert.rejects(temp.db.commit.insert({ counters: packs }), /cannot be packed/);
  });

  it('refuses what refers to nothing, and what is there already', async () => {
    await assert.rejects(temp.db.commit.insert({ domains: [samples.domains] }), /foreign key/i);
    await temp.db.commit.insert({ settings: [samples.settings] });
    await assert.rejects(temp.db.commit.insert({ settings: [samples.settings] }), /unique/i);
  });

  it('takes any text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (value) => {
        const text = value.toWellFormed();
        const kept = await temp.db.commit.transact(async (tx) => {
          await insertRows(tx, [{ settings: [{ name: 'n', value: text }] }]);
          const [row] = await tx.all<{ value: string }>("DELETE FROM settings WHERE name = 'n' RETURNING value");
          return row?.value;
        });
        assert.equal(kept, keptText(text));
      }),
      { numRuns: 50 },
    );
  });
});
