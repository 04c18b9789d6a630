/** The URL of a list answers the whole list as CSV or NDJSON, and so do the links of its page and the command. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { ran } from '../cli/ran.ts';

const SIMULATED = 'simulator.posthorn.test';
const NDJSON = 'application/x-ndjson';

describe('journey: whole lists as CSV and NDJSON', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp();
    for (let n = 0; n < 130; n += 1) await app.send({ to: `n${String(n)}@${SIMULATED}`, subject: `=1+${String(n)}` });
    await app.send({ to: `bounced@${SIMULATED}`, subject: 'Refused, "really"' });
    await app.send({ to: `opened@${SIMULATED}`, subject: 'Opened' });
    await app.request('POST', '/v1/suppressions', { email: 'gone@dest.test', note: '@home' });
    await app.settled();
  });
  after(() => app.stop());

  const whole = async (path: string, accept: string, key = app.key): Promise<string[]> => {
    const { status, text, headers } = await app.get(path, { key, headers: { accept } });
    assert.equal(status, 200, text);
    assert.equal(headers.get('content-type'), `${accept}; charset=utf-8`);
    return text.trimEnd().split('\n');
  };
  const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as Record<string, unknown>);

  it('sends every page of messages, with the records of the list', async () => {
    const lines = parsed(await whole('/v1/messages', NDJSON));
    assert.equal(new Set(lines.map(({ id }) => id)).size, 132);
    const { body } = await app.get<{ data: unknown[]; next_cursor: string }>('/v1/messages');
    assert.deepEqual(lines.slice(0, 25), body.data);
    const rest = await whole(`/v1/messages?after=${body.next_cursor}`, NDJSON);
    assert.equal(rest.length, 132 - 25);
  });

  it('keeps the filters, and lets no value begin a formula', async () => {
    const [heading, ...rows] = await whole('/v1/messages?status=bounced', 'text/csv');
    assert.match(heading ?? '', /^id,created_at,status,from,to,subject,/);
    assert.equal(rows.length, 1);
    assert.match(rows[0] ?? '', /,"Refused, ""really""",/);
    const all = await whole('/v1/messages', 'text/csv');
    assert.equal(all.filter((row) => row.includes(",'=1+")).length, 130);
  });

  it('has events, numbers, uses of keys and suppressions in the same forms', async () => {
    for (const [path, heading, row] of [
      ['/v1/events?type=bounced', /^id,timestamp,type,message_id,/, /,bounced,msg_/],
      ['/v1/stats?test=true', /^at,key,sent,delivered,/, /Z,,132,/],
      ['/v1/audit?method=post', /^at,actor,key_id,/, /,POST,/],
      ['/v1/suppressions', /^email,reason,scope,/, /^gone@dest\.test,manual,account,'@home,/],
    ] as const) {
      const lines = await whole(path, 'text/csv');
      assert.match(lines[0] ?? '', heading);
      assert.ok(
        lines.slice(1).some((line) => row.test(line)),
        lines.join('\n'),
      );
      assert.equal((await whole(path, NDJSON)).length, lines.length - 1, path);
    }
    assert.deepEqual(await whole('/v1/messages?to=nobody%40dest.test', 'text/csv').then((lines) => lines.length), 1);
  });

  it('refuses what a page refuses, and a stream backwards', async () => {
    const { body } = await app.get<{ next_cursor: string }>('/v1/messages');
    for (const [query, code] of [
      ['colour=blue', 'invalid_parameter'],
      ['after=nonsense', 'invalid_cursor'],
      [`before=${body.next_cursor}`, 'invalid_parameter'],
    ] as const) {
      const answer = await app.get<{ error: { code: string } }>(`/v1/messages?${query}`, {
        headers: { accept: 'text/csv' },
      });
      assert.deepEqual([answer.status, answer.body.error.code], [400, code], query);
    }
    const { key } = await app.operator.ask<{ key: string }>('createKey', { body: { name: 's', scopes: ['send'] } });
    assert.equal((await app.get('/v1/messages', { key, headers: { accept: NDJSON } })).status, 403);
  });

  it('shows address and program of opens only to keys that may see them', async () => {
    const { key } = await app.operator.ask<{ key: string }>('createKey', {
      body: { name: 'e', scopes: ['event:read'] },
    });
    const path = '/v1/events?type=opened';
    assert.match((await whole(path, 'text/csv')).join('\n'), /192\.0\.2\./);
    assert.doesNotMatch((await whole(path, 'text/csv', key)).join('\n'), /192\.0\.2\./);
  });

  it('is cut off when its key is revoked, and counts among the streams of its key until it is read', async () => {
    const { id, key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'm', scopes: ['message:read'] },
    });
    const { key: campaign } = await app.operator.ask<{ key: string }>('createKey', {
      body: { name: 'c', scopes: ['send', 'campaign'], mode: 'test' },
    });
    // So many that the connection does not take all at once.
    for (let n = 0; n < 40; n += 1) {
      const recipients = Array.from({ length: 100 }, (_, i) => ({ to: `b${String(n * 100 + i)}@${SIMULATED}` }));
      const body = { from: 'a@b.test', subject: 'x'.repeat(900), text: 'x', recipients };
      assert.equal((await app.request('POST', '/v1/messages', body, { key: campaign })).status, 202);
    }
    const open = (): Promise<Response> =>
      fetch(`${app.url}/v1/messages`, { headers: { authorization: `Bearer ${key}`, accept: NDJSON } });
    const streams = await Promise.all(Array.from({ length: 20 }, open));
    assert.equal((await open()).status, 429);
    for (const stream of streams.slice(1)) await stream.body?.cancel();
    await app.operator.ask('revokeKey', { params: { id } });
    await assert.rejects(streams[0]?.text() ?? Promise.resolve());
  });

  it('is a link on each page of a list, with the filters of the page', async () => {
    const browser = await signedIn(app.url, app.operator);
    for (const [page, list] of [
      ['/messages?status=bounced&range=all', 'messages'],
      ['/events?type=bounced', 'events'],
      ['/stats', 'stats'],
      ['/developer/log', 'requests'],
      ['/developer/actions?of=account', 'actions'],
      ['/suppressions', 'suppressions'],
    ] as const) {
      const { html } = await browser.open(page);
      const links = [...html.matchAll(/href="(\/(?:exports|developer\/\w+\/export)\b[^"]*)"/g)].map(([, href = '']) =>
        href.replaceAll('&amp;', '&').replaceAll('&#x3D;', '='),
      );
      assert.ok(links.length >= 2, page);
      for (const link of links) {
        const response = await browser.ask('GET', link);
        assert.equal(response.status, 200, link);
        assert.match(response.headers.get('content-disposition') ?? '', new RegExp(`filename="${list}-[-0-9]+\\.`));
        const text = await response.text();
        if (list === 'messages' || list === 'events') {
          assert.match(text, /Refused, /, link);
          assert.doesNotMatch(text, /=1\+/, link);
        }
      }
    }
    for (const [link, status] of [
      ['/exports/secrets', 404],
      ['/exports/messages?format=xml', 404],
      ['/exports/messages?colour=blue', 400],
    ] as const)
      assert.equal((await browser.open(link)).status, status, link);
  });

  it('has a command', async () => {
    const posthorn = (...args: string[]) => ran(['export', ...args], { POSTHORN_DATA_DIR: app.folder });
    const csv = await posthorn('messages', 'status=bounced');
    assert.equal(csv.code, 0, csv.notes);
    assert.match(csv.out, /^id,created_at,.*\nmsg_[^\n]*Refused[^\n]*$/);
    const { out } = await posthorn('messages', '--json');
    assert.ok(out.split('\n').length > 4000);
    assert.match((await posthorn('events', 'type=bounced')).out, /,bounced,/);
    assert.match((await posthorn('stats')).out, /^at,key,/);
    for (const [args, code, says] of [
      [['messages', 'colour=blue'], 65, /colour/],
      [['secrets'], 64, /secrets/],
      [['messages', 'bounced'], 64, /name=value/],
      [['messages', 'tag=a', 'tag=b'], 64, /given twice/],
      [['messages', 'to='], 64, /has no value/],
    ] as const) {
      const answer = await posthorn(...args);
      assert.equal(answer.code, code, args.join(' '));
      assert.match(answer.notes, says);
    }
  });
});
