/**
 * A domain whose owner removed a DNS record: its mail goes on for three days, its people hear of it once, and only then it is refused.
 * The whole program, with the clock and DNS in the test's hands.
 */
import type { Domain } from '../../src/client/types.ts';
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { DomainRecord } from '../../src/domains/domain-record.ts';
import { addMember } from '../../src/members/member-store.ts';
import type { DeliveryRow, DomainRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import type { Zones } from '../support/fakes/zones.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SPF = 'rp.shop.test TXT';

describe('journey: a domain that loses a record', () => {
  let app: TestApp;
  let server: FakeMailServer;
  /** The answer of the mail host to RCPT. */
  let answer: string;
  /** DNS as the owner of the domain published it. */
  let whole: Zones;

  const begin = async (settings: Record<string, unknown> = {}): Promise<void> => {
    answer = '250 2.1.5 ok';
    server = await startMailServer({ script: { rcpt: () => answer } });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('people.test', 'dest.test'), settings });
    await app.operator.ask('createDomain', { body: { name: 'shop.test' } });
    whole = { ...app.resolver.zones };
    for (const { host, type, value } of (await domain()).records) whole[`${host} ${type}`] = [value];
    app.resolver.zones = whole;
    assert.equal((await verify()).status, 'verified');
    const [row] = await rows();
    await addMember(
      { db: app.app.db, clock: app.clock },
      {
        email: 'ana@people.test',
        role: 'developer',
        accountIds: [row?.account_id ?? ''],
        passwordHash: null,
        createdBy: 'operator',
      },
    );
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const rows = () => app.app.db.prepared.all<DomainRow>(`SELECT * FROM domains WHERE name = 'shop.test'`);
  const domain = async (): Promise<DomainRecord> => (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
  const verify = async () => (await app.request<DomainRecord>('POST', '/v1/domains/shop.test/verify')).body;
  const lose = (what = SPF): void => {
    app.resolver.zones = { ...whole, [what]: [] };
  };
  const restore = (): void => {
    app.resolver.zones = whole;
  };
  const post = (more: object = {}) =>
    app.request('POST', '/v1/messages', { from: 'hi@shop.test', to: 'bo@dest.test', subject: 'x', text: 'x', ...more });
  const notices = () =>
    server.sessions.flatMap(({ mails }) => mails).filter(({ to }) => to.includes('ana@people.test'));
  const told = (event: string) => app.logged.filter((line) => line['event'] === event);
  const deliveryOf = async (id: string) =>
    (
      await app.app.db.prepared.all<Pick<DeliveryRow, 'held_by' | 'due_at' | 'claim_epoch'>>(
        'SELECT held_by, due_at, claim_epoch FROM deliveries WHERE message_id = ?',
        [id],
      )
    )[0] ?? assert.fail(id);
  const untilHeld = async (id: string): Promise<void> => {
    for (;;) {
      const { held_by: by, due_at: due, claim_epoch: claim } = await deliveryOf(id);
      if (/^domain:acc_\w+\/shop\.test$/.test(by ?? '')) return;
      // An attempt that had begun before the domain was refused puts the mail off once more.
      if (claim === null && due !== null && due > app.clock.now()) app.clock.advance(due - app.clock.now());
      await turn();
    }
  };
  /**
   * Housekeeping rests between its steps, so a little time has to pass while it is waited for. Each turn asks the database, as
   * housekeeping does: where that is slow, time passes more slowly too.
   */
  const until = async (holds: () => Promise<boolean> | boolean): Promise<void> => {
    while (!(await holds())) {
      app.clock.advance(50);
      await rows();
    }
  };
  /** So many notices were taken, and what became of them is written: the clock may go on. */
  const toldTimes = async (count: number): Promise<void> => {
    await until(() => told('domain_notice').length >= count);
    // A session with the mail host has time limits of this clock, so the clock stands still while the notice is sent.
    while (notices().length < count) await turn();
    await app.settled();
    assert.equal(notices().length, count);
  };
  /** Lets time pass in steps that housekeeping's timers need: each look at the domain ends before the next begins. */
  const pass = async (ms: number): Promise<void> => {
    const end = app.clock.now() + ms;
    while (app.clock.now() < end) {
      const due = ((await rows())[0]?.checked_at ?? 0) + 30 * MINUTE;
      app.clock.advance(Math.min(end - app.clock.now(), 30 * MINUTE));
      if (due <= app.clock.now() && (await domain()).failing_since !== null)
        await until(async () => ((await rows())[0]?.checked_at ?? 0) >= due);
    }
  };

  it('keeps sending, is told of once, and is refused by a check after three days', async () => {
    await begin();
    lose();
    const before = app.clock.now();
    const { status, failing_since, refused_at } = await verify();
    assert.deepEqual(
      [status, failing_since, refused_at],
      ['verified', new Date(before).toISOString(), new Date(before + 72 * HOUR).toISOString()],
    );
    assert.equal(told('domain_failing').length, 1);
    assert.equal((await post()).status, 202, '"check now" stops no mail');

    app.clock.advance(2 * MINUTE);
    await toldTimes(1);
    const [{ data: encoded, from } = assert.fail()] = notices();
    const data = encoded.replaceAll('=\r\n', '');
    assert.equal(from, '');
    assert.match(data, /^From: Posthorn <postmaster@acme\.test>\r$/m, 'not by the domain that has lost a record');
    assert.match(data, /^Subject: shop\.test has lost a DNS record: its mail is refused from/m);
    assert.match(data, /The SPF record at rp\.shop\.test is missing\./);
    assert.match(data, /Mail from shop\.test keeps going until 2026-02-03 09:30 UTC/);
    assert.match(data, /rp\.shop\.test\. 3600 IN TXT "v=3Dspf1 a:mail\.posthorn\.test ~all"/);
    assert.deepEqual(
      told('domain_notice').map((line) => line['told']),
      [1],
    );

    await pass(before + 71 * HOUR - app.clock.now());
    assert.equal((await domain()).status, 'verified');
    answer = '451 4.2.0 busy';
    const late = await app.send({ from: 'hi@shop.test', to: 'bo@dest.test' });
    await pass(2 * HOUR);
    const refused = await domain();
    assert.deepEqual([refused.status, refused.failing_since], ['failed', failing_since]);
    assert.deepEqual(
      told('domain_status')
        .map((line) => [line.level, line['status']])
        .at(-1),
      ['warn', 'failed'],
    );
    const { status: code, body } = await post();
    assert.equal(code, 403);
    assert.match(
      (body as { error: { message: string } }).error.message,
      /^Mail from shop\.test is refused since 2026-02-03T09:\S+, because the SPF record at rp\.shop\.test is missing/,
    );
    app.clock.advance(5 * HOUR);
    await untilHeld(late.id);
    // Only now: an attempt that had begun before the refusal would have delivered it.
    answer = '250 2.1.5 ok';
    const why = await app.why(late.id);
    assert.match(
      why.message,
      /^It is held: mail from shop\.test is refused since 2026-02-03T\S+, because the SPF record at rp\.shop\.test is missing\.$/,
    );
    const [kept] = (await app.operator.call('queue.holds', {})).others;
    assert.deepEqual(
      [kept?.by, kept?.target, kept?.message],
      ['domain_refused', 'shop.test', 'Mail from shop.test is refused: the domain is not verified.'],
    );
    const need = (await app.operator.call('needs', {})).data.find(({ kind }) => kind === 'domain_refused');
    assert.deepEqual([need?.mails, need?.level], [1, 'red']);
    await app.settled();
    assert.equal(notices().length, 1, 'one mail a failure');

    restore();
    assert.equal((await verify()).status, 'verified');
    // A sweep frees it. One that is under way and has looked already sets the timer of the next one only when it ends.
    while ((await deliveryOf(late.id)).held_by !== null) app.clock.advance(1000);
    await app.follow().of(late.id, 'delivered');
    assert.ok((await app.operator.call('books', {})).balanced);
  });

  it('tells nobody of a record that was gone for a moment, and again only after a day without a fault', async () => {
    await begin();
    lose();
    await verify();
    restore();
    await verify();
    app.clock.advance(3 * MINUTE);
    await app.settled();
    assert.equal(notices().length, 0);

    lose();
    await verify();
    app.clock.advance(2 * MINUTE);
    await toldTimes(1);
    restore();
    await verify();
    lose();
    await verify();
    app.clock.advance(2 * MINUTE);
    await app.settled();
    assert.equal(notices().length, 1, 'the same failure');

    restore();
    await verify();
    app.clock.advance(25 * HOUR);
    await until(async () => (await rows())[0]?.failing_since === null);
    lose();
    await verify();
    app.clock.advance(2 * MINUTE);
    await toldTimes(2);
  });

  it('is not troubled by DNS that does not answer', async () => {
    await begin();
    for (const fault of ['SERVFAIL', 'TIMEOUT', 'REFUSED'] as const) {
      app.resolver.zones = { ...whole, [SPF]: fault };
      const { status, failing_since } = await verify();
      assert.deepEqual([status, failing_since], ['verified', null], fault);
    }
    assert.equal((await post()).status, 202);
  });

  it('is refused at once where the setting says so, and told of', async () => {
    await begin({ domains: { grace: '0s' } });
    lose('rp.shop.test MX');
    assert.equal((await verify()).status, 'failed');
    assert.equal((await post()).status, 403);
    app.clock.advance(2 * MINUTE);
    await toldTimes(1);
    assert.match(notices()[0]?.data ?? '', /^Subject: shop\.test has lost a DNS record: its mail is refused\r$/m);
  });

  it('says on the command line and in the figures how it is', async () => {
    await begin({ metrics: { token: 'a-secret-of-16-letters' } });
    lose();
    const { notes, refused_at } = await app.operator.ask<Domain>('verifyDomain', { params: { id: 'shop.test' } });
    assert.deepEqual(notes, [
      `The SPF record at rp.shop.test is missing. Mail from shop.test keeps going until ${String(refused_at)}, and is refused after that.`,
    ]);
    assert.deepEqual((await app.operator.ask<Domain>('getDomain', { params: { id: 'acme.test' } })).notes, [
      'Trusted: DNS is not asked, and mail from it goes.',
    ]);
    const metrics = await (
      await fetch(`${app.url}/metrics`, { headers: { authorization: 'Bearer a-secret-of-16-letters' } })
    ).text();
    assert.deepEqual(
      [...metrics.matchAll(/^posthorn_domains\{state="(\w+)"\} (\d)/gm)].map(([, state, n]) => [state, n]),
      [
        ['verified', '1'],
        ['failing', '1'],
        ['refused', '0'],
        ['unverified', '0'],
      ],
    );
  });
});
