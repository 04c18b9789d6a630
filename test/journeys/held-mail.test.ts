/** The reason that keeps mail back has the same words everywhere, those of one function. */
import assert from 'node:assert/strict';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { htmlFaults } from '../support/harness/html.ts';

const REFUSED =
  '550 5.7.1 Unfortunately, messages from [127.0.0.1] were not sent: unauthenticated mail is not accepted';

describe('journey: held mail', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let answer: string;
  let refuses: (line: string) => boolean;

  beforeEach(async () => {
    answer = '250 2.1.5 ok';
    refuses = () => true;
    server = await startMailServer({ script: { rcpt: (line) => (refuses(line) ? answer : '250 2.1.5 ok') } });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });
  const start = async (delivery: object = {}): Promise<void> => {
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test', 'other.test'),
      settings: { delivery, metrics: { port: 0 } },
    });
  };
  const bounced = async (id: string): Promise<boolean> => (await app.message(id)).status === 'bounced';
  const until = async (is: () => Promise<boolean>): Promise<void> => {
    while (!(await is())) await new Promise((resolve) => setImmediate(resolve));
  };
  const waits = async (id: string, reason: string) => {
    for (;;) {
      const one = await app.why(id);
      if (one.reason === reason) return one;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const metrics = async (): Promise<string> =>
    await (await fetch(String(app.logged.find(({ event }) => event === 'metrics')?.['url']))).text();

  it('tells of a route that holds: in the queue, the holds, the message, the trace, the figures, the doctor and the pages', async () => {
    await start({ routes: { '*': 'hold' } });
    const { id } = await app.send();
    const why = await waits(id, 'held');
    assert.deepEqual([why.reason, why.set_by], ['held', 'operator']);
    const { others } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      others.map(({ by, target, waiting, set_by: who, message }) => [by, target, waiting, who, message]),
      [['route', 'dest.test', 1, 'operator', why.message]],
    );
    const { data } = await app.operator.call('queue.lanes', {});
    const lane = data.find(({ name }) => name === '~hold');
    assert.deepEqual([lane?.waiting_in_all, lane?.held, lane?.waits[0]?.message], [1, 1, why.message]);
    const { domains } = await app.operator.call('queue.lanes', {});
    assert.deepEqual([domains[0]?.waiting, domains[0]?.due, domains[0]?.held], [1, 0, 1]);
    const queued = await app.operator.call('queue.list', {});
    assert.deepEqual(
      queued.data.map(({ held }) => held),
      [true],
    );
    const trace = (await app.operator.call('messages.trace', { id })).data.at(-1);
    assert.deepEqual([trace?.what, trace?.text], ['next', `queued: ${why.message}`]);
    assert.match(await metrics(), /posthorn_queue_held\{by="route"\} 1\n/);
    const browser = await signedIn(app.url, app.operator);
    for (const page of ['/', '/queue', '/queue?domain=dest.test', '/queue/lane?name=~hold', `/messages/${id}`]) {
      const { html } = await browser.open(page);
      assert.match(html, /The route of all other domains \(\*\) in delivery\.routes holds its mail/, page);
      assert.deepEqual(htmlFaults(html), [], page);
    }
  });

  it('tells who paused a part of the queue, since when and until when', async () => {
    await start();
    await app.operator.call('queue.hold', { domain: 'dest.test', new: true, for_ms: 3_600_000, note: 'ticket 99' });
    const { id } = await app.send();
    await until(async () => (await app.operator.call('queue.holds', {})).others.length > 0);
    const { data, others } = await app.operator.call('queue.holds', {});
    assert.equal(data[0]?.created_by, 'operator');
    assert.deepEqual(
      others.map(({ by, waiting, since, until, message }) => [by, waiting, since, until, message]),
      [['operator', 1, data[0].created_at, data[0].until, 'The operator holds the domain dest.test (ticket 99).']],
    );
    const lane = (await app.operator.call('queue.lanes', {})).data.find(({ waiting_in_all: all }) => all > 0);
    assert.deepEqual([lane?.waiting_in_all, lane?.held], [1, 1]);
    const { body } = await app.request('GET', `/v1/messages/${id}/why`);
    const [why] = (body as { recipients: Record<string, unknown>[] }).recipients;
    assert.deepEqual(
      [why?.['reason'], why?.['since'], why?.['until'], why?.['set_by']],
      ['held', data[0].created_at, data[0].until, 'operator'],
    );
  });

  it('rests a lane whose receiver refuses us, and says so everywhere', async () => {
    await start();
    answer = REFUSED;
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) {
      const { id } = await app.send({ to: `a${String(n)}@dest.test` });
      ids.push(id);
      await until(async () => {
        const one = await app.why(id);
        return one.status === 'bounced' || one.reason === 'receiver_refuses_us';
      });
    }
    const gone = (await Promise.all(ids.map(bounced))).filter(Boolean).length;
    assert.ok(gone > 0 && gone < 12, `${String(gone)} bounced`);
    const { others } = await app.operator.call('queue.holds', {});
    const rest = others.find(({ by }) => by === 'rest');
    assert.deepEqual([rest?.target, rest?.waiting, rest?.set_by], ['mx.dest.test', 12 - gone, 'receiver']);
    const { data } = await app.operator.call('queue.lanes', {});
    assert.equal(data[0]?.waits[0]?.reason, 'receiver_refuses_us');
    assert.equal(data[0].waiting_in_all, 12 - gone);
    assert.match(await metrics(), /posthorn_lanes_resting\{kind="sender"\} 1\n/);
    const browser = await signedIn(app.url, app.operator);
    for (const page of ['/', '/queue', '/queue?domain=dest.test', '/queue/lane?name=mx.dest.test']) {
      const { html } = await browser.open(page);
      assert.match(html, /refuses mail from us again and again/, page);
      assert.deepEqual(htmlFaults(html), [], page);
    }
    const books = await app.operator.call('books', {});
    assert.ok(books.balanced, books.faults.join());
  });

  it('keeps lane, row and reason of waiting mail over a restart', async () => {
    const folder = newFolder();
    const zones = {
      ...zonesFor('plain.test', 'protection.outlook.com'),
      'hotmail.test MX': ['10 mx.protection.outlook.com'],
    };
    const listed =
      "550 5.7.1 Unfortunately, messages from [127.0.0.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).";
    const startAgain = async (clock?: TestApp['clock']): Promise<void> => {
      app = await startTestApp({ folder, mailPort: server.port, zones, ...(clock === undefined ? {} : { clock }) });
    };
    await startAgain();
    answer = listed;
    const { id: first } = await app.send({ to: 'a@hotmail.test' });
    await until(() => bounced(first));
    const ids = [await app.send({ to: 'a@hotmail.test' }), await app.send({ to: 'b@hotmail.test' })].map(
      ({ id }) => id,
    );
    for (const id of ids) await until(async () => (await app.why(id)).reason === 'receiver_refuses_us');
    answer = '450 4.2.0 busy';
    await app.follow().of((await app.send({ to: 'c@plain.test' })).id, 'deferred');
    await app.operator.call('queue.limit', { lane: 'mx.empty.test', per_minute: 3, note: 'ticket 99' });
    await app.operator.call('queue.hold', { lane: 'mx.paused.test' });
    const rows = async (): Promise<unknown[]> => {
      const { data } = await app.operator.call('queue.lanes', {});
      return data
        .filter(({ waiting_in_all: all, limits, waits }) => all + limits.length + waits.length > 0)
        .map(({ name, waiting_in_all: all, held, waits }) => [name, all, held, waits.map(({ message }) => message)])
        .sort();
    };
    const before = await rows();
    const [block] = (await app.operator.call('queue.holds', {})).others;
    const site = 'outlook';
    assert.equal(block?.target, site);
    const wanted = [
      [
        site,
        2,
        0,
        [
          `hotmail.test (${site}) refuses mail from this address, which is on a block list: "${listed.slice(4)}". One mail tries when that is over, and ends it if it is accepted.`,
        ],
      ],
      ['mx.empty.test', 0, 0, []],
      ['mx.paused.test', 0, 0, ['It is held: there is a hold on the lane mx.paused.test.']],
      ['mx.plain.test', 1, 0, []],
    ].sort();
    assert.deepEqual(before, wanted);
    await app.stop();
    await startAgain(app.clock);
    // The domains are looked up in the background.
    while (
      app.app.mta.reports.laneOf('plain.test') !== 'mx.plain.test' ||
      app.app.mta.reports.laneOf('hotmail.test') !== site
    )
      await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await rows(), wanted);
    const browser = await signedIn(app.url, app.operator);
    for (const [page, said] of [
      ['/', /on our block list.*>Try now</s],
      ['/queue', /block list/],
      ['/queue?domain=hotmail.test', />Its lane</],
      [`/queue/lane?name=${site}`, /on our block list.*b@hotmail\.test/s],
      ['/queue/lane?name=mx.plain.test', /c@plain\.test/],
      ['/queue/lane?name=mx.empty.test', /3 mails a minute: set by the operator: ticket 99/],
      ['/queue/lane?name=mx.paused.test', /It is held: there is a hold on the lane/],
    ] as const) {
      const { html, status } = await browser.open(page);
      assert.equal(status, 200, page);
      assert.match(html, said, page);
      assert.deepEqual(htmlFaults(html), [], page);
    }
    assert.doesNotMatch((await browser.open('/queue')).html, /mail host not known yet/);
  });

  it('says that nothing is held only where nothing is', async () => {
    await start();
    const browser = await signedIn(app.url, app.operator);
    const nothing = /Nothing is held, paused or limited\./;
    assert.match((await browser.open('/queue')).html, nothing);
    answer = '554 5.7.1 Service unavailable; client host [127.0.0.1] blocked using a block list';
    const { id } = await app.send();
    await until(() => bounced(id));
    await waits((await app.send()).id, 'receiver_refuses_us');
    const { html } = await browser.open('/queue');
    assert.doesNotMatch(html, nothing);
    assert.match(html, /blocked using a block list.*No hold, pause or limit is set by hand\./s);
  });
});
