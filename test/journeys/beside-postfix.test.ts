/** docs/beside-postfix.md: Debian's Postfix has port 25 and hands over what comes back to Posthorn on another port. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';
import { missing, until } from '../support/harness/peer.ts';
import { startPostfix, type Postfix } from '../support/harness/postfix.ts';

const document = readFileSync(path.resolve(import.meta.dirname, '../../docs/beside-postfix.md'), 'utf8');
const [, section = ''] = document.split('## Postfix hands over');

/** Returns the block of the document that follows the first place with this text. */
function blockAfter(text: string): string {
  const block = /```(?:ini|text)\n(?<body>[\s\S]*?)```/.exec(section.slice(section.indexOf(text)))?.groups?.['body'];
  assert.ok(block !== undefined, text);
  return block;
}

describe('journey: beside Postfix', () => {
  let app: TestApp;
  let server: FakeMailServer;
  let postfix: Postfix | null = null;

  before(async function () {
    const without = missing('postfix');
    if (without.length > 0) this.skip('postfix is not installed (apt-get install postfix)');
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    postfix = await startPostfix({
      hostname: 'mail.posthorn.test',
      main(dir) {
        for (const name of ['posthorn_domains', 'posthorn_transport', 'posthorn_access'])
          writeFileSync(
            path.join(dir, 'conf', name),
            blockAfter(`/etc/postfix/${name}\`:`).replaceAll(':2525', `:${String(app.app.ports.mx)}`),
          );
        const settings = blockAfter('In `/etc/postfix/main.cf`').replaceAll('/etc/postfix/', `${dir}/conf/`);
        // Postfix looks every three seconds whether Posthorn has answered for an address, and after three looks it answers 450.
        return `mynetworks =\nsmtp_tls_security_level = may\naddress_verify_poll_count = 80\n${settings}`;
      },
    });
  });
  after(async () => {
    if (postfix === null) return;
    postfix.stop();
    await app.stop();
    await server.close();
  });

  it('hands over a bounce', async () => {
    const { id } = await app.send({ to: 'ana@dest.test' });
    await app.follow().of(id, 'delivered');
    const returnPath = server.sessions.flatMap(({ mails }) => mails).at(-1)?.from ?? '';
    assert.match(returnPath, /^b\+.*@rp\.acme\.test$/);
    const replies = await sendByHand(postfix?.port ?? 0, '', returnPath, dsn('ana@dest.test'));
    assert.match(replies.at(-1) ?? '', /^250 2\.0\.0 Ok: queued/, postfix?.log());
    const events = await app.follow().of(id, 'bounced');
    assert.equal((events.at(-1)?.data['bounced'] as Record<string, unknown>)['reason'], 'mailbox_not_found');
    await until(() => postfix?.queued() === 0, 'Postfix to be rid of it');
  });
  it('refuses a forged token at once, and takes no mail for others', async () => {
    for (const [to, reply] of [
      ['b+forged@rp.acme.test', /^550 5\.1\.\d .*Address not known here/],
      ['nobody@rp.acme.test', /^550 5\.1\.\d .*Address not known here/],
      ['ana@elsewhere.test', /^454 4\.7\.1 .*Relay access denied/],
    ] as const) {
      const replies = await sendByHand(postfix?.port ?? 0, '', to, dsn('ana@dest.test'));
      assert.ok(
        replies.some((one) => reply.test(one)),
        `${to}: ${replies.join(' / ')} ${postfix?.log() ?? ''}`,
      );
    }
    // The question for an address is a mail in the queue too, which goes after it was answered.
    await until(() => postfix?.queued() === 0, 'Postfix to be rid of its questions');
  });
});
