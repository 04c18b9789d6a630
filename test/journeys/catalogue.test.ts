/**
 * The error catalogue, code by code, over the whole program: each row makes its code happen once, the way a caller would. Codes
 * that cannot happen yet are in a list with the part that brings them; a code in neither place, or in both, fails.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import type { Work } from '../../src/storage/commit.ts';
import { catalogue, type ProblemCode } from '../../src/base/problem.ts';
import { newId } from '../../src/base/id.ts';
import {
  ALL_SCOPES,
  startTestApp,
  type CallOptions,
  type TestApp,
  type TestAppOptions,
} from '../support/harness/app.ts';

interface Seen {
  status: number;
  header(name: string): string | null;
  text: string;
}

interface Row {
  code: ProblemCode;
  field?: string | null;
  /** An app of its own, where the row breaks or needs something special. */
  own?: TestAppOptions;
  /** Below the router there is no audit line: it is not known whose request it was. */
  below?: boolean;
  happen(app: TestApp): Promise<Seen>;
}

const MAIL = { from: 'Acme <hi@acme.test>', to: 'ana@dest.test', subject: 'Welcome', text: 'Good day.' };
const BULK = { from: 'hi@acme.test', subject: 'Welcome', text: 'Good day.' };

async function call(app: TestApp, method: string, path: string, body?: unknown, options?: CallOptions): Promise<Seen> {
  const answer = await app.request(method, path, body, options);
  return { status: answer.status, text: answer.text, header: (name) => answer.headers.get(name) };
}

const post =
  (fields: object | string, options?: CallOptions): Row['happen'] =>
  (app) =>
    call(app, 'POST', '/v1/messages', typeof fields === 'string' ? fields : { ...MAIL, ...fields }, options);

const get =
  (path: string, options?: CallOptions): Row['happen'] =>
  (app) =>
    call(app, 'GET', path, undefined, options);

/** Returns the answer of a socket to these bytes. */
function raw(app: TestApp, bytes: string): Promise<Seen> {
  const { hostname, port } = new URL(app.url);
  const socket = net.connect(Number(port), hostname);
  socket.write(bytes);
  return new Promise((resolve, reject) => {
    let text = '';
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (!text.includes('}}')) return;
      const header = (name: string): string | null =>
        new RegExp(`^${name}: (.*)$`, 'im').exec(text)?.[1]?.trim() ?? null;
      resolve({
        status: Number(text.slice(9, 12)),
        header,
        text: text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1),
      });
      socket.destroy();
    });
  });
}

const head = (app: TestApp, more: string): string =>
  `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.key}\r\nContent-Type: application/json\r\nConnection: close\r\n${more}\r\n`;

