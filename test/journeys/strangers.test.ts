/** A stranger who knows everything but a secret: floods, forged complaints and bounces, and what still works meanwhile. */
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { budgets } from '../../src/base/budgets.ts';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import { dkimRecord } from '../../src/mail/dkim/key-record.ts';
import { signHeaders } from '../../src/mail/dkim/sign.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { arf, dsn, sendByHand } from '../support/harness/mail-back.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';

interface Row {
  id: string;
  kind: string | null;
  state: string;
  bytes: number;
}

describe('journey: strangers', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { metrics: { token: 'm'.repeat(32) } },
    });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const port = (): number => app.app.ports.mx ?? 0;
  const rows = (): Promise<Row[]> =>
    app.app.db.prepared.all<Row>('SELECT id, kind, state, length(raw) AS bytes FROM reports ORDER BY id');
  const read = async (count: number): Promise<Row[]> => {
    for (;;) {
      const all = await rows();
      if (all.length === count && all.every(({ kind }) => kind !== null)) return all;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const delivered = async (
    fields: Record<string, unknown> = {},
  ): Promise<{ id: string; returnPath: string; head: string }> => {
    const { id } = await app.send(fields);
    await app.follow().of(id, 'delivered');
    const mail = server.sessions.flatMap(({ mails }) => mails).at(-1) ?? assert.fail();
    return { id, returnPath: mail.from, head: mail.data.slice(0, mail.data.indexOf('\r\n\r\n')) };
  };
  const untouched = async (id: string): Promise<void> => {
    assert.equal((await app.message(id)).status, 'delivered');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 404);
  };
  const usedUp = async (budget: string): Promise<number> => {
    const response = await fetch(`${app.url}/metrics`, { headers: { authorization: `Bearer ${'m'.repeat(32)}` } });
    return Number(
      new RegExp(`posthorn_budget_used_up_total\\{budget="${budget}"\\} (\\d+)`).exec(await response.text())?.[1],
    );
  };

  describe('who know every header but no secret', () => {
    /** The mail as the recipient of a forward has it: without the mark and the addresses that carry a token. */
    const known = (head: string): string[] =>
      head.split(/\r\n(?![ \t])/).filter((field) => !/^X-Posthorn-Delivery:|[bu]n?s?u?b?\+/i.test(field));

    for (const [what, mail] of [
      ['an ARF', (head: string[]) => arf([...head, 'To: ana@dest.test'])],
      [
        'a mark with another MAC',
        (head: string[], mark: string) =>
          arf([`X-Posthorn-Delivery: ${mark.slice(0, -1)}${mark.endsWith('0') ? '1' : '0'}`, ...head]),
      ],
      [
        'a mail under the subject of a feedback loop',
        (head: string[]) =>
          `From: eve@evil.test\r\nSubject: complaint about message from 192.0.2.1\r\nContent-Type: message/rfc822\r\n\r\n${head.join('\r\n')}\r\n\r\nx`,
      ],
      [
        'a bounce',
        (head: string[]) =>
          `${dsn('ana@dest.test').replace(/--b--$/, '')}--b\r\nContent-Type: text/rfc822-headers\r\n\r\n${head.join('\r\n')}\r\n\r\n--b--`,
      ],
    ] as const)
      it(`change nothing by ${what}; somebody may confirm it`, async () => {
        const { id, head } = await delivered();
        const mark = /^X-Posthorn-Delivery: (.*)$/m.exec(head)?.[1]?.trim() ?? '';
        await sendByHand(
          port(),
          what === 'a bounce' ? '' : 'eve@evil.test',
          'abuse@mail.posthorn.test',
          mail(known(head), mark),
        );
        const [row] = await read(1);
        assert.deepEqual([row?.kind, row?.state], [what === 'a bounce' ? 'bounce' : 'complaint', 'unverified']);
        await untouched(id);
        const { body } = await app.get<{ data: { verified: boolean }[] }>(`/v1/messages/${id}/reports`);
        assert.deepEqual(
          body.data.map(({ verified }) => verified),
          [false],
        );
        const { data } = await app.operator.call('inbound.unverified', {});
        assert.deepEqual(
          data.map((one) => [one.recipient, one.message_id]),
          [['ana@dest.test', id]],
        );
        await app.operator.call('inbound.confirm', { id: row?.id ?? '' });
        assert.equal((await app.message(id)).status, what === 'a bounce' ? 'bounced' : 'complained');
        assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 200);
        assert.deepEqual((await app.operator.call('inbound.unverified', {})).data, []);
        await assert.rejects(app.operator.call('inbound.confirm', { id: row?.id ?? '' }), /no unverified report/);
        const [audit] = await app.app.db.prepared.all<{ endpoint: string }>(
          "SELECT endpoint FROM audit WHERE endpoint = 'inbound.confirm'",
        );
        assert.ok(audit);
      });

    it('change nothing by unsubscribing or answering in the name of others', async () => {
      const { id, head } = await delivered({ stream: 'broadcast' });
      const quoted = known(head).join('\r\n');
      for (const [from, mail] of [
        ['ana@dest.test', `From: ana@dest.test\r\nSubject: unsubscribe\r\n\r\n${quoted}`],
        [
          'ana@dest.test',
          `From: ana@dest.test\r\nAuto-Submitted: auto-replied\r\nSubject: Out of office\r\n\r\n${quoted}`,
        ],
        [
          '',
          `From: MAILER-DAEMON@dest.test\r\nSubject: Undelivered Mail Returned to Sender\r\n\r\n<ana@dest.test>: 550 5.1.1 no such user\r\n\r\n${quoted}`,
        ],
      ] as const)
        await sendByHand(port(), from, 'postmaster@rp.acme.test', mail);
      await read(3);
      await untouched(id);
    });

    it('cannot use the mark of one copy against the recipient of another', async () => {
      const { id, head } = await delivered({ cc: ['eve@dest.test'] });
      await app.settled();
      const copies = server.sessions.flatMap(({ mails }) => mails);
      const [own] = copies
        .filter(({ to }) => to[0] === 'eve@dest.test')
        .map(({ data }) => data.slice(0, data.indexOf('\r\n\r\n')));
      assert.ok(own !== undefined && head !== '');
      await sendByHand(
        port(),
        'eve@dest.test',
        'abuse@rp.acme.test',
        arf([...own.split('\r\n'), 'X-Rcpt: ana@dest.test']).replace(
          'Version: 1',
          'Version: 1\r\nOriginal-Rcpt-To: ana@dest.test',
        ),
      );
      await read(1);
      const { recipients } = await app.message(id);
      assert.deepEqual(Object.fromEntries(recipients.map(({ email, status }) => [email, status])), {
        'ana@dest.test': 'delivered',
        'eve@dest.test': 'complained',
      });
    });
  });

  describe('complaints of a feedback loop', () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const secret = createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' }));

    async function signed(mail: string, domain: string): Promise<string> {
      const end = mail.indexOf('\r\n\r\n');
      const [head, body] = [mail.slice(0, end + 2), `${mail.slice(end + 4)}\r\n`];
      const signer = {
        key: { selector: 'arf', domain, algorithm: 'rsa-sha256' as const },
        sign: (data: Buffer) => sign('sha256', data, secret),
      };
      return `${await signHeaders({ head, bodyHash: relaxedBodyHash(Buffer.from(body)), timestamp: 1, signers: [signer] })}${head}\r\n${mail.slice(end + 4)}`;
    }
    const complaint = (
      id: string,
      from: string,
      { to = 'fbl@rp.acme.test', head = [] }: { to?: string; head?: readonly string[] } = {},
    ): string => arf([`X-Message-Id: ${id}`, ...head]).replace('From: fbl@provider.test', `From: ${from}\r\nTo: ${to}`);

    for (const [what, from, domain, change, counts] of [
      ['that is signed counts', 'feedback@arf.mail.yahoo.com', 'arf.mail.yahoo.com', (mail: string) => mail, true],
      [
        'that was changed does not',
        'feedback@arf.mail.yahoo.com',
        'arf.mail.yahoo.com',
        (mail: string) => mail.replace('A complaint.', 'A complaint!'),
        false,
      ],
      ['signed by another domain does not', 'feedback@arf.mail.yahoo.com', 'evil.test', (mail: string) => mail, false],
      ['from another address does not', 'eve@arf.mail.yahoo.com', 'arf.mail.yahoo.com', (mail: string) => mail, false],
    ] as const)
      it(`one ${what}`, async () => {
        app.resolver.zones = { ...app.resolver.zones, [`arf._domainkey.${domain} TXT`]: [dkimRecord(publicKey)] };
        const { id } = await delivered();
        await sendByHand(port(), '', 'fbl@rp.acme.test', change(await signed(complaint(id, from), domain)));
        const [row] = await read(1);
        assert.equal(row?.state, counts ? 'done' : 'unverified');
        assert.equal((await app.message(id)).status, counts ? 'complained' : 'delivered');
      });

    for (const [what, to, head, counts] of [
      [
        'that brings back our mail counts',
        'fbl@rp.acme.test',
        ['From: Acme <hi@acme.test>', 'To: ana@dest.test'],
        true,
      ],
      [
        'about mail of another sender does not',
        'fbl@rp.acme.test',
        ['From: eve@evil.test', 'To: eve@dest.test'],
        false,
      ],
      [
        'about mail to another recipient does not',
        'fbl@rp.acme.test',
        ['From: hi@acme.test', 'To: eve@dest.test'],
        false,
      ],
      [
        'to the return path of a domain that is not verified does not',
        'fbl@rp.evil.test',
        ['From: hi@acme.test'],
        false,
      ],
    ] as const)
      it(`one ${what}`, async () => {
        const [provider, domain] = ['feedback@arf.mail.yahoo.com', 'arf.mail.yahoo.com'];
        app.resolver.zones = { ...app.resolver.zones, [`arf._domainkey.${domain} TXT`]: [dkimRecord(publicKey)] };
        const added = await app.request<{ return_path: string }>('POST', '/v1/domains', { name: 'evil.test' });
        assert.equal(added.body.return_path, 'rp.evil.test', added.text);
        const { id } = await delivered();
        const mail = await signed(complaint(id, provider, { to, head }), domain);
        assert.match((await sendByHand(port(), '', to, mail)).at(-1) ?? '', /^250/);
        const [row] = await read(1);
        assert.equal(row?.state, counts ? 'done' : 'unverified');
        assert.equal((await app.message(id)).status, counts ? 'complained' : 'delivered');
      });
  });

  it('fill their budget, hear 452, and keep no bounce from being read', async () => {
    const { id, returnPath } = await delivered();
    const client = smtpClient(port());
    await client.reply();
    await client.say('EHLO evil.test');
    const mailOf = (lines: number): string =>
      `From: eve@evil.test\r\nSubject: x\r\n\r\n${`${'x'.repeat(998)}\r\n`.repeat(lines)}`;
    const [large, small] = [mailOf(500), mailOf(1)];
    let taken = 0;
    let reply = '';
    while (taken <= budgets.loose_mails_network.most) {
      await client.say('MAIL FROM:<eve@evil.test>');
      reply = await client.say('RCPT TO:<postmaster@mail.posthorn.test>');
      if (!reply.startsWith('250')) break;
      await client.say('DATA');
      client.write(`${taken < 100 ? large : small}.\r\n`);
      reply = await client.reply();
      if (!reply.startsWith('250')) break;
      taken += 1;
    }
    client.end();
    // A machine that reads them slowly says earlier that too many wait.
    assert.match(reply, /^452 4\.[37]\.1 /);
    // While too many wait, this one hears 452 as well, and is sent again.
    const bounce = () => sendByHand(port(), '', returnPath, dsn('ana@dest.test'));
    while ((await bounce()).at(-1)?.startsWith('452') === true);
    await app.follow().of(id, 'bounced');
    const all = await read(taken + 1);
    for (const { kind, bytes } of all) assert.ok(kind === 'bounce' || bytes <= budgets.kept_of_mail.most);
    const used = await Promise.all(
      (['loose_mails_network', 'loose_bytes_network', 'unread_mails_network'] as const).map(usedUp),
    );
    assert.ok(used.some((times) => times > 0));
    assert.equal(
      (await app.request('POST', '/v1/messages', { from: 'hi@acme.test', to: 'bo@dest.test', subject: 's', text: 't' }))
        .status,
      202,
    );
    app.clock.advance(3_600_000);
    assert.match(
      (await sendByHand(port(), 'pat@people.test', 'abuse@rp.acme.test', 'Subject: x\r\n\r\nx')).at(-1) ?? '',
      /^250/,
    );
  });

  it('write to an old return path ten times an hour, and others are not held up', async () => {
    const { returnPath } = await delivered();
    const { returnPath: other } = await delivered();
    for (let n = 0; n < budgets.token_mails_delivery.most; n++)
      assert.match((await sendByHand(port(), 'eve@evil.test', returnPath, 'Subject: x\r\n\r\nx')).at(-1) ?? '', /^250/);
    assert.match((await sendByHand(port(), 'eve@evil.test', returnPath, 'x')).at(-1) ?? '', /^452 4\.7\.1/);
    assert.match((await sendByHand(port(), '', other, dsn('ana@dest.test'))).at(-1) ?? '', /^250/);
  });

  it('try to submit without a key: they hear 530, and the audit log does not grow without end', async () => {
    const { submission } = app.app.ports;
    const client = smtpClient(submission ?? 0);
    await client.reply();
    await client.say('EHLO evil.test');
    const most = budgets.submission_audit_network.most;
    let said = 0;
    for (let session = client; said < most + 10; said++) {
      const reply = await session.say('MAIL FROM:<eve@evil.test>');
      if (reply.startsWith('530')) continue;
      session = smtpClient(submission ?? 0);
      await session.reply();
      await session.say('EHLO evil.test');
    }
    const [row] = await app.app.db.prepared.all<{ n: number }>("SELECT COUNT(*) AS n FROM audit WHERE method = 'SMTP'");
    assert.ok((row?.n ?? 0) <= most, String(row?.n));
    assert.ok((row?.n ?? 0) > 20);
  });

  it('write to the operator: the beginning of a large mail goes on', async () => {
    await app.stop();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test', 'op.test'),
      settings: { smtp: { operatorAddress: 'root@op.test' } },
    });
    const mail = `From: pat@people.test\r\nSubject: x\r\n\r\n${`${'x'.repeat(998)}\r\n`.repeat(600)}`;
    await sendByHand(port(), 'pat@people.test', 'postmaster@mail.posthorn.test', mail);
    await read(1);
    const [sent] = await app.app.db.prepared.all<{ bytes: number }>('SELECT length(bytes) AS bytes FROM attachments');
    assert.equal(sent?.bytes, budgets.forwarded_mail.most);
  });
});
