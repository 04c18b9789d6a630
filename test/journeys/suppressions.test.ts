/** The suppression list by API: what it takes, what it shows, and what it does to mail. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

interface Entry {
  object: string;
  id: string;
  email: string;
  reason: string;
  scope: string;
  note: string | null;
  created_by: string;
  source_message_id: string | null;
  expires_at: string | null;
}
interface List {
  data: Entry[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}
interface Results {
  object: string;
  data: {
    index: number;
    email: string;
    id: string | null;
    result: string;
    error: { code: string; message: string; field: string } | null;
  }[];
}
interface Refused {
  error: { code: string; message: string; field: string | null };
}

describe('journey: suppressions', () => {
  let server: FakeMailServer;
  let app: TestApp;
  const refuse = new Set<string>();

  beforeEach(async () => {
    refuse.clear();
    server = await startMailServer({
      script: {
        rcpt: (line) => ([...refuse].some((to) => line.includes(to)) ? '550 5.1.1 no such user' : '250 2.1.5 ok'),
      },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const add = (body: object, headers: Record<string, string> = {}) =>
    app.request<Entry & Results & Refused>('POST', '/v1/suppressions', body, { headers });
  const list = async (query = ''): Promise<List> => (await app.get<List>(`/v1/suppressions${query}`)).body;
  const one = (email: string, query = '') =>
    app.get<Entry & Refused>(`/v1/suppressions/${encodeURIComponent(email)}${query}`);
  const remove = (email: string, query = '') =>
    app.request<Refused>('DELETE', `/v1/suppressions/${encodeURIComponent(email)}${query}`);

  it('adds an address once: 201 with its place, then 200 with the old entry', async () => {
    const first = await add({ email: 'Ana@Dest.TEST', note: 'asked by phone' });
    assert.equal(first.status, 201, first.text);
    assert.equal(first.headers.get('location'), '/v1/suppressions/Ana%40dest.test');
    const { id, ...rest } = first.body;
    assert.match(id, /^sup_[0-9a-z]{26}$/);
    assert.deepEqual(rest, {
      object: 'suppression',
      email: 'Ana@dest.test',
      reason: 'manual',
      scope: 'account',
      source_message_id: null,
      note: 'asked by phone',
      created_at: new Date(app.clock.now()).toISOString(),
      created_by: 'key:journey',
      expires_at: null,
    });
    const again = await add({ email: 'ana@dest.test', note: 'again' });
    assert.deepEqual([again.status, again.body], [200, first.body]);
    assert.deepEqual((await one('ANA@dest.test')).body, first.body);
  });

  it('adds a thousand, and tells what became of each', async () => {
    await add({ email: 'r3@dest.test' });
    const emails = Array.from({ length: 1000 }, (_, n) => (n === 5 ? 'nobody' : `r${String(n)}@dest.test`));
    emails[7] = 'R6@dest.test';
    const answer = await add({ emails, reason: 'unsubscribe', stream: 'broadcast' });
    assert.equal(answer.status, 200, answer.text);
    const { data } = answer.body;
    assert.equal(data.length, 1000);
    assert.deepEqual(
      data.map(({ index }) => index),
      emails.map((_, n) => n),
    );
    assert.deepEqual(
      [3, 5, 6, 7].map((n) => data[n]?.result),
      ['created', 'rejected', 'created', 'existing'],
    );
    assert.deepEqual(
      [data[5]?.id, data[5]?.error?.code, data[5]?.error?.field],
      [null, 'invalid_address', 'emails[5]'],
    );
    assert.equal(data[5]?.error?.message, '`emails[5]` is not a mail address: there is no @.');
    assert.equal(data[7]?.id, data[6]?.id);
    assert.equal((await add({ emails: [...emails, 'one@more.test'] })).body.error.code, 'too_many_items');
  });

  it('imports the export of another service; a preview adds nothing', async () => {
    const content =
      'email,reason,stream\nana@dest.test,550 no such user,\nbo@dest.test,spam,broadcast\ncy@dest.test,spam,none\nx,spam,\n';
    const send = (more: object) => app.request('POST', '/v1/suppressions/import', { content, ...more });
    const preview = await send({ preview: true });
    assert.deepEqual(preview.body['by_reason'], { hard_bounce: 1, complaint: 2 });
    assert.equal((await app.get<List>('/v1/suppressions')).body.data.length, 0);
    const { status, body } = await send({});
    assert.equal(status, 200);
    assert.deepEqual(
      [body['created'], body['rejected_count'], (body['rejected'] as { line: number }[]).map(({ line }) => line)],
      [2, 2, [4, 5]],
    );
    const { data } = (await app.get<List>('/v1/suppressions')).body;
    assert.deepEqual(data.map(({ email, reason, scope, note }) => [email, reason, scope, note]).sort(), [
      ['ana@dest.test', 'hard_bounce', 'account', '550 no such user'],
      ['bo@dest.test', 'complaint', 'stream:broadcast', null],
    ]);
    assert.equal((await send({ content: '{}' })).status, 400);
  });

  it('refuses what it cannot take', async () => {
    const rows = [
      [{}, 'missing_field', 'email'],
      [{ email: 'a@b.test', emails: ['c@d.test'] }, 'mutually_exclusive_fields', 'emails'],
      [{ email: 'nobody' }, 'invalid_address', 'email'],
      [{ email: '*@b.test' }, 'invalid_address', 'email'],
      [{ email: 7 }, 'invalid_type', 'email'],
      [{ emails: [] }, 'invalid_field', 'emails'],
      [{ email: 'a@b.test', reason: 'whim' }, 'invalid_field', 'reason'],
      [{ email: 'a@b.test', note: 'x'.repeat(501) }, 'field_too_long', 'note'],
      [{ email: 'a@b.test', stream: 'nowhere' }, 'unknown_stream', 'stream'],
      [{ email: 'a@b.test', expires_at: '2020-01-01T00:00:00Z' }, 'invalid_field', 'expires_at'],
      [{ email: 'a@b.test', expires_at: 'soon' }, 'invalid_field', 'expires_at'],
      [{ email: 'a@b.test', emial: 1 }, 'unknown_field', 'emial'],
    ] as const;
    const says: Record<string, RegExp> = {
      'email nobody': /^This is not a mail address: there is no @\.$/,
      'email *@b.test': /an entry is for one address, not for a domain\.$/,
      'expires_at soon': /^`expires_at` must be an RFC 3339 time with an offset, such as /,
    };
    for (const [body, code, field] of rows) {
      const { status, body: answer, text } = await add(body);
      assert.match(answer.error.message, says[`${field} ${String((body as Record<string, unknown>)[field])}`] ?? /./);
      assert.deepEqual([status, answer.error.code, answer.error.field], [400, code, field], text);
    }
    assert.deepEqual((await list()).data, []);
  });

  it('answers a repeated request from its idempotency record', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await add({ email: 'ana@dest.test' }, headers);
    await remove('ana@dest.test');
    const again = await add({ email: 'ana@dest.test' }, headers);
    assert.deepEqual([again.status, again.text, again.headers.get('idempotency-replayed')], [201, first.text, 'true']);
    assert.equal((await one('ana@dest.test')).status, 404, 'nothing was added a second time');
  });

  it('lists in pages and by filter', async () => {
    for (const n of [1, 2, 3, 4, 5])
      await add({
        email: `r${String(n)}@dest.test`,
        reason: n === 2 ? 'unsubscribe' : 'manual',
        ...(n === 4 ? { stream: 'broadcast' } : {}),
      });
    const names = ({ data }: List): string[] => data.map(({ email }) => email.slice(0, 2));
    const first = await list('?limit=2');
    assert.deepEqual([names(first), first.has_more, first.previous_cursor], [['r5', 'r4'], true, null]);
    const second = await list(`?limit=2&after=${first.next_cursor ?? ''}`);
    assert.deepEqual(names(second), ['r3', 'r2']);
    assert.deepEqual(names(await list(`?limit=2&before=${second.previous_cursor ?? ''}`)), ['r5', 'r4']);
    assert.deepEqual(names(await list('?reason=unsubscribe')), ['r2']);
    assert.deepEqual(names(await list('?stream=broadcast')), ['r4']);
    assert.deepEqual(names(await list('?scope=account')), ['r5', 'r3', 'r2', 'r1']);
    const foreign = await app.get<Refused>(`/v1/suppressions?reason=manual&after=${first.next_cursor ?? ''}`);
    assert.equal(foreign.body.error.code, 'invalid_cursor');
  });

  it('removes by address and stream; a complaint only by force', async () => {
    await add({ email: 'ana@dest.test', stream: 'broadcast' });
    await add({ email: 'ana@dest.test', reason: 'complaint' });
    const refused = await remove('ana@dest.test');
    assert.deepEqual([refused.status, refused.body.error.code], [409, 'invalid_state']);
    assert.equal((await remove('ana@dest.test', '?stream=broadcast')).status, 204);
    assert.equal((await one('ana@dest.test')).body.reason, 'complaint');
    assert.equal((await remove('ana@dest.test', '?force=true')).status, 204);
    const gone = await remove('ana@dest.test');
    assert.deepEqual([gone.status, gone.body.error.code, gone.body.error.field], [404, 'not_found', 'email']);
  });

  it('keeps accounts apart and needs its scopes', async () => {
    await add({ email: 'ana@dest.test' });
    await app.operator.call('accounts.add', { name: 'other' });
    const made = (scopes: string[], account?: string) =>
      app.operator.ask<{ id: string; key: string }>('createKey', {
        account,
        body: { name: 'k', scopes },
      });
    const { key: foreign } = await made(['suppression'], 'other');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test', { key: foreign })).status, 404);
    assert.equal(
      (await app.request('DELETE', '/v1/suppressions/ana%40dest.test', undefined, { key: foreign })).status,
      404,
    );
    const { key: reader } = await made(['suppression:read']);
    assert.equal((await app.get('/v1/suppressions', { key: reader })).status, 200);
    for (const method of ['POST', 'DELETE']) {
      const path = method === 'POST' ? '/v1/suppressions' : '/v1/suppressions/ana%40dest.test';
      const answer = await app.request(method, path, method === 'POST' ? { email: 'b@b.test' } : undefined, {
        key: reader,
      });
      assert.equal(answer.status, 403, method);
    }
  });

  it('ends by itself', async () => {
    const expires_at = new Date(app.clock.now() + 60_000).toISOString();
    assert.equal((await add({ email: 'ana@dest.test', expires_at })).body.expires_at, expires_at);
    assert.equal((await app.send({ to: 'ana@dest.test' })).status, 'suppressed');
    app.clock.advance(60_001);
    assert.equal((await one('ana@dest.test')).status, 404);
    assert.equal((await app.send({ to: 'ana@dest.test' })).status, 'queued');
    assert.equal((await add({ email: 'ana@dest.test' })).status, 201, 'a new entry takes the place of the ended one');
  });

  it('is filled by a hard bounce, holds mail back, and lets it go when the entry is removed', async () => {
    refuse.add('gone@dest.test');
    const first = await app.send({ to: 'gone@dest.test' });
    await app.follow().of(first.id, 'bounced');
    const { body: entry } = await one('gone@dest.test');
    assert.deepEqual([entry.reason, entry.source_message_id, entry.created_by], ['hard_bounce', first.id, 'posthorn']);
    assert.equal((await app.send({ to: 'gone@dest.test' })).status, 'suppressed');
    refuse.clear();
    await remove('gone@dest.test');
    const last = await app.send({ to: 'gone@dest.test' });
    await app.follow().of(last.id, 'delivered');
  });

  it('stops mail that was accepted before the address was added', async () => {
    const send_at = new Date(app.clock.now() + 3_600_000).toISOString();
    const waiting = await app.send({ send_at });
    await add({ email: 'ana@dest.test' });
    await app.nextAttempt(waiting.id);
    assert.equal((await app.message(waiting.id)).status, 'suppressed');
    assert.deepEqual(
      server.sessions.flatMap(({ lines }) => lines.filter((line) => line.startsWith('MAIL'))),
      [],
    );
    const books = await app.operator.call('books', {});
    assert.ok(books.balanced, books.faults.join());
  });
});
