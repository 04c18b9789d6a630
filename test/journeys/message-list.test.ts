/** `GET /v1/messages` against a plain model in memory: every filter, both orders, cursors in both directions. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ran } from '../cli/ran.ts';
import { startTestApp, type Answer, type TestApp } from '../support/harness/app.ts';

/** The members of a message in the list that the model checks. */
interface Row {
  id: string;
  status: string;
  from: string;
  to: string;
  cc: string[];
  bcc: string[];
  subject: string;
  stream: string;
  tags: string[];
  metadata: Record<string, string>;
  batch_id: string | null;
  rfc_message_id: string;
  test: boolean;
  created_at: string;
  engagement: { opens: number; clicks: number };
}

interface Page {
  data: Row[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}

const COUNT = 300;
const SIMULATED = 'simulator.posthorn.test';
const people = ['delivered', 'bounced', 'complained', 'opened', 'clicked'].map((name) => `${name}@${SIMULATED}`);
const subjects = [
  'Order shipped',
  'Your order is late',
  'Grüße aus Köln',
  'ÄRGER mit 100% Rabatt',
  'order_id 17',
  'Ordering made easy',
];
const froms = ['Acme <hi@acme.test>', 'news@acme.test', `me@${SIMULATED}`];
const tags = ['a', 'b', 'Größe @ c:d'];

/** Parameters, each with what it means in plain words. */
interface Filter {
  query: [string, string][];
  matches(row: Row): boolean;
}

const bare = (address: string): string => (/<(.*)>/.exec(address)?.[1] ?? address).toLowerCase();

/** Words of the filter, each the beginning of a word of the subject. */
const hasWords = (subject: string, wanted: string): boolean =>
  wanted.split(' ').every((word) => subject.split(' ').some((own) => own.toLowerCase().startsWith(word.toLowerCase())));

describe('journey: list of messages', () => {
  let app: TestApp;
  let all: Row[];
  /** Another key than the usual one, and the messages that it sent. */
  let other: { id: string; key: string };
  const byOther = new Set<string>();

  before(async () => {
    app = await startTestApp();
    other = await app.operator.ask('createKey', { body: { name: 'other', scopes: ['send'] } });
    const inHalfAnHour = new Date(app.clock.now() + 1_800_000).toISOString();
    for (let n = 0; n < COUNT; n++) {
      const pick = <T>(from: readonly T[], step: number): T => from[Math.floor(n / step) % from.length] as T;
      const fields = {
        from: pick(froms, 7),
        subject: pick(subjects, 1),
        text: 'Good day.',
        tags: tags.filter((_, i) => (n >> i) % 2 === 1),
        metadata: { order: String(n % 10), ...(n % 3 === 0 ? { shop: 'x y' } : {}) },
        stream: n % 4 === 0 ? 'broadcast' : 'transactional',
        ...(n % 11 === 0 ? { send_at: inHalfAnHour } : {}),
      };
      const to = pick(people, 2);
      if (n % 20 === 19) {
        const answer = await app.request('POST', '/v1/messages', {
          ...fields,
          recipients: [{ to }, { to: pick(people, 3) }],
          allow_duplicates: true,
        });
        assert.equal(answer.status, 202, answer.text);
      } else {
        const isByOther = n % 7 === 3;
        const mail = { ...fields, to, ...(n % 5 === 0 ? { cc: people[4], bcc: [people[3]] } : {}) };
        const { id } = await app.send(mail, isByOther ? { key: other.key } : {});
        if (isByOther) byOther.add(id);
      }
      if (n % 6 === 5) app.clock.advance(1000);
    }
    await app.settled();
    all = await walk([], 100, 'created_at', 'forwards');
    assert.ok(all.length > COUNT);
  });

  after(() => app.stop());

  async function page(parameters: readonly [string, string][]): Promise<Page> {
    const answer = await app.get<Page>(
      `/v1/messages?${new URLSearchParams(parameters.map(([name, value]): [string, string] => [name, value])).toString()}`,
    );
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  /** All pages of a list, one after the other. */
  async function walk(
    filter: readonly [string, string][],
    limit: number,
    sort: string,
    way: 'forwards' | 'backwards',
  ): Promise<Row[]> {
    const rows: Row[] = [];
    const common: [string, string][] = [...filter, ['limit', String(limit)], ['sort', sort]];
    let { data, next_cursor, has_more } = await page(common);
    rows.push(...data);
    while (next_cursor !== null) {
      assert.equal(has_more, true, 'a cursor only where there is more');
      const last = await page([...common, ['after', next_cursor]]);
      assert.ok(last.data.length > 0, 'no empty page at the end');
      assert.ok(last.previous_cursor);
      rows.push(...last.data);
      if (way === 'backwards') return back(common, last);
      ({ data, next_cursor, has_more } = last);
    }
    return rows;
  }

  /** From the second page back to the first. */
  async function back(common: readonly [string, string][], from: Page): Promise<Row[]> {
    const before = await page([...common, ['before', from.previous_cursor ?? '']]);
    assert.equal(before.previous_cursor, null, 'the first page has nothing before it');
    assert.ok(before.next_cursor);
    const again = await page([...common, ['after', before.next_cursor]]);
    assert.deepEqual(again.data, from.data);
    return [...before.data, ...from.data];
  }

  const filters = (): fc.Arbitrary<Filter> => {
    const one = (
      name: string,
      values: readonly string[],
      matches: (row: Row, value: string) => boolean,
    ): fc.Arbitrary<Filter> =>
      fc.constantFrom(...values).map((value) => ({ query: [[name, value]], matches: (row) => matches(row, value) }));
    const times = [...new Set(all.map(({ created_at }) => created_at))];
    const some = all.filter((_, i) => i % 37 === 0);
    return fc.oneof(
      one('status', ['delivered', 'bounced', 'scheduled', 'complained,bounced', 'queued'], (row, value) =>
        value.split(',').includes(row.status),
      ),
      one('to', [...people, 'DELIVERED@simulator.posthorn.test', 'nobody@dest.test'], (row, value) =>
        [row.to, ...row.cc, ...row.bcc].map(bare).includes(value.toLowerCase()),
      ),
      one(
        'from',
        ['hi@acme.test', 'HI@acme.test', 'news@acme.test'],
        (row, value) => bare(row.from) === value.toLowerCase(),
      ),
      one('subject', ['order', 'ORDER', 'ord ship', 'grü', 'köln', '100%', 'order_', 'rder', 'ärger'], (row, value) =>
        hasWords(row.subject, value),
      ),
      one('tag', tags, (row, value) => row.tags.includes(value)),
      fc.constant<Filter>({
        query: [
          ['tag', 'a'],
          ['tag', 'b'],
        ],
        matches: (row) => row.tags.includes('a') && row.tags.includes('b'),
      }),
      one('metadata[order]', ['0', '7', '70'], (row, value) => row.metadata['order'] === value),
      fc.constant<Filter>({
        query: [
          ['metadata[order]', '3'],
          ['metadata[shop]', 'x y'],
        ],
        matches: (row) => row.metadata['order'] === '3' && row.metadata['shop'] === 'x y',
      }),
      one(
        'batch_id',
        some
          .flatMap(({ batch_id }) => (batch_id === null ? [] : [batch_id]))
          .concat(all.find(({ batch_id }) => batch_id !== null)?.batch_id ?? ''),
        (row, value) => row.batch_id === value,
      ),
      one('stream', ['transactional', 'broadcast'], (row, value) => row.stream === value),
      one('domain', ['acme.test', 'ACME.test', SIMULATED], (row, value) =>
        bare(row.from).endsWith(`@${value.toLowerCase()}`),
      ),
      one(
        'rfc_message_id',
        some.map((row) => row.rfc_message_id),
        (row, value) => row.rfc_message_id === value,
      ),
      one(
        'key_id',
        [app.keyId, other.id, 'key_none'],
        ({ id }, value) => value === (byOther.has(id) ? other.id : app.keyId),
      ),
      one('created_after', times, (row, value) => row.created_at >= value),
      one('created_before', times, (row, value) => row.created_at < value),
      one('opened', ['true', 'false'], (row, value) => row.engagement.opens > 0 === (value === 'true')),
      one('clicked', ['true', 'false'], (row, value) => row.engagement.clicks > 0 === (value === 'true')),
      one('test', ['true', 'false'], (row, value) => row.test === (value === 'true')),
      one('template_id', ['tpl_x'], () => false),
      one('to_start', ['del', 'DELIVERED@sim', 'delivered@simulator.posthorn.test', 'x'], (row, value) =>
        [row.to, ...row.cc, ...row.bcc].some((mailbox) => bare(mailbox).startsWith(value.toLowerCase())),
      ),
      one(
        'to_domain',
        [SIMULATED, SIMULATED.toUpperCase(), 'dest.test'],
        (_, value) => value.toLowerCase() === SIMULATED,
      ),
      one(
        'q',
        ['order', 'deli', 'bou', 'köln', 'x'],
        (row, value) =>
          hasWords(row.subject, value) ||
          [row.to, ...row.cc, ...row.bcc].some((mailbox) => bare(mailbox).startsWith(value)),
      ),
      one(
        'id_start',
        ['msg_0', 'msg_7', ...some.map(({ id }) => id.slice(0, 14)), ...some.map(({ id }) => id)],
        (row, value) => row.id.startsWith(value),
      ),
    );
  };

  it('shows what the filters say, in the order asked for, without holes or doubles', async () => {
    const wish = fc.record({
      chosen: fc.uniqueArray(filters(), { maxLength: 3, selector: ({ query }) => query[0]?.[0] }),
      limit: fc.integer({ min: 1, max: 100 }),
      newestFirst: fc.boolean(),
      way: fc.constantFrom('forwards' as const, 'backwards' as const),
    });
    let withMatches = 0;
    await fc.assert(
      fc.asyncProperty(wish, async ({ chosen, limit, newestFirst, way }) => {
        const expected = all.filter((row) => chosen.every(({ matches }) => matches(row)));
        if (newestFirst) expected.reverse();
        if (expected.length > 0) withMatches++;
        // Small pages over a long list would only take time.
        const size = Math.max(limit, Math.ceil(expected.length / 8));
        const found = await walk(
          chosen.flatMap(({ query }) => query),
          size,
          newestFirst ? '-created_at' : 'created_at',
          way,
        );
        const seen = way === 'backwards' && expected.length > size ? expected.slice(0, 2 * size) : expected;
        assert.deepEqual(
          found.map(({ id }) => id),
          seen.map(({ id }) => id),
        );
      }),
      { numRuns: 150 },
    );
    assert.ok(withMatches > 50, 'the filters hit something');
  });

  it('each filter alone hits something but not everything', async () => {
    const hits = new Map<string, number>();
    for (const { query } of fc.sample(filters(), 300)) {
      const key = JSON.stringify(query);
      if (!hits.has(key)) hits.set(key, (await page([...query, ['limit', '100']])).data.length);
    }
    for (const name of [
      'status',
      'to',
      'from',
      'subject',
      'tag',
      'metadata[order]',
      'batch_id',
      'stream',
      'domain',
      'key_id',
      'rfc_message_id',
      'opened',
      'clicked',
    ]) {
      assert.ok(
        [...hits].some(([key, n]) => key.startsWith(`[["${name}"`) && n > 0),
        name,
      );
    }
  });

  it('finds the message of an event, in its own account alone', async () => {
    const { body } = await app.get<{ data: { id: string; data: { message_id: string } }[] }>('/v1/events?limit=1');
    const event = body.data[0] ?? assert.fail('no event');
    const found = await page([['event_id', event.id]]);
    assert.deepEqual(
      found.data.map(({ id }) => id),
      [event.data.message_id],
    );
    assert.deepEqual((await page([['event_id', 'evt_nothing']])).data, []);
    await app.operator.call('accounts.add', { name: 'elsewhere' });
    const { key } = await app.operator.ask<{ key: string }>('createKey', {
      account: 'elsewhere',
      body: { name: 'x', scopes: ['message:read'] },
    });
    const answer = await app.get<Page>(`/v1/messages?event_id=${event.id}`, { key });
    assert.deepEqual(answer.body.data, []);
  });

  it('shows at the command line what a key sent', async () => {
    const args = ['messages', 'list', '--key', other.id, '--limit', '1000', '--json'];
    const { code, out, notes } = await ran(args, { POSTHORN_DATA_DIR: app.config.dataDir });
    assert.equal(code, 0, notes);
    const { data } = JSON.parse(out) as Page;
    assert.ok(data.length > 0);
    assert.deepEqual(new Set(data.map(({ id }) => id)), byOther);
  });

  it('lists newest first, 25 a page, and follows the Link header to the end', async () => {
    const seen: string[] = [];
    let next: string | null = '/v1/messages';
    while (next !== null) {
      const answer: Answer<Page> = await app.get<Page>(next);
      const { data, has_more } = answer.body;
      seen.push(...data.map(({ id }) => id));
      assert.ok(data.length === 25 || !has_more);
      next = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null;
    }
    assert.deepEqual(seen, all.map(({ id }) => id).toReversed());
  });

  it('refuses a cursor of another list, another order, another account, and one that was changed', async () => {
    const { next_cursor } = await page([
      ['limit', '5'],
      ['tag', 'a'],
    ]);
    assert.ok(next_cursor);
    await app.operator.call('accounts.add', { name: 'stranger' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'stranger',
      body: { name: 'x', scopes: ['message:read'] },
    });
    const turned = Buffer.from(Buffer.from(next_cursor, 'base64url').toString().replace('msg_0', 'msg_1')).toString(
      'base64url',
    );
    for (const [query, options] of [
      [`after=${next_cursor}`, {}],
      [`after=${next_cursor}&tag=b`, {}],
      [`after=${next_cursor}&tag=a&sort=created_at`, {}],
      [`after=${next_cursor}&tag=a`, { key }],
      [`after=${turned}&tag=a`, {}],
      ['before=', {}],
    ] as const) {
      const answer = await app.get<{ error: { code: string } }>(`/v1/messages?${query}`, options);
      assert.deepEqual([answer.status, answer.body.error.code], [400, 'invalid_cursor'], query);
    }
    assert.equal(
      (await app.get(`/v1/messages?after=${next_cursor}&tag=a&limit=50`)).status,
      200,
      'another size is no other list',
    );
  });
});
