/** Time, DNS and the suppression list: what is tried again when, and what ends it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type SeenEvent, type TestApp } from '../support/harness/app.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** `1 h 51 min`, as docs/delivery.md writes it. */
function inWords(minutes: number): string {
  const parts = [
    [Math.floor(minutes / 60), 'h'],
    [minutes % 60, 'min'],
  ] as const;
  return parts.flatMap(([count, unit]) => (count === 0 ? [] : [`${String(count)} ${unit}`])).join(' ');
}

/** The rows of the table of retries in docs/delivery.md. */
function tableOfRetries(): string[][] {
  const text = readFileSync(path.resolve(import.meta.dirname, '../../docs/delivery.md'), 'utf8');
  const lines = text.slice(text.indexOf('| After try')).split('\n').slice(2);
  return lines.slice(0, lines.indexOf('')).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const kinds = (events: readonly SeenEvent[]): string => events.map(({ type }) => type).join(' ');

describe('journey: retries', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let start: number;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    start = app.clock.now();
  });

  afterEach(async () => {
    const { balanced, faults } = await app.operator.call('books', {});
    assert.ok(balanced, faults.join());
    await app.stop();
    await server.close();
  });

  const mails = () => server.sessions.flatMap((session) => session.mails);
  const since = (time: string | null | undefined): number => Date.parse(time ?? '') - start;
  const suppress = (email: string): Promise<void> =>
    app.app.db.commit.transact(async (tx) => {
      await tx.run(
        `INSERT INTO suppressions (id, account_id, email, address_key, scope, reason, created_at, created_by)
         SELECT 'sup_1', id, ?, ?, 'account', 'manual', 0, 'test' FROM accounts`,
        [email, email],
      );
    });

  it('tries again after 1 and 5 minutes, and tells each deferral to who asks for it', async () => {
    let tries = 0;
    server.options.script = { rcpt: () => (++tries <= 2 ? '451 4.3.0 come back later' : '250 ok') };
    const { id, rfc_message_id } = await app.send();
    await app.settled();
    const waiting = await app.message(id);
    assert.deepEqual([waiting.status, since(waiting.recipients[0]?.next_attempt_at)], ['deferred', MINUTE]);
    // Not a moment sooner.
    app.clock.advance(MINUTE - 1);
    await app.settled();
    assert.equal(tries, 1);
    await app.nextAttempt(id);
    assert.equal(tries, 2);
    const { status, attempts, recipients } = await app.nextAttempt(id);
    assert.equal(status, 'delivered');
    assert.deepEqual(
      attempts.map(({ started_at }) => since(started_at)),
      [0, MINUTE, 6 * MINUTE],
    );
    assert.deepEqual(
      attempts.map(({ outcome, smtp_code, enhanced_code }) => [outcome, smtp_code, enhanced_code]),
      [
        ['deferred', 451, '4.3.0'],
        ['deferred', 451, '4.3.0'],
        ['accepted', 250, '2.0.0'],
      ],
    );
    assert.equal(recipients[0]?.attempt_count, 3);
    const events = await app.follow().of(id, 'delivered');
    assert.equal(kinds(events), 'sent deferred deferred delivered');
    const deferred = events[1]?.data['deferred'] as Record<string, unknown>;
    assert.deepEqual(
      [deferred['attempt'], deferred['smtp_code'], deferred['mx'], since(deferred['next_attempt_at'] as string)],
      [1, 451, 'mx.dest.test', MINUTE],
    );
    const usual = await app.get<{ data: SeenEvent[] }>(`/v1/events?message_id=${id}`);
    assert.equal(kinds(usual.body.data), 'sent delivered');
    assert.match(mails().at(-1)?.data ?? '', new RegExp(`^Message-ID: ${rfc_message_id}\r$`, 'm'));
  });

  it('gives up after 72 hours by the schedule: bounced, expired, with the last reply, and suppresses nobody', async () => {
    server.options.script = { rcpt: '451 4.3.0 come back later' };
    const { id } = await app.send();
    await app.settled();
    const times: number[] = [];
    let message = await app.message(id);
    while (message.status !== 'bounced') {
      times.push(since(message.attempts.at(-1)?.started_at));
      message = await app.nextAttempt(id);
      assert.ok(times.length < 30);
    }
    const waits = times.slice(1).map((time, i) => (time - (times[i] ?? 0)) / MINUTE);
    assert.deepEqual(waits.slice(0, 8), [1, 5, 15, 30, 60, 120, 240, 240]);
    const seen = waits.map((wait, i) => [String(i + 1), inWords(wait), inWords((times[i + 1] ?? 0) / MINUTE)]);
    const [last, same] = [seen.at(-1) ?? [], seen.slice(7)];
    assert.ok(same.every(([, wait]) => wait === '4 h'));
    assert.deepEqual(tableOfRetries(), [
      ...seen.slice(0, 7),
      [`8 to ${String(last[0])}`, '4 h each', `${String(same[0]?.[2])} to ${String(last[2])}`],
      [String(times.length), '-', 'given up at 72 h'],
    ]);
    assert.equal(since(message.status_at), 72 * HOUR);
    const events = await app.follow().of(id, 'bounced');
    const bounced = events.at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [
        bounced['class'],
        bounced['reason'],
        bounced['smtp_code'],
        bounced['smtp_reply'],
        bounced['attempts'],
        bounced['suppression_added'],
      ],
      ['soft', 'expired', 451, '4.3.0 come back later', times.length, false],
    );
    const again = await app.send({ test: { outcome: 'delivered' } });
    assert.equal(again.status, 'queued');
    await app.settled();
  });

  it('comes back to a greylist after 60 to 90 s, then every 5 min', async () => {
    let tries = 0;
    server.options.script = { rcpt: () => (++tries <= 3 ? '450 4.7.1 Greylisted, see you soon' : '250 ok') };
    const { id } = await app.send();
    await app.settled();
    for (let i = 0; i < 3; i++) await app.nextAttempt(id);
    const { status, attempts } = await app.message(id);
    assert.equal(status, 'delivered');
    const waits = attempts
      .slice(1)
      .map(({ started_at }, i) => Date.parse(started_at) - Date.parse(attempts[i]?.started_at ?? ''));
    assert.deepEqual(
      waits.map((wait) => wait / 1000),
      [75, 300, 300],
    );
    assert.deepEqual([attempts[0]?.class, attempts[0]?.reason], ['soft', 'rate_limited']);
  });

  it('comes back when it is asked to, not sooner', async () => {
    server.options.script = { rcpt: '451 4.3.0 busy, try again in 10 minutes' };
    const { id } = await app.send();
    await app.settled();
    assert.equal(since((await app.message(id)).recipients[0]?.next_attempt_at), 11 * MINUTE);
  });

  it('gives up a mailbox that has been full for a day: bounced, soft, and suppresses nobody', async () => {
    server.options.script = { rcpt: '452 4.2.2 mailbox full' };
    const { id } = await app.send();
    await app.settled();
    let message = await app.message(id);
    while (message.status === 'deferred') message = await app.nextAttempt(id);
    assert.equal(message.status, 'bounced');
    const last = message.attempts.at(-1);
    const age = since(last?.started_at);
    assert.ok(age >= 24 * HOUR && age < 28 * HOUR, `${age / HOUR} h`);
    assert.deepEqual([last?.outcome, last?.next_attempt_at], ['deferred', null]);
    const [bounced] = (await app.follow().of(id, 'bounced')).slice(-1);
    const detail = bounced?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual([detail['class'], detail['reason'], detail['suppression_added']], ['soft', 'mailbox_full', false]);
  });

  it('warns the operator where mail is refused for reasons of our own set-up', async () => {
    server.options.script = { rcpt: '550 5.7.25 your address has no PTR record' };
    await app.send();
    const { id } = await app.send({ to: 'bob@dest.test' });
    await app.settled();
    const warnings = app.logged.filter(({ event }) => event === 'infrastructure_bounce');
    assert.deepEqual(
      warnings.map(({ lane, code, reason, rule }) => [lane, code, reason, rule]),
      [['mx.dest.test', 550, 'policy', 'veto:host-name']],
    );
    const attempts = app.logged.filter(({ event }) => event === 'attempt');
    assert.deepEqual(
      attempts.map(({ rule }) => rule),
      ['veto:host-name', 'veto:host-name'],
    );
    assert.equal((await app.message(id)).status, 'bounced');
  });

  it('gives up at expires_at, also where the next try would be later', async () => {
    server.options.script = { mail: '421 4.3.2 shutting down' };
    const { id } = await app.send({ expires_at: new Date(start + 90_000).toISOString() });
    await app.settled();
    let message = await app.message(id);
    assert.equal(since(message.recipients[0]?.next_attempt_at), MINUTE);
    message = await app.nextAttempt(id);
    assert.deepEqual([message.status, message.recipients[0]?.next_attempt_at], ['deferred', null], 'none is made');
    assert.equal(message.attempts.at(-1)?.next_attempt_at, null);
    message = await app.nextAttempt(id);
    assert.equal(message.status, 'bounced');
    assert.equal(message.recipients[0]?.attempt_count, 2);
    const [bounced] = (await app.follow().of(id, 'bounced')).slice(-1);
    assert.equal((bounced?.data['bounced'] as Record<string, unknown>)['reason'], 'expired');
  });

  it('gives up at expires_at where the hosts of an organisation at an operator cannot be reached', async () => {
    // No server listens at 127.0.0.9.
    Object.assign(app.resolver.zones, {
      'dest.test MX': ['10 dest-test.mail.protection.outlook.com'],
      'dest-test.mail.protection.outlook.com A': ['127.0.0.9'],
    });
    // Shortly before this time the hosts are dialled once more, and then not for minutes.
    const expires = { expires_at: new Date(start + 5 * MINUTE + 10_000).toISOString() };
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.push((await app.send(expires)).id);
    const statuses = (): Promise<string[]> => Promise.all(ids.map(async (id) => (await app.message(id)).status));
    for (let half = 0; half < 40 && (await statuses()).some((status) => status !== 'bounced'); half++) {
      await setTimeout(200);
      if (app.clock.now() < start + 7 * MINUTE) app.clock.advance(MINUTE / 2);
    }
    assert.deepEqual(
      await statuses(),
      ids.map(() => 'bounced'),
    );
  });

  it('believes that a domain does not exist only after three look-ups over 20 minutes', async () => {
    const { id } = await app.send({ to: 'ana@gone.test' });
    await app.settled();
    let message = await app.message(id);
    const seen: [number, string][] = [[0, message.status]];
    while (message.status === 'deferred') {
      message = await app.nextAttempt(id);
      seen.push([(app.clock.now() - start) / MINUTE, message.status]);
    }
    assert.deepEqual(seen, [
      [0, 'deferred'],
      [1, 'deferred'],
      [6, 'deferred'],
      [21, 'bounced'],
    ]);
    const bounced = (await app.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [bounced['class'], bounced['reason'], bounced['suppression_added']],
      ['hard', 'domain_not_found', true],
    );
  });

  it('a domain that comes back in between is no missing domain', async () => {
    const { id } = await app.send({ to: 'ana@late.test' });
    await app.settled();
    await app.nextAttempt(id);
    Object.assign(app.resolver.zones, zonesFor('late.test'));
    assert.equal((await app.nextAttempt(id)).status, 'delivered');
  });

  it('bounces at once where the domain takes no mail (null MX), and suppresses the address', async () => {
    app.resolver.zones['null.test MX'] = ['0 .'];
    const { id } = await app.send({ to: 'ana@null.test' });
    const bounced = (await app.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual([bounced['class'], bounced['reason'], bounced['enhanced_code']], ['hard', 'null_mx', '5.1.10']);
    assert.equal((await app.send({ to: 'ana@null.test' })).status, 'suppressed');
  });

  it('takes SERVFAIL for what it is: trouble of the domain, whose mail waits without spending an attempt', async () => {
    app.resolver.zones['dest.test MX'] = 'SERVFAIL';
    const { id } = await app.send();
    const why = async () => await app.why(id);
    /** Until DNS was asked so often. */
    const asked = async (times: number): Promise<void> => {
      while (app.resolver.asked.length < times || (await why()).reason !== 'dns_trouble')
        await new Promise((resolve) => setImmediate(resolve));
    };
    await asked(1);
    assert.match((await why()).message, /DNS does not tell where mail for dest\.test goes/);
    const [need] = (await app.operator.call('needs', {})).data.filter(({ kind }) => kind === 'dns_trouble');
    assert.deepEqual([need?.level, need?.mails], ['amber', 1]);
    assert.match(need?.message ?? '', /dest\.test/);
    for (let times = 2; times < 8; times++) {
      app.clock.advance(5 * 60_000);
      await asked(times);
    }
    const broken = await app.message(id);
    assert.deepEqual([broken.status, broken.attempts.length], ['queued', 0]);
    app.resolver.zones['dest.test MX'] = ['10 mx.dest.test'];
    app.clock.advance(5 * 60_000);
    await app.follow().of(id, 'delivered');
  });

  it('keeps mail for a domain with IPv6 only while DNS has not told whether this server may use IPv6, then bounces it with the reason', async () => {
    const own = '2a00:1450:4001::25';
    const other = await startTestApp({
      zones: { 'six.test MX': ['10 mx.six.test'], 'mx.six.test AAAA': ['2a00::1'], [`${own} PTR`]: 'SERVFAIL' },
      settings: { delivery: { sources: [{ name: 'out6', ipv4: '127.0.0.1', ipv6: own }] } },
    });
    const { id } = await other.send({ to: 'ana@six.test' });
    const why = async () => await other.why(id);
    while ((await why()).reason !== 'dns_trouble') await new Promise((resolve) => setImmediate(resolve));
    assert.match((await why()).message, /DNS has not told yet whether this server may send over IPv6/);
    Reflect.deleteProperty(other.resolver.zones, `${own} PTR`);
    other.clock.advance(MINUTE);
    const bounced = (await other.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [bounced['enhanced_code'], bounced['smtp_reply'], bounced['suppression_added']],
      [
        '5.4.4',
        'the mail hosts of six.test have no IPv4 address, and this server does not send over IPv6 (delivery.ipv6)',
        false,
      ],
    );
    await other.stop();
  });

  it('keeps scheduled mail until its time, then gives it 72 hours from there', async () => {
    const sendAt = new Date(start + 2 * HOUR).toISOString();
    const { id, status } = await app.send({ send_at: sendAt });
    assert.equal(status, 'scheduled');
    app.clock.advance(2 * HOUR - 1);
    await app.settled();
    assert.equal((await app.message(id)).status, 'scheduled');
    assert.deepEqual(app.resolver.asked, []);
    app.clock.advance(1);
    const events = await app.follow().of(id, 'delivered');
    assert.equal(events[0]?.timestamp, sendAt);
    assert.equal((events[1]?.data['delivered'] as Record<string, unknown>)['queue_ms'], 0);
    assert.deepEqual(mails().length, 1);
  });

  it('bug: scheduled mail whose time had come was called scheduled until it had its turn', async () => {
    server.options.script = { connect: 'hang' };
    await app.send();
    await server.reached('connect');
    const { id } = await app.send({ send_at: new Date(start + MINUTE).toISOString() });
    app.clock.advance(MINUTE);
    // The sweep of every 30 s.
    app.clock.advance(31_000);
    let message = await app.message(id);
    for (let look = 0; look < 1000 && message.status === 'scheduled'; look++) {
      await setTimeout(5);
      message = await app.message(id);
    }
    server.sessions[0]?.end();
    assert.deepEqual([message.status, message.attempts], ['queued', []]);
    await app.balanced();
  });

  it('a hard bounce suppresses the address, and the next send meets that', async () => {
    server.options.script = { rcpt: '550 5.1.1 no such user' };
    const first = await app.send();
    const bounced = (await app.follow().of(first.id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [bounced['class'], bounced['reason'], bounced['suppression_added'], bounced['async']],
      ['hard', 'mailbox_not_found', true, false],
    );
    const second = await app.send({ to: 'ANA@dest.test' });
    assert.equal(second.status, 'suppressed');
    const [told] = await app.follow().of(second.id, 'suppressed');
    assert.equal((told?.data['suppressed'] as Record<string, unknown>)['reason'], 'hard_bounce');
    const refused = await app.request<{ error: { code: string; field: string } }>('POST', '/v1/messages', {
      from: 'hi@acme.test',
      to: 'ana@dest.test',
      subject: 'x',
      text: 'x',
      on_suppressed: 'reject',
    });
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.field],
      [409, 'recipient_suppressed', 'to'],
    );
    assert.equal(server.sessions.flatMap(({ lines }) => lines).filter((line) => line.startsWith('RCPT')).length, 1);
  });

  for (const [why, reply] of [
    ['a block', '550 5.7.1 blocked using zen.example'],
    ['spam', '554 5.7.1 message looks like spam'],
    ['a full mailbox', '552 5.2.2 mailbox full'],
    ['a rate text with a mailbox code', '550 5.2.1 user is receiving mail at a rate that'],
  ] as const) {
    it(`does not suppress for ${why}`, async () => {
      server.options.script = { rcpt: reply };
      const { id } = await app.send();
      const bounced = (await app.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
      assert.deepEqual([bounced['suppression_added'], bounced['class'] === 'hard'], [false, false]);
      assert.equal((await app.send({ send_at: new Date(start + HOUR).toISOString() })).status, 'scheduled');
    });
  }

  it('meets an address that was suppressed between acceptance and a later attempt', async () => {
    server.options.script = { rcpt: '451 4.3.0 later' };
    const { id } = await app.send();
    await app.settled();
    await suppress('ana@dest.test');
    const message = await app.nextAttempt(id);
    assert.equal(message.status, 'suppressed');
    assert.equal(message.recipients[0]?.attempt_count, 1);
    assert.equal(kinds(await app.follow().of(id, 'suppressed')), 'sent deferred suppressed');
  });

  it('meets one that was suppressed before scheduled mail was due', async () => {
    const { id } = await app.send({ send_at: new Date(start + HOUR).toISOString() });
    await suppress('ana@dest.test');
    assert.equal((await app.nextAttempt(id)).status, 'suppressed');
    assert.deepEqual(
      server.sessions.flatMap(({ lines }) => lines.filter((line) => line.startsWith('MAIL'))),
      [],
    );
  });

  it('an entry error in a bulk send is a suppressed recipient too, where that is asked for', async () => {
    await suppress('ana@dest.test');
    const { body } = await app.request<{ data: { status: string; error: { code: string; field: string } | null }[] }>(
      'POST',
      '/v1/messages',
      {
        from: 'hi@acme.test',
        subject: 'x',
        text: 'x',
        on_suppressed: 'reject',
        recipients: [
          { to: 'ana@dest.test' },
          { to: 'bo@dest.test' },
          { to: 'ana+2@dest.test', on_suppressed: 'accept' },
        ],
      },
    );
    assert.deepEqual(
      body.data.map(({ status, error }) => [status, error?.code ?? null, error?.field ?? null]),
      [
        ['rejected', 'recipient_suppressed', 'recipients[0].to'],
        ['queued', null, null],
        ['queued', null, null],
      ],
    );
    await app.settled();
  });

  it('goes to the next host where the first cannot be reached or turns us away, and spends one attempt', async () => {
    // No server listens at 127.0.0.9.
    Object.assign(app.resolver.zones, {
      'dest.test MX': ['10 dead.dest.test', '20 mx.dest.test'],
      'dead.dest.test A': ['127.0.0.9'],
    });
    const { id } = await app.send();
    const events = await app.follow().of(id, 'delivered');
    assert.equal(kinds(events), 'sent delivered');
    assert.equal((events[1]?.data['delivered'] as Record<string, unknown>)['mx'], 'mx.dest.test');
    assert.equal((await app.message(id)).attempts.length, 1);
  });
});
