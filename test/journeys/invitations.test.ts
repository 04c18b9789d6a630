/** Invitations to the team: by mail where the server can send, by hand otherwise; once, for 72 hours, again, withdrawn. */
import assert from 'node:assert/strict';
import { sha256Hex } from '../../src/base/secret.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';

const HOUR_MS = 3_600_000;

describe('journey: invitations to the team', () => {
  let app: TestApp;
  let server: FakeMailServer;
  let admin: Browser;
  let isBusy = false;

  const begin = async (http: object = { publicUrl: 'https://mail.acme.test' }): Promise<void> => {
    isBusy = false;
    server = await startMailServer({
      extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'],
      script: { rcpt: () => (isBusy ? '450 4.2.0 busy' : '250 2.1.5 ok') },
    });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('people.test', 'acme.test'),
      settings: { http },
    });
    admin = await signedIn(app.url, app.operator);
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const account = async (): Promise<string> =>
    (await app.operator.call('accounts.list', {})).data.find(({ name }) => name === 'default')?.id ?? '';
  const invite = async (fields: Record<string, string> = {}) => {
    await admin.open('/team');
    const given = { email: 'bo@people.test', role: 'support', accounts: await account(), password_now: PASSWORD };
    return admin.submit('/team', { ...given, ...fields });
  };
  const mails = async (): Promise<string[]> => {
    await app.settled();
    return server.sessions.flatMap(({ mails: taken }) => taken).map(({ data }) => data.replaceAll('=\r\n', ''));
  };
  const pathIn = (mail: string): string =>
    /https:\/\/mail\.acme\.test(\/setup\/[\w-]{43})/.exec(mail)?.[1] ?? assert.fail(mail);
  const idOf = async (email: string): Promise<string> =>
    (await app.operator.call('team.list', {})).data.find((one) => one.email === email)?.id ?? assert.fail(email);

  it('goes by mail, signed, says that it was delivered, and works once', async () => {
    await begin();
    const sent = await invite({ by: 'mail' });
    assert.match(sent.html, /The invitation is on its way to bo@people\.test/);
    assert.doesNotMatch(sent.html, /\/setup\//, 'the page does not show the link too');
    const [mail = ''] = await mails();
    assert.match(mail, /^DKIM-Signature: v=1;[\s\S]*?d=acme\.test/);
    assert.match(mail, /^From: Posthorn <postmaster@acme\.test>\r$/m);
    assert.match(mail, /ana@example\.net invites you/);
    const page = await admin.open(`/team/${await idOf('bo@people.test')}`);
    assert.match(page.html, /mailed: <span class="badge k-good">delivered/);
    const { html: team } = await admin.open('/team');
    assert.doesNotMatch(team, /own mail|id="account"/, 'the account of such mails is no choice');
    assert.match((await admin.open('/accounts')).html, /own mail/);
    const [link] = await app.app.db.prepared.all<{ token_hash: string }>('SELECT token_hash FROM setup_links');
    assert.equal(link?.token_hash, sha256Hex(pathIn(mail).slice('/setup/'.length)));

    app.clock.advance(71 * HOUR_MS);
    const bo = new Browser(app.url);
    await bo.open(pathIn(mail));
    await bo.submit(pathIn(mail), { password: PASSWORD, password_again: PASSWORD });
    assert.equal(bo.last.at, '/');
    assert.equal((await new Browser(app.url).open(pathIn(mail))).status, 404, 'it is used up');
    const { data } = await app.operator.call('team.list', {});
    assert.equal(data.find(({ email }) => email === 'bo@people.test')?.state, 'active');
    const rows = await app.app.db.prepared.all<{ summary: string }>(
      "SELECT summary FROM audit WHERE operation = 'team.add'",
    );
    assert.deepEqual(
      rows.map(({ summary }) => summary),
      ['invited bo@people.test to the team'],
    );
  });

  it('ends after 72 hours, is sent again, and the earlier link ends with that', async () => {
    await begin();
    await invite({ by: 'mail' });
    // Two mails at once would go over two connections, in any order.
    await app.settled();
    const id = await idOf('bo@people.test');
    await admin.open(`/team/${id}`);
    await admin.submit(`/team/${id}/link`, { by: 'mail', password_now: PASSWORD });
    const [first = '', second = ''] = await mails();
    assert.equal((await new Browser(app.url).open(pathIn(first))).status, 404);
    assert.equal((await new Browser(app.url).open(pathIn(second))).status, 200);
    app.clock.advance(72 * HOUR_MS);
    assert.equal((await new Browser(app.url).open(pathIn(second))).status, 404);
    const { data } = await app.operator.call('team.list', {});
    assert.equal(data.find((one) => one.id === id)?.state, 'expired');
  });

  it('is stored sealed, not shown, and erased once its mail is delivered', async () => {
    await begin();
    const bodies = async (): Promise<string[]> =>
      (await app.app.db.prepared.all<{ text: string }>('SELECT text FROM contents')).map(({ text }) => text);
    isBusy = true;
    await invite({ by: 'mail' });
    await app.settled();
    const [sealed = '', ...others] = await bodies();
    assert.match(sealed, /^v1\.\w+\.[\w-]+$/);
    assert.deepEqual(others, []);
    const [message] = await app.app.db.prepared.all<{ id: string; account_id: string }>(
      'SELECT id, account_id FROM messages',
    );
    await admin.submit('/account', { account: message?.account_id ?? '', back: '/' });
    const shown = await admin.open(`/messages/${message?.id ?? ''}`);
    assert.equal(shown.status, 200);
    for (const part of ['', '?part=text', '/html', '/source']) {
      const { html } = await admin.open(`/messages/${message?.id ?? ''}${part}`);
      assert.ok(!html.includes('/setup/') && !html.includes(sealed), part);
    }

    isBusy = false;
    const [waiting] = await app.app.db.prepared.all<{ due_at: number }>('SELECT due_at FROM deliveries');
    app.clock.advance((waiting?.due_at ?? 0) - app.clock.now());
    // The session that was refused has an empty one.
    const mail = (await mails()).at(-1) ?? '';
    assert.deepEqual(await bodies(), []);
    assert.equal((await new Browser(app.url).open(pathIn(mail))).status, 200, 'the link itself is good');
  });

  it('is withdrawn', async () => {
    await begin();
    await invite({ by: 'mail' });
    const [mail = ''] = await mails();
    const id = await idOf('bo@people.test');
    await admin.open(`/team/${id}`);
    const gone = await admin.submit(`/team/${id}/remove`, { password_now: PASSWORD });
    assert.match(gone.html, /The invitation of bo@people\.test is withdrawn/);
    assert.equal((await new Browser(app.url).open(pathIn(mail))).status, 404);
  });

  it('is handed over where no mail can be sent, and the page says why', async () => {
    await begin({});
    const made = await invite();
    assert.equal(made.status, 200);
    assert.match(made.html, /No mail was sent\. The link begins with http:\/\/127\.0\.0\.1/);
    assert.match(made.html, /The link begins with <code>http:<\/code>/);
    assert.match(made.html, /<pre>http:\/\/127\.0\.0\.1:\d+\/setup\/[\w-]{43}/);
    assert.deepEqual(await mails(), []);
  });

  it('is handed over where there is no verified domain', async () => {
    await begin();
    await app.app.db.commit.transact((tx) => tx.run("UPDATE domains SET status = 'pending'"));
    const made = await invite({ by: 'mail' });
    assert.match(made.html, /No mail was sent\. There is no verified domain yet/);
    assert.match((await admin.open('/team')).html, /This server cannot mail invitations yet/);
  });

  it('fifty an hour are the most', async () => {
    await begin();
    for (let n = 0; n < 50; n++)
      await app.operator.call('team.add', { email: `p${String(n)}@people.test`, role: 'read_only', accounts: [] });
    const refused = await invite();
    assert.equal(refused.status, 429);
    assert.match(refused.html, /There were 50 invitations in the last hour/);
    app.clock.advance(HOUR_MS);
    assert.equal((await invite({ by: 'hand' })).status, 200);
  });

  it('a link for a lost password is only handed over, for 30 minutes', async () => {
    await begin();
    const made = await invite({ by: 'hand' });
    const link = new URL(/<pre>([^<]+)<\/pre>/.exec(made.html)?.[1] ?? '').pathname;
    const bo = new Browser(app.url);
    await bo.open(link);
    await bo.submit(link, { password: PASSWORD, password_again: PASSWORD });
    const reset = await app.operator.call('team.link', { member: 'bo@people.test', mail: true });
    assert.ok(reset.url);
    app.clock.advance(30 * 60_000);
    assert.equal((await new Browser(app.url).open(new URL(reset.url).pathname)).status, 404);
    assert.deepEqual(await mails(), []);
  });
});
