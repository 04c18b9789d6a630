import assert from 'node:assert/strict';
import { addAccount } from '../../../src/accounts/account-store.ts';
import { Problem } from '../../../src/base/problem.ts';
import { isTemplated } from '../../../src/messages/request/template-members.ts';
import { expandSend, type ExpandedSend } from '../../../src/messages/request/templated-send.ts';
import { createRenderer, type PartResult, type Renderer } from '../../../src/templates/renderer.ts';
import { createTemplate } from '../../../src/templates/template-store.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

describe('messages/templated-send', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let renderer: Renderer;
  let accountId: string;
  let yields: number;

  before(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    renderer = createRenderer({ clock });
    accountId = (await addAccount({ db: temp.db, clock }, { name: 'One', plan: 'standard' })).id;
    const body = {
      subject: '{{ n }}',
      from: null,
      replyTo: [],
      html: '<p>{{ n }}{{ m }}</p>',
      text: null,
      variables: [],
      locale: 'en',
      timezone: 'UTC',
      strict: false,
      sample: null,
    };
    await createTemplate(
      { db: temp.db, clock },
      { accountId, alias: 'a', name: 'a', body, publish: true, by: 'operator' },
    );
  });
  after(async () => {
    await renderer.close();
    await temp.close();
  });
  beforeEach(() => {
    yields = 0;
  });

  const expand = (body: Record<string, unknown>, changes: { renderer?: Renderer; mostEntries?: number } = {}) =>
    expandSend({ db: temp.db, renderer: changes.renderer ?? renderer }, body, {
      accountId,
      now: clock.now(),
      mostEntries: changes.mostEntries ?? 1000,
      monotonic: () => clock.monotonic(),
      nextSlice: () => {
        yields++;
        return Promise.resolve();
      },
    });
  const entriesOf = ({ body }: ExpandedSend): Record<string, unknown>[] => {
    const { recipients } = body;
    assert.ok(Array.isArray(recipients));
    return recipients as Record<string, unknown>[];
  };

  /** Renders nothing: each mail has so many characters, and takes so long. */
  const costly = (characters: number, ms: number): Renderer & { calls: number } => ({
    calls: 0,
    render(_, parts) {
      this.calls++;
      clock.advance(ms);
      const output = 'x'.repeat(characters);
      return Promise.resolve(
        parts.map(({ name }): PartResult => ({ name, ok: true, output, variables: [], paths: [] })),
      );
    },
    read: () => Promise.reject(new Error('nothing is only read here')),
    close: () => Promise.resolve(),
  });
  const entries = (count: number): { to: string }[] =>
    Array.from({ length: count }, (_, n) => ({ to: `r${String(n)}@dest.test` }));

  it('knows what is to be rendered', () => {
    const rows: [body: Record<string, unknown>, is: boolean, why: string][] = [
      [{ html: '{{ a }}' }, false, 'braces alone are text'],
      [{ variables: {} }, true, 'variables turn rendering on'],
      [{ variables: null }, false, 'null is absent'],
      [{ template_id: 'a' }, true, 'a template'],
      [{ template_version: 1 }, true, 'to be refused by us'],
      [{ recipients: [{}, { variables: {} }] }, true, 'in an entry'],
      [{ recipients: [null, 7, 'x', []] }, false, 'entries that are none'],
      [{ recipients: 'x' }, false, 'no list'],
    ];
    for (const [body, is, why] of rows) assert.equal(isTemplated(body), is, why);
  });

  it('renders every text that recipients see', async () => {
    const { body } = await expand({
      variables: { agent: 'Ann, Sales', id: 7 },
      subject: 'x',
      html: 'x',
      from: '{{ agent }} <hi@send.test>',
      to: ['{{ agent }} <a@dest.test>'],
      reply_to: '{{ agent }} <r@send.test>',
      headers: { 'X-Order': '{{ id }}', 'X-Plain': '}}' },
      attachments: [{ filename: 'order-{{ id }}.txt', content: 'e3t9fQ==' }],
      unsubscribe: { url: 'https://u.example/{{ id }}' },
    });
    assert.deepEqual(body, {
      subject: 'x',
      html: 'x',
      from: 'Ann Sales <hi@send.test>',
      to: ['Ann Sales <a@dest.test>'],
      reply_to: 'Ann Sales <r@send.test>',
      headers: { 'X-Order': '7', 'X-Plain': '}}' },
      attachments: [{ filename: 'order-7.txt', content: 'e3t9fQ==' }],
      unsubscribe: { url: 'https://u.example/7' },
    });
  });

  it('renders what entries share with the variables of each', async () => {
    const expanded = await expand({
      from: 'Shop {{ n }} <hi@send.test>',
      headers: { 'X-N': '{{ n }}', 'X-Same': 'y' },
      html: 'x',
      recipients: [
        { to: 'a@dest.test', variables: { n: 1 } },
        { to: 'b@dest.test', variables: { n: 2 }, headers: { 'x-n': 'own' } },
      ],
    });
    assert.deepEqual(
      entriesOf(expanded).map(({ from, headers }) => ({ from, headers })),
      [
        { from: 'Shop 1 <hi@send.test>', headers: { 'X-N': '1', 'X-Same': 'y' } },
        { from: 'Shop 2 <hi@send.test>', headers: { 'X-Same': 'y', 'x-n': 'own' } },
      ],
    );
    assert.deepEqual(Object.keys(expanded.body).sort(), ['html', 'recipients']);
  });

  it('names the text with a fault, in the entry that it is sent with', async () => {
    const { refused } = await expand({
      subject: 'x',
      html: 'x',
      attachments: [{ filename: '{{ oops', content: '' }],
      recipients: [{ to: 'a@dest.test', variables: {} }],
    });
    assert.equal(refused.get(0)?.field, 'recipients[0].attachments[0].filename');
  });

  it("renders the template's reply_to", async () => {
    const body = {
      ...{ subject: 'x', from: null, replyTo: ['{{ n }} <r@send.test>'], html: 'x', text: null, variables: [] },
      ...{ locale: 'en', timezone: 'UTC', strict: false, sample: null },
    };
    await createTemplate(
      { db: temp.db, clock },
      { accountId, alias: 'r', name: 'r', body, publish: true, by: 'operator' },
    );
    const expanded = await expand({ template_id: 'r', variables: { n: 'Ann' } });
    assert.deepEqual(expanded.body['reply_to'], ['Ann <r@send.test>']);
  });

  it('leaves what it was given as it was', async () => {
    const shared = { m: 1 };
    const own = { n: 2 };
    const request = { template_id: 'a', variables: shared, recipients: [{ to: 'a@dest.test', variables: own }] };
    const copy = structuredClone(request);
    const [entry] = entriesOf(await expand(request));
    assert.deepEqual(entry, {
      to: 'a@dest.test',
      subject: '2',
      html: '<p>21</p>',
      text: undefined,
      reply_to: undefined,
    });
    assert.deepEqual(request, copy);
  });

  it('merges variables shallowly, an own one whole in place of the shared', async () => {
    const html = '{{ o.a }}{{ o.b }}{{ p }}';
    const expanded = await expand({
      html,
      subject: 's',
      variables: { o: { a: 1, b: 2 }, p: 3 },
      recipients: [
        { to: 'a@dest.test', variables: { o: { a: 9 } } },
        { to: 'b@dest.test' },
        { to: 'c@dest.test', variables: { p: null } },
      ],
    });
    assert.deepEqual(
      entriesOf(expanded).map((entry) => entry['html']),
      ['93', '123', '12'],
    );
  });

  it('takes no name from where data has none', async () => {
    const variables = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') as Record<string, unknown>;
    const { body } = await expand({ subject: 's', text: '[{{ x }}{{ toString }}{{ __proto__.x }}]', variables });
    assert.equal(body['text'], '[]');
    assert.equal(({} as Record<string, unknown>)['x'], undefined);
  });

  it('reads a template once for all entries, and yields to the event loop between them', async () => {
    let reads = 0;
    const fast: TempDatabase['db']['prepared'] = {
      ...temp.db.prepared,
      all: (sql, values) => {
        reads++;
        return temp.db.prepared.all(sql, values);
      },
    };
    const slow = costly(10, 1);
    const expanded = await expandSend(
      { db: { prepared: fast }, renderer: slow },
      { template_id: 'a', recipients: entries(500) },
      {
        accountId,
        now: clock.now(),
        mostEntries: 1000,
        monotonic: () => clock.monotonic(),
        nextSlice: () => {
          yields++;
          return Promise.resolve();
        },
      },
    );
    assert.equal(expanded.templates.size, 500);
    assert.equal(reads, 2, 'the template and its version');
    assert.equal(slow.calls, 500);
    assert.ok(yields >= 90, `${String(yields)} yields in 500 ms`);
  });

  it('does not render what is refused for its number of entries', async () => {
    const slow = costly(10, 1);
    const { body } = await expand({ template_id: 'a', recipients: entries(11) }, { renderer: slow, mostEntries: 10 });
    assert.equal(slow.calls, 0);
    assert.equal((body['recipients'] as unknown[]).length, 11);
  });

  it('refuses the request, not its entries, while the server cannot render', async () => {
    const overloaded: Renderer = {
      ...renderer,
      render: () => Promise.reject(new Problem('service_unavailable', 'Too many.', { retryAfter: 1 })),
    };
    await assert.rejects(
      expand({ template_id: 'a', recipients: entries(3) }, { renderer: overloaded }),
      (error) => error instanceof Problem && error.code === 'service_unavailable' && error.retryAfter === 1,
    );
    const faulty = { variables: 7 };
    const expanded = await expand({ template_id: 'a', recipients: [faulty, ...entries(1)] });
    assert.deepEqual([...expanded.refused.keys()], [0], 'a fault of an entry stays its own');
  });

  it('refuses a request whose mails together are too much to hold, or to wait for', async () => {
    const rows: [renderer: Renderer & { calls: number }, code: string, calls: number][] = [
      // Subject and html: 8 MiB an entry, and 64 MiB are not more than the limit.
      [costly(4 * 1024 * 1024, 1), 'message_too_large', 9],
      [costly(10, 250), 'template_render_failed', 121],
    ];
    for (const [expensive, code, calls] of rows) {
      const refused = expand({ template_id: 'a', recipients: entries(1000) }, { renderer: expensive });
      await assert.rejects(
        refused,
        (error) => error instanceof Problem && error.code === code && error.field === 'recipients',
      );
      assert.equal(expensive.calls, calls, 'it stops there');
    }
    const expanded = await expand(
      { template_id: 'a', recipients: entries(8) },
      { renderer: costly(4 * 1024 * 1024, 1) },
    );
    assert.equal(expanded.refused.size, 0, 'exactly the limit');
  });
});
