/** The event log as its readers see it: pages, long polls and streams, beside mail that is being delivered. */
import assert from 'node:assert/strict';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { startTestApp, type Answer, type SeenEvent, type TestApp } from '../support/harness/app.ts';

interface Page {
  data: SeenEvent[];
  has_more: boolean;
  next_cursor: string;
  previous_cursor: string | null;
}

const SIMULATED = 'simulator.posthorn.test';

/** An open event stream. */
class Stream {
  readonly events: EventSourceMessage[] = [];
  readonly comments: string[] = [];
  /** The id with which a client comes back. */
  lastId: string | null = null;
  readonly headers: Headers;
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private readonly parser = createParser({
    onEvent: (event) => this.events.push(event),
    onComment: (comment) => this.comments.push(comment),
  });

  constructor(response: Response) {
    assert.equal(response.status, 200);
    assert.ok(response.body);
    this.headers = response.headers;
    this.reader = response.body.getReader();
  }

  /** Reads until `enough` holds; false if the stream ended before. */
  async until(enough: () => boolean): Promise<boolean> {
    while (!enough()) {
      const { done, value } = await this.reader.read();
      if (done) return false;
      const text = Buffer.from(value).toString();
      this.lastId = [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? this.lastId;
      this.parser.feed(text);
    }
    return true;
  }

  /** Resolves when the server ends the stream. */
  ended(): Promise<boolean> {
    return this.until(() => false).then((reached) => !reached);
  }

  close(): Promise<void> {
    return this.reader.cancel();
  }

  data(): SeenEvent[] {
    return this.events.map(({ data }) => JSON.parse(data) as SeenEvent);
  }
}

describe('journey: events', () => {
  let app: TestApp;

  beforeEach(async () => {
    app = await startTestApp();
  });

  afterEach(() => app.stop());

  const page = async (query: string): Promise<Page> => {
    const answer: Answer<Page> = await app.get<Page>(`/v1/events?${query}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  };

  const open = async (query = '', headers: Record<string, string> = {}, key = app.key): Promise<Stream> =>
    new Stream(
      await fetch(`${app.url}/v1/events${query}`, {
        headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream', ...headers },
      }),
    );

  /** Mail of all ends; returns when all events are there. */
  async function someMail(): Promise<SeenEvent[]> {
    const ends = ['delivered', 'bounced', 'complained', 'opened', 'clicked'];
    for (const end of ends) {
      await app.send({ to: `${end}@${SIMULATED}`, tags: [end, 'all'] });
      app.clock.advance(1000);
    }
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'test', scopes: ['send', 'campaign'], mode: 'test' },
    });
    const bulk = {
      from: 'a@b.test',
      subject: 'x',
      text: 'x',
      recipients: [{ to: 'One@dest.test' }, { to: 'two@dest.test' }],
    };
    assert.equal((await app.request('POST', '/v1/messages', bulk, { key })).status, 202);
    return app
      .follow()
      .until(
        (seen) =>
          ends.every((end) => seen.some(({ type, data }) => type === end && data.tags.includes(end))) &&
          seen.filter(({ data }) => data.batch_id !== null).length === 4,
      );
  }

  it('keeps at most 20 streams open for a key, and takes the next when one has ended', async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => open()));
    const refused = await app.get<{ error: { code: string; message: string } }>('/v1/events', {
      headers: { accept: 'text/event-stream' },
    });
    assert.deepEqual([refused.status, refused.body.error.code], [429, 'too_many_streams']);
    assert.match(refused.body.error.message, /20 open streams of this key/);
    assert.equal((await app.get('/v1/events')).status, 200, 'pages are no streams');
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'k', scopes: ['event:read'] },
    });
    streams.push(await open('', {}, key));
    await streams.shift()?.close();
    for (;;) {
      const again = await fetch(`${app.url}/v1/events`, {
        headers: { authorization: `Bearer ${app.key}`, accept: 'text/event-stream' },
      });
      await again.body?.cancel();
      if (again.status === 200) break;
    }
    for (const stream of streams) await stream.close();
  });

  it('counts NDJSON that is under way among the open streams of a key', async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => open()));
    const accept = 'application/x-ndjson';
    assert.equal((await app.get('/v1/events', { headers: { accept } })).status, 429);
    for (const stream of streams) await stream.close();
  });

  it('`after=end` misses nothing of what comes later', async () => {
    await app.send({ to: `delivered@${SIMULATED}` });
    await app.follow().until((seen) => seen.some(({ type }) => type === 'delivered'));
    const { data, next_cursor: next } = await page('after=end');
    assert.deepEqual(data, []);
    await app.send({ to: `delivered@${SIMULATED}` });
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === 2);
    assert.deepEqual(
      (await page(`after=${next}`)).data.map(({ type }) => type),
      ['sent', 'delivered'],
    );
  });

  it('pages through the log by cursor and by event id, forwards and backwards, without a hole', async () => {
    const all = await someMail();
    const sequences = all.map(({ sequence }) => sequence);
    assert.deepEqual(
      sequences,
      sequences.toSorted((a, b) => a - b),
    );
    const forwards: SeenEvent[] = [];
    let after = '';
    for (let more = true; more;) {
      const { data, has_more, next_cursor } = await page(`limit=3${after}`);
      forwards.push(...data);
      more = has_more;
      after = `&after=${next_cursor}`;
    }
    assert.deepEqual(forwards, all);
    const backwards: SeenEvent[] = [];
    let before = after.replace('after', 'before');
    for (let more = true; more;) {
      const { data, has_more, previous_cursor } = await page(`limit=4${before}`);
      backwards.unshift(...data);
      more = has_more;
      before = `&before=${previous_cursor ?? ''}`;
    }
    // The cursor is the last event, so it is not among those before it.
    assert.deepEqual(backwards, all.slice(0, -1));
    const fifth = all[4];
    assert.deepEqual((await page(`after=${fifth?.id ?? ''}&limit=1000`)).data, all.slice(5));
    assert.deepEqual((await page(`before=${fifth?.id ?? ''}&limit=1000`)).data, all.slice(0, 4));
    const empty = await page(`after=${all.at(-1)?.id ?? ''}`);
    assert.deepEqual([empty.data, empty.has_more], [[], false]);
    assert.ok(empty.next_cursor, 'never null');
    assert.deepEqual((await page(`after=${empty.next_cursor}&type=delivered`)).data, [], 'good under any filter');
  });

  it('filters by each parameter', async () => {
    const all = await someMail();
    const middle = all[5]?.timestamp ?? '';
    const messageId = all[3]?.data.message_id ?? '';
    const batchId = all.at(-1)?.data.batch_id ?? '';
    const rows: [string, (event: SeenEvent) => boolean][] = [
      ['type=delivered', ({ type }) => type === 'delivered'],
      ['type=opened,clicked', ({ type }) => type === 'opened' || type === 'clicked'],
      [`message_id=${messageId}`, ({ data }) => data.message_id === messageId],
      ['recipient=oNe@dest.test', ({ data }) => data.recipient === 'One@dest.test'],
      [`batch_id=${batchId}`, ({ data }) => data.batch_id === batchId],
      ['tag=all', ({ data }) => data.tags.includes('all')],
      ['tag=opened&type=sent', ({ type, data }) => data.tags.includes('opened') && type === 'sent'],
      [`occurred_after=${middle}`, ({ timestamp }) => timestamp >= middle],
      [`occurred_before=${middle}`, ({ timestamp }) => timestamp < middle],
      ['test=true', ({ test }) => test],
      ['test=false', ({ test }) => !test],
    ];
    for (const [query, matches] of rows) {
      const expected = all.filter(matches);
      assert.ok(
        query === 'test=false' || (expected.length > 0 && expected.length < all.length) || query === 'test=true',
        query,
      );
      assert.deepEqual((await page(`${query}&limit=1000`)).data, expected, query);
    }
  });

  it('refuses what it does not understand, in every form', async () => {
    const rows: [string, string][] = [
      ['after=nonsense', 'invalid_cursor'],
      ['after=evt_01jz0000000000000000000000', 'invalid_cursor'],
      ['type=exploded', 'invalid_parameter'],
      ['wait=31', 'invalid_parameter'],
      ['limit=1001', 'invalid_parameter'],
      ['colour=red', 'invalid_parameter'],
    ];
    for (const accept of ['application/json', 'text/event-stream', 'application/x-ndjson']) {
      for (const [query, code] of rows) {
        const answer = await app.get<{ error: { code: string } }>(`/v1/events?${query}`, { headers: { accept } });
        assert.deepEqual([answer.status, answer.body.error.code], [400, code], `${accept} ${query}`);
      }
    }
    const { next_cursor } = await page('');
    const both = await app.get<{ error: { code: string } }>(`/v1/events?after=${next_cursor}&before=${next_cursor}`);
    assert.equal(both.body.error.code, 'mutually_exclusive_fields');
    const stream = await app.get<{ error: { code: string } }>(`/v1/events?before=${next_cursor}`, {
      headers: { accept: 'text/event-stream' },
    });
    assert.equal(stream.body.error.code, 'invalid_parameter');
  });

  it('long poll: answers an event at once, and nothing when the time is over', async () => {
    const waiting = app.clock.armed(30_000);
    const polled = page('wait=30');
    await waiting;
    const begun = app.clock.now();
    const { id } = await app.send({ to: `delivered@${SIMULATED}` });
    const { data } = await polled;
    assert.equal(data[0]?.data.message_id, id);
    assert.equal(app.clock.now(), begun, 'no timer was needed');
    await app.settled();

    const { next_cursor } = await page('limit=1000');
    const armed = app.clock.armed(5_000);
    const late = page(`after=${next_cursor}&wait=5`);
    await armed;
    app.clock.advance(5_000);
    const empty = await late;
    assert.deepEqual([empty.data, empty.has_more], [[], false]);
  });

  it('SSE: id, event and data; starts at now, or after Last-Event-ID, or at the start', async () => {
    const first = await app.send({ to: `delivered@${SIMULATED}` });
    await app.follow().of(first.id, 'delivered');
    const stream = await open('?type=sent,delivered');
    assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream/);
    assert.ok(stream.headers.get('x-request-id'));
    await stream.until(() => stream.comments.length === 1);
    const second = await app.send({ to: `opened@${SIMULATED}` });
    await stream.until(() => stream.events.length === 2);
    assert.deepEqual(
      stream.data().map(({ data }) => data.message_id),
      [second.id, second.id],
    );
    assert.deepEqual(
      stream.events.map(({ event }) => event),
      ['sent', 'delivered'],
    );
    assert.deepEqual(stream.data()[0], (await page(`message_id=${second.id}`)).data[0], 'the same record as in a page');
    await stream.close();

    const resumed = await open('', { 'last-event-id': stream.events[0]?.id ?? '' });
    await resumed.until(() => resumed.events.length === 2);
    assert.deepEqual(
      resumed.data().map(({ type }) => type),
      ['delivered', 'opened'],
    );
    await resumed.close();

    const refused = await app.get<{ error: { code: string; field: string } }>('/v1/events', {
      headers: { accept: 'text/event-stream', 'last-event-id': 'damaged' },
    });
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.field],
      [400, 'invalid_cursor', 'Last-Event-ID'],
    );

    // A client without an event so far may send an empty one.
    const whole = await open('?after=start', { 'last-event-id': '' });
    await whole.until(() => whole.events.length === 5);
    assert.deepEqual(whole.data(), (await page('limit=1000')).data);
    await whole.close();
    const byId = await open(`?after=${whole.data()[3]?.id ?? ''}`);
    await byId.until(() => byId.events.length === 1);
    assert.deepEqual(byId.data(), whole.data().slice(4));
    await byId.close();
  });

  it('SSE: a comment after each 15 s of silence', async () => {
    let armed = app.clock.armed(15_000);
    const stream = await open();
    for (let comments = 2; comments <= 4; comments++) {
      await armed;
      app.clock.advance(14_999);
      armed = app.clock.armed(15_000);
      app.clock.advance(1);
      await stream.until(() => stream.comments.length === comments);
    }
    await stream.close();
  });

  it('SSE: a comment after 15 s in which only events were written that the stream does not want, with an id to go on from', async () => {
    const stream = await open('?type=complained');
    await stream.until(() => stream.comments.length === 1);
    for (let mails = 0; mails < 4; mails++) {
      const { id } = await app.send({ to: `delivered@${SIMULATED}` });
      await app.follow().of(id, 'delivered');
      app.clock.advance(6_000);
    }
    assert.equal(await stream.until(() => stream.comments.length >= 2 && stream.lastId !== null), true);
    await stream.close();
    const { id } = await app.send({ to: `complained@${SIMULATED}` });
    await app.follow().of(id, 'complained');
    const resumed = await open('?type=complained', { 'last-event-id': stream.lastId ?? '' });
    await resumed.until(() => resumed.events.length === 1);
    assert.equal(resumed.data()[0]?.data.message_id, id);
    await resumed.close();
  });

  it('SSE and long poll end when their key is revoked, and those of other keys go on', async () => {
    const { key, id } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'short', scopes: ['event:read'] },
    });
    const armed = app.clock.armed(30_000);
    const polled = app.get<Page>('/v1/events?wait=30', { key });
    await armed;
    const [revoked, other] = [await open('', {}, key), await open()];
    await app.operator.ask('revokeKey', { params: { id } });
    assert.equal(await revoked.ended(), true);
    assert.equal((await polled).status, 200);
    assert.equal((await app.get('/v1/events', { key })).status, 401);
    await app.send({ to: `delivered@${SIMULATED}` });
    assert.equal(await other.until(() => other.events.length === 2), true);
    await other.close();
  });

  it('NDJSON is cut off when its key is revoked: an ordinary end would say that this was all', async () => {
    const { key, id } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'short', scopes: ['event:read'] },
    });
    // More than the connection takes before its client reads.
    const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`m${String(n)}`, 'x'.repeat(480)]));
    const recipients = Array.from({ length: 1000 }, (_, n) => ({ to: `delivered+${String(n)}@${SIMULATED}` }));
    const bulk = { from: 'hi@acme.test', subject: 'x', text: 'x', metadata, recipients };
    assert.equal((await app.request('POST', '/v1/messages', bulk)).status, 202);
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === recipients.length);
    const answer = await fetch(`${app.url}/v1/events`, {
      headers: { authorization: `Bearer ${key}`, accept: 'application/x-ndjson' },
    });
    await app.operator.ask('revokeKey', { params: { id } });
    await assert.rejects(answer.text());
  });

  it('SSE ends when the time of its key is over', async () => {
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'short', scopes: ['event:read'], ttl: 60 },
    });
    const stream = await open('', {}, key);
    await stream.until(() => stream.comments.length === 1);
    app.clock.advance(60_000);
    assert.equal(await stream.ended(), true);
  });

  it('SSE ends at a stop, at once', async () => {
    const stream = await open();
    await stream.until(() => stream.comments.length === 1);
    const ended = stream.ended();
    await app.stop();
    assert.equal(await ended, true);
    app = await startTestApp();
  });

  it('NDJSON: all events up to now, one a line', async () => {
    const all = await someMail();
    const answer = await app.get('/v1/events', { headers: { accept: 'application/x-ndjson' } });
    assert.match(answer.headers.get('content-type') ?? '', /^application\/x-ndjson/);
    assert.ok(answer.text.endsWith('\n'));
    assert.deepEqual(
      answer.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as SeenEvent),
      all,
    );
    const rest = await app.get(`/v1/events?after=${all[4]?.id ?? ''}&type=sent`, {
      headers: { accept: 'application/x-ndjson' },
    });
    assert.deepEqual(
      rest.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as SeenEvent),
      all.slice(5).filter(({ type }) => type === 'sent'),
    );
  });

  it('never shows an event behind one already shown while 500 mails are written', async () => {
    const total = 500;
    const stream = await open('?after=start');
    const follower = app.follow();
    const enough = (seen: readonly SeenEvent[]): boolean =>
      seen.filter(({ type }) => type === 'delivered').length === total;
    const [, seen] = await Promise.all([
      Promise.all(Array.from({ length: 10 }, (_, lane) => sendMany(total / 10, lane))),
      follower.until(enough),
      stream.until(() => stream.events.length === 2 * total),
    ]);
    const { data } = {
      data: (await app.get('/v1/events', { headers: { accept: 'application/x-ndjson' } })).text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as SeenEvent),
    };
    assert.equal(data.length, 2 * total);
    // The events that were read along the way are the log itself: none was added later behind one that had been shown, and none is missing.
    assert.deepEqual(
      seen.map(({ id }) => id),
      data.map(({ id }) => id),
    );
    assert.deepEqual(
      stream.data().map(({ id }) => id),
      data.map(({ id }) => id),
    );
    assert.ok(data.every(({ sequence }, i) => i === 0 || sequence > (data[i - 1]?.sequence ?? 0)));
    await stream.close();
  });

  async function sendMany(count: number, lane: number): Promise<void> {
    for (let n = 0; n < count; n++) await app.send({ to: `delivered+${String(lane)}-${String(n)}@${SIMULATED}` });
  }
});
