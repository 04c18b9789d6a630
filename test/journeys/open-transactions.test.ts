/**
 * Receivers that refuse a mail at its end and keep its transaction open: the next mail on that connection must not be refused for
 * it, nor end it as an empty mail under another delivery's return path. Mail of two accounts takes turns on one connection.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';
import { ALL_SCOPES, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { freePort, missing, until } from '../support/harness/peer.ts';
import { startPostfix } from '../support/harness/postfix.ts';

/** Of each of two accounts. */
const MAILS = 100;
const endOf: Readonly<Record<string, string>> = {
  full: '552 5.2.2 the mailbox is full',
  busy: '450 4.2.2 the mailbox takes too much mail',
};
const names = Array.from(
  { length: MAILS },
  (_, i) => `${i % 10 === 3 ? 'full' : i % 10 === 6 ? 'busy' : 'good'}${String(i)}`,
);
const replyTo = (recipient: string): string | undefined => endOf[/^[a-z]+/.exec(recipient)?.[0] ?? ''];

/** Answers Postfix's questions at the end of DATA (SMTPD_POLICY_README). */
async function startPolicy(): Promise<Server> {
  const server = createServer((socket) => {
    let asked = '';
    socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        asked += chunk.toString();
        for (let end = asked.indexOf('\n\n'); end >= 0; end = asked.indexOf('\n\n')) {
          const recipient = /^recipient=(.*)$/m.exec(asked.slice(0, end))?.[1] ?? '';
          asked = asked.slice(end + 2);
          socket.write(`action=${replyTo(recipient) ?? 'DUNNO'}\n\n`);
        }
      });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

describe('journey: transactions that stay open', () => {
  let stops: (() => unknown)[];
  beforeEach(() => (stops = []));
  afterEach(async () => {
    for (const stop of stops.reverse()) await stop();
  });

  async function startUs(mailPort: number): Promise<TestApp> {
    const settings = { delivery: { lane: { initialConcurrency: 1, maxConcurrency: 1 } } };
    const app = await startTestApp({ mailPort, zones: zonesFor('dest.test'), settings });
    stops.push(() => app.stop());
    return app;
  }

  /** Sends the mail of both accounts; returns once each recipient has its end. */
  async function sendAll(app: TestApp): Promise<void> {
    await app.operator.call('accounts.add', { name: 'shop' });
    await app.operator.ask('createDomain', { account: 'shop', body: { name: 'shop.test', trusted: true } });
    const { key } = await app.operator.ask<{ key: string }>('createKey', {
      account: 'shop',
      body: { name: 'shop', scopes: ALL_SCOPES },
    });
    for (const [from, own] of [
      ['acme', app.key],
      ['shop', key],
    ] as const) {
      const recipients = names.map((name) => ({ to: `${name}.${from}@dest.test` }));
      const mail = { from: `hi@${from}.test`, subject: 'Order', text: 'Good day.', recipients };
      assert.equal((await app.request('POST', '/v1/messages', mail, { key: own })).status, 202);
    }
    const waiting = `SELECT COUNT(*) AS n FROM deliveries WHERE status IN ('queued', 'sent')`;
    await until(async () => {
      // A host that broke a session is left alone for a moment.
      app.clock.advance(20);
      return (await app.app.db.prepared.all<{ n: number }>(waiting))[0]?.n === 0;
    }, 'each mail to have an end');
  }

  async function judge(app: TestApp, mails: () => readonly ReceivedMail[]): Promise<void> {
    const rows = await app.app.db.prepared.all<{ address: string; status: string }>(
      'SELECT address, status FROM deliveries',
    );
    assert.equal(rows.length, 2 * MAILS);
    const wrong = rows.filter(({ address, status }) => {
      const code = replyTo(address)?.[0] ?? '2';
      return status !== { 2: 'delivered', 4: 'deferred', 5: 'bounced' }[code];
    });
    assert.deepEqual(wrong, []);
    const good = rows.filter(({ status }) => status === 'delivered').map(({ address }) => address);
    await until(() => mails().length >= good.length, 'the mails to arrive');
    assert.deepEqual(
      mails()
        .flatMap(({ to }) => to)
        .sort(),
      good.sort(),
    );
    for (const { from, to, data } of mails()) {
      const account = /\.(.*)@/.exec(to[0] ?? '')?.[1] ?? '';
      assert.ok(
        from.endsWith(`@rp.${account}.test`) && data.includes(`From: hi@${account}.test`),
        `${from} ${String(to)}`,
      );
    }
    assert.equal(new Set(mails().map(({ from }) => from)).size, good.length, 'each has a return path of its own');
    await app.balanced();
  }

  async function serve(options: Parameters<typeof startMailServer>[0]): Promise<FakeMailServer> {
    const server = await startMailServer({ tls: 'none', ...options });
    stops.push(() => server.close());
    return server;
  }

  it('bug: mail behind one that a real Postfix refused at its end bounced, and arrived empty', async function () {
    if (missing('postfix').length > 0) this.skip('Postfix is not installed (apt-get install postfix)');
    if (process.getuid?.() !== 0) this.skip('Postfix runs as root only');
    const behind = await serve({});
    const policy = await startPolicy();
    stops.push(() => policy.close());
    const port = await freePort();
    const app = await startUs(port);
    const postfix = await startPostfix({
      hostname: 'mx.dest.test',
      port,
      main: () => `mynetworks = 192.0.2.1
relay_domains = dest.test
smtpd_relay_restrictions = reject_unauth_destination
smtpd_end_of_data_restrictions = check_policy_service inet:127.0.0.1:${String((policy.address() as AddressInfo).port)}
smtpd_error_sleep_time = 0
smtp_tls_security_level = none
smtp_host_lookup = native
transport_maps = inline:{ {dest.test = smtp:[127.0.0.1]:${String(behind.port)}} }
`,
    });
    stops.push(postfix.stop);
    await sendAll(app);
    await judge(app, () => behind.sessions.flatMap(({ mails }) => mails));
  });

  for (const [name, rset] of [
    ['that ends its transaction with RSET', '250 2.0.0 reset'],
    ['that refuses RSET', '503 5.5.1 not now'],
  ] as const)
    it(`bug: so it did at a receiver ${name}`, async () => {
      const taken: ReceivedMail[] = [];
      const server = await serve({
        keepsTransactions: true,
        script: {
          rset,
          message(_line, { mails }) {
            const mail = mails.at(-1);
            const refusal = mail?.to.map(replyTo).find((reply) => reply !== undefined);
            if (mail !== undefined && refusal === undefined) taken.push(mail);
            return refusal ?? '250 2.0.0 taken';
          },
        },
      });
      const app = await startUs(server.port);
      await sendAll(app);
      await judge(app, () => taken);
    });
});