async function keyWith(
  app: TestApp,
  { account, ...more }: { account?: string; [member: string]: unknown },
): Promise<{ id: string; key: string }> {
  return app.operator.ask<{ id: string; key: string }>('createKey', {
    ...(account === undefined ? {} : { account }),
    body: { name: 'row', scopes: ALL_SCOPES, ...more },
  });
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Keeps the writer busy until the returned function is called. */
function holdWrites(app: TestApp): () => void {
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const hold: Work<null, null> = { name: 'hold', isIntake: true, run: (_tx, inputs) => gate.then(() => inputs) };
  void app.app.db.commit.submit(hold, null);
  return release;
}

const rows: readonly Row[] = [
  { code: 'invalid_request', below: true, happen: (app) => raw(app, 'nonsense\r\n\r\n') },
  {
    code: 'request_timeout',
    async happen(app) {
      const answer = raw(app, head(app, 'Content-Length: 100\r\n'));
      // The pace of a body is looked at every five seconds.
      for (let looks = 0; looks < 6; looks++) {
        await app.clock.armed(5_000);
        app.clock.advance(5_000);
      }
      return answer;
    },
  },
  {
    code: 'expectation_failed',
    field: 'Expect',
    below: true,
    happen: (app) => raw(app, head(app, 'Expect: 200-ok\r\nContent-Length: 0\r\n')),
  },
  {
    code: 'forbidden_in_test_mode',
    async happen(app) {
      const { key } = await keyWith(app, { mode: 'test' });
      return call(app, 'POST', '/v1/suppressions', { email: 'ana@dest.test' }, { key });
    },
  },
  {
    code: 'too_many_streams',
    async happen(app) {
      const { key } = await keyWith(app, {});
      const gone = new AbortController();
      const options = { headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' }, signal: gone.signal };
      for (let stream = 0; stream < 20; stream++)
        assert.equal((await fetch(`${app.url}/v1/events`, options)).status, 200);
      const refused = await get('/v1/events', { key, headers: { accept: 'text/event-stream' } })(app);
      gone.abort();
      return refused;
    },
  },
  { code: 'invalid_json', happen: post('{"from":') },
  { code: 'missing_field', field: 'subject', happen: post({ subject: null }) },
  { code: 'unknown_field', field: 'reply-to', happen: post({ 'reply-to': 'a@b.test' }) },
  { code: 'invalid_type', field: 'to', happen: post({ to: ['ana@dest.test'] }) },
  { code: 'invalid_field', field: 'subject', happen: post({ subject: '' }) },
  { code: 'field_too_long', field: 'subject', happen: post({ subject: 'x'.repeat(999) }) },
  {
    code: 'too_many_items',
    field: 'tags',
    happen: post({ tags: Array.from({ length: 11 }, (_, n) => `t${String(n)}`) }),
  },
  { code: 'mutually_exclusive_fields', field: 'to', happen: post({ recipients: [{ to: 'bo@dest.test' }] }) },
  { code: 'invalid_recipient', field: 'to', happen: post({ to: 'ana@' }) },
  {
    code: 'too_many_recipients',
    field: 'cc',
    happen: post({ cc: Array.from({ length: 51 }, (_, n) => `r${String(n)}@dest.test`) }),
  },
  {
    code: 'duplicate_recipient',
    field: 'recipients[1].to',
    happen: (app) =>
      call(app, 'POST', '/v1/messages', {
        ...BULK,
        on_error: 'abort',
        recipients: [{ to: 'ana@dest.test' }, { to: 'Ana@Dest.test' }],
      }),
  },
  {
    code: 'no_valid_recipients',
    field: 'recipients',
    happen: (app) => call(app, 'POST', '/v1/messages', { ...BULK, recipients: [{ to: 'ana@' }] }),
  },
  { code: 'invalid_sender', field: 'from', happen: post({ from: 'nobody' }) },
  { code: 'invalid_address', field: 'reply_to', happen: post({ reply_to: 'nobody' }) },
  { code: 'missing_content', field: 'html', happen: post({ text: null }) },
  { code: 'invalid_header', field: 'headers.X-A', happen: post({ headers: { 'X-A': 'one\r\nBcc: x@y.test' } }) },
  { code: 'header_not_allowed', field: 'headers.Bcc', happen: post({ headers: { Bcc: 'x@y.test' } }) },
  {
    code: 'invalid_attachment',
    field: 'attachments[0].content',
    happen: post({ attachments: [{ filename: 'a.txt', content: 'no base64!' }] }),
  },
  {
    code: 'attachment_type_not_allowed',
    field: 'attachments[0].filename',
    happen: post({ attachments: [{ filename: 'a.exe', content: 'AAAA' }] }),
  },
  { code: 'unknown_template', field: 'template_id', happen: post({ text: null, template_id: 'nowhere' }) },
  {
    code: 'template_syntax_error',
    field: 'html',
    happen: (app) => call(app, 'POST', '/v1/templates', { html: '{{#if a}}' }),
  },
  {
    code: 'template_render_failed',
    field: 'text',
    happen: post({ text: '{{ 1 | divided_by: n }}', variables: { n: 0 } }),
  },
  {
    code: 'missing_variable',
    field: 'variables.name',
    happen: post({ text: '{{ name }}', variables: {}, strict_variables: true }),
  },
  {
    code: 'invalid_webhook_url',
    field: 'url',
    happen: (app) => call(app, 'POST', '/v1/webhooks', { url: 'http://hooks.acme.test/' }),
  },
  {
    code: 'webhook_url_forbidden',
    field: 'url',
    happen: (app) => call(app, 'POST', '/v1/webhooks', { url: 'https://[::ffff:169.254.169.254]/' }),
  },
  {
    code: 'unknown_event_type',
    field: 'events[1]',
    happen: (app) => call(app, 'POST', '/v1/webhooks', { url: 'https://hooks.acme.test/', events: ['sent', 'read'] }),
  },
  { code: 'unknown_stream', field: 'stream', happen: post({ stream: 'nowhere' }) },
  { code: 'invalid_send_at', field: 'send_at', happen: post({ send_at: 'tomorrow' }) },
  { code: 'invalid_parameter', field: 'colour', happen: get('/v1/messages?colour=red') },
  { code: 'invalid_cursor', field: 'after', happen: get('/v1/messages?after=abc') },
  {
    code: 'invalid_idempotency_key',
    field: 'Idempotency-Key',
    happen: post({}, { headers: { 'idempotency-key': 'x'.repeat(256) } }),
  },
  { code: 'missing_api_key', below: true, happen: get('/v1/messages', { key: null }) },
  { code: 'invalid_api_key', below: true, happen: get('/v1/messages', { key: 'ak_live_nobody' }) },
  {
    code: 'key_expired',
    async happen(app) {
      const { key } = await keyWith(app, { ttl: 1 });
      app.clock.advance(1001);
      return call(app, 'GET', '/v1/messages', undefined, { key });
    },
  },
  {
    code: 'key_revoked',
    async happen(app) {
      const { id, key } = await keyWith(app, {});
      await app.operator.ask('revokeKey', { params: { id } });
      return call(app, 'GET', '/v1/messages', undefined, { key });
    },
  },
  {
    code: 'insufficient_scope',
    async happen(app) {
      const { key } = await keyWith(app, { scopes: ['domain:read'] });
      return call(app, 'POST', '/v1/messages', MAIL, { key });
    },
  },
  {
    code: 'ip_not_allowed',
    async happen(app) {
      const { key } = await keyWith(app, { allowed_ips: ['192.0.2.0/24'] });
      return call(app, 'GET', '/v1/messages', undefined, { key });
    },
  },
  { code: 'domain_not_verified', field: 'from', happen: post({ from: 'hi@elsewhere.test' }) },
  {
    code: 'domain_not_allowed',
    field: 'from',
    async happen(app) {
      const { key } = await keyWith(app, { domains: ['other.test'] });
      return call(app, 'POST', '/v1/messages', MAIL, { key });
    },
  },
  { code: 'not_found', happen: get('/v1/nothing') },
  { code: 'method_not_allowed', happen: (app) => call(app, 'DELETE', '/v1/messages') },
  { code: 'not_acceptable', field: 'Accept', happen: get('/v1/messages', { headers: { accept: '*/*;q=0' } }) },
  {
    code: 'idempotency_key_reused',
    field: 'Idempotency-Key',
    own: { settings: { idempotency: { onMismatch: 'error' } } },
    async happen(app) {
      const headers = { 'idempotency-key': 'one' };
      await app.send({}, { headers });
      return post({ subject: 'Another' }, { headers })(app);
    },
  },
  {
    code: 'sending_paused',
    own: {},
    async happen(app) {
      await app.operator.call('accounts.pause', { account: 'default', paused: true });
      return post({})(app);
    },
  },
  {
    code: 'quota_exceeded',
    own: { settings: { plans: { tiny: { requestsPerMinute: 100, mailsPerDay: 1 } } } },
    async happen(app) {
      await app.operator.call('accounts.plan', { account: 'default', plan: 'tiny' });
      await app.send();
      return post({})(app);
    },
  },
  {
    code: 'already_exists',
    field: 'alias',
    async happen(app) {
      await call(app, 'POST', '/v1/templates', { alias: 'twice', text: 'x' });
      return call(app, 'POST', '/v1/templates', { alias: 'twice', text: 'x' });
    },
  },
  {
    code: 'invalid_state',
    async happen(app) {
      await call(app, 'POST', '/v1/suppressions', { email: 'cross@dest.test', reason: 'complaint' });
      return call(app, 'DELETE', '/v1/suppressions/cross%40dest.test');
    },
  },
  {
    code: 'recipient_suppressed',
    field: 'to',
    async happen(app) {
      const { id } = await app.operator.call('accounts.list', {}).then(({ data }) => data[0] ?? assert.fail());
      const row = {
        id: newId('sup', app.clock.now()),
        account_id: id,
        email: 'gone@dest.test',
        address_key: 'gone@dest.test',
        scope: 'account',
        reason: 'manual' as const,
        source_message_id: null,
        note: null,
        created_at: app.clock.now(),
        created_by: 'test',
        expires_at: null,
      };
      await app.app.db.commit.insert({ suppressions: [row] });
      return post({ to: 'gone@dest.test', on_suppressed: 'reject' })(app);
    },
  },
  {
    code: 'payload_too_large',
    own: { settings: { limits: { bodyBytes: '1MiB', singleBodyBytes: '512KiB' } } },
    happen: post({ text: 'x'.repeat(2_000_000) }),
  },
  {
    code: 'message_too_large',
    field: 'attachments',
    happen: post({
      attachments: [0, 1, 2].map((n) => ({ filename: `${String(n)}.bin`, content: 'A'.repeat(9 * 1024 * 1024) })),
    }),
  },
  {
    code: 'unsupported_media_type',
    happen: post({}, { headers: { 'content-type': 'text/plain' } }),
  },
  {
    code: 'rate_limited',
    own: { settings: { plans: { tiny: { requestsPerMinute: 1 } } } },
    async happen(app) {
      await app.operator.call('accounts.add', { name: 'small', plan: 'tiny' });
      const { key } = await keyWith(app, { account: 'small' });
      assert.equal((await call(app, 'GET', '/v1/messages', undefined, { key })).status, 200);
      return call(app, 'GET', '/v1/messages', undefined, { key });
    },
  },
  {
    code: 'internal_error',
    own: {},
    async happen(app) {
      await app.app.db.commit.transact((tx) => tx.run('ALTER TABLE domains RENAME TO elsewhere'));
      return call(app, 'GET', '/v1/domains');
    },
  },
  { code: 'service_unavailable', own: { settings: { storage: { minFreeBytes: '1TiB' } } }, happen: post({}) },
  {
    code: 'idempotency_in_progress',
    async happen(app) {
      const headers = { 'idempotency-key': 'slow' };
      const release = holdWrites(app);
      const first = post({}, { headers })(app);
      while (app.app.db.commit.waiting === 0) await turn();
      const waits = app.clock.armed(25_000);
      const second = post({}, { headers })(app);
      await waits;
      app.clock.advance(25_000);
      // The line in the audit log is written before the answer, so the writer must be free for it.
      release();
      const seen = await second;
      assert.equal((await first).status, 202);
      return seen;
    },
  },
  {
    code: 'timeout',
    async happen(app) {
      const parses = app.clock.armed(20_000);
      // Over 256 KiB is read in a thread, which is given 20 s.
      const answer = post({ html: 'x'.repeat(4_000_000) })(app);
      await parses;
      app.clock.advance(20_000);
      return answer;
    },
  },
];

/** Codes of parts that are not there yet. */
const later: Partial<Record<ProblemCode, string>> = {
  version_gone: 'the first endpoint past its sunset (test/api/route.test.ts declares one)',
};

describe('the error catalogue', () => {
  let shared: TestApp;
  before(async () => {
    shared = await startTestApp();
  });
  after(() => shared.stop());

  for (const row of rows) {
    it(`${row.code} (${String(catalogue[row.code].status)})`, async () => {
      const app = row.own === undefined ? shared : await startTestApp(row.own);
      try {
        const requestId = check(row, await row.happen(app));
        if (row.below !== true && row.own === undefined) await assertAudited(app, row.code, requestId);
      } finally {
        if (row.own !== undefined) await app.stop();
      }
    });
  }

  it('has every code, either here or in the list of what comes later', () => {
    const named = [...rows.map(({ code }) => code), ...Object.keys(later)];
    assert.deepEqual(named.toSorted(), Object.keys(catalogue).toSorted());
  });
});

/** The envelope and the headers that every error has; gives the request id. */
function check({ code, field = null }: Row, { status, header, text }: Seen): string {
  assert.equal(status, catalogue[code].status, text);
  const envelope = JSON.parse(text) as { error: Record<string, unknown> };
  assert.deepEqual(Object.keys(envelope), ['error']);
  const { error } = envelope;
  assert.deepEqual(Object.keys(error).toSorted(), ['code', 'field', 'message', 'request_id']);
  assert.equal(error['code'], code, text);
  assert.equal(error['field'], field, text);
  assert.ok(typeof error['message'] === 'string' && error['message'].length > 10, text);
  assert.equal(error['request_id'], header('x-request-id'));
  assert.match(String(error['request_id']), /^req_[0-9a-z]{26}$/);
  for (const name of ['limit', 'remaining', 'reset']) assert.match(header(`x-ratelimit-${name}`) ?? '', /^\d+$/, name);
  if (status >= 500 || status === 429) assert.match(header('retry-after') ?? '', /^[1-9]\d*$/);
  if (status === 401) assert.match(header('www-authenticate') ?? '', /^Bearer realm="api"/);
  if (code === 'insufficient_scope')
    assert.match(header('www-authenticate') ?? '', /error="insufficient_scope", scope="/);
  if (status === 405) assert.match(header('allow') ?? '', /GET/);
  return String(error['request_id']);
}

/** Refused calls have their line in the audit log before the answer, those of 503 a moment later. */
async function assertAudited(app: TestApp, code: ProblemCode, requestId: string): Promise<void> {
  if (catalogue[code].status === 503) {
    app.clock.advance(100);
    // The next commit has the lines with it.
    await app.app.db.commit.insert({});
  }
  const lines = await app.app.db.prepared.all<{ error_code: string }>(
    'SELECT error_code FROM audit WHERE request_id = ?',
    [requestId],
  );
  assert.deepEqual(lines, [{ error_code: code }]);
}
