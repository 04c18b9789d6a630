/** Mails of many sizes by both doors at once: each arrives with its own content, although memory is handed on and given back. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { plainAuth, smtpClient } from '../support/harness/smtp-client.ts';

const SIZES = [300, 9_000, 33_000, 70_000, 140_000, 400_000];
const SESSIONS = 3;

/** Lines that no other mail has; some begin with a dot. */
function linesOf(name: string, size: number): string {
  let text = '';
  for (let n = 0; text.length < size; n++) text += `${n % 7 === 3 ? '.' : ''}${name} has line ${String(n)}\r\n`;
  return text;
}

describe('journey: mails of many sizes side by side', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    // In the clear a socket gives larger blocks than TLS does.
    const settings = { smtp: { submission: { trustedNetworks: ['127.0.0.0/8'] } } };
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test'), settings });
  });

  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  /** Sends mails over one connection, each with the envelope of the next behind it in the same octets. */
  async function submit(mails: readonly (readonly [name: string, body: string])[]): Promise<void> {
    const client = smtpClient(app.app.ports.submission ?? 0);
    await client.reply();
    await client.say('EHLO client.test');
    assert.match(await client.say(plainAuth('apikey', app.key)), /^235/);
    const envelope = 'MAIL FROM:<hi@acme.test>\r\nRCPT TO:<ana@dest.test>\r\nDATA\r\n';
    client.write(envelope);
    for (const [at, [name, body]] of mails.entries()) {
      for (const code of ['250', '250', '354']) assert.match(await client.reply(), new RegExp(`^${code}`));
      const head = `From: hi@acme.test\r\nTo: ana@dest.test\r\nSubject: ${name}\r\n\r\n`;
      const next = at < mails.length - 1 ? envelope : 'QUIT\r\n';
      client.write(`${head}${body.replace(/^\./gm, '..')}.\r\n${next}`);
      assert.match(await client.reply(), /^250/);
    }
    await client.closed;
  }

  async function post(name: string, html: string): Promise<void> {
    const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: name, html, auto_text: false };
    assert.equal((await app.request('POST', '/v1/messages', mail)).status, 202);
  }

  it('arrive whole', async () => {
    const all = new Map<string, string>();
    const mailsOf = (door: string) =>
      SIZES.map((size) => {
        const name = `${door}-${String(size)}`;
        all.set(name, linesOf(name, size));
        return [name, all.get(name) ?? ''] as const;
      });
    await Promise.all(
      Array.from({ length: SESSIONS }, async (_, n) => {
        await Promise.all([
          submit(mailsOf(`smtp${String(n)}`)),
          ...mailsOf(`http${String(n)}`).map(([name, html]) => post(name, html)),
        ]);
      }),
    );
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === all.size);
    const arrived = server.sessions.flatMap(({ mails }) =>
      mails.map(({ data }): [string, string] => {
        const end = data.indexOf('\r\n\r\n');
        return [/^Subject: (\S+)/m.exec(data)?.[1] ?? '', data.slice(end + 4)];
      }),
    );
    assert.equal(arrived.length, all.size);
    for (const [name, body] of arrived) assert.equal(body, all.get(name), name);
  });
});
