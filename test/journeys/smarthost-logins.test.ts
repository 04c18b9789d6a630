/** Customers who bring their own login at one provider: mail leaves under the login of its own route, though all of it shares a lane. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

const USERS: Readonly<Record<string, string>> = { 'a.test': 'alice', 'b.test': 'bob' };
const MAILS = 12;

describe('journey: logins of routes', () => {
  let server: FakeMailServer;
  let app: TestApp;
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  /** The user that a session has signed in as, or null. */
  const userOf = (lines: readonly string[]): string | null => {
    const [, initial] = lines.map((line) => /^AUTH PLAIN (\S+)/i.exec(line)).find((found) => found !== null) ?? [];
    return initial === undefined ? null : (Buffer.from(initial, 'base64').toString().split('\0')[1] ?? null);
  };

  it('are used for the mail of their own domains, one without a login for none', async () => {
    server = await startMailServer({ extensions: ['AUTH PLAIN', 'PIPELINING'] });
    const relay = { host: 'relay.test', port: server.port, tls: 'none' };
    const routes = {
      ...Object.fromEntries(
        Object.entries(USERS).map(([domain, user]) => [domain, { ...relay, user, password: `of ${user}` }]),
      ),
      '*': relay,
    };
    app = await startTestApp({
      mailPort: server.port,
      zones: { 'relay.test A': ['127.0.0.1'] },
      settings: { delivery: { routes, lane: { initialConcurrency: 4, maxConcurrency: 4 } } },
    });
    const domains = ['open.test', ...Object.keys(USERS)];
    for (let at = 0; at < MAILS; at++)
      await app.send({ to: `u${String(at)}@${domains[at % domains.length] ?? ''}`, html: null, text: 't' });
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === MAILS);
    const sent = server.sessions.flatMap(({ lines, mails }) =>
      mails.map(({ to }) => ({ user: userOf(lines), domain: to[0]?.split('@')[1] ?? '' })),
    );
    assert.equal(sent.length, MAILS);
    for (const { user, domain } of sent) assert.equal(user, USERS[domain] ?? null, domain);
  });
});
