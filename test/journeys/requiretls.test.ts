/** RFC 8689 over the whole program: mail that must have TLS all the way, and mail that would rather arrive. */
import assert from 'node:assert/strict';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { server as certificate, stsServer, testCa } from '../support/harness/certificate.ts';
import { submissionOptions } from '../support/harness/submission.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import {
  startMailServer,
  type FakeMailServer,
  type MailServerOptions,
  type Script,
} from '../support/fakes/fake-mail-server.ts';

const zones = {
  'dest.test MX': ['10 mx1.dest.test', '20 mx2.dest.test'],
  'mx1.dest.test A': ['127.0.0.1'],
  'mx2.dest.test A': ['127.0.0.2'],
};
const secured = ['dest.test', 'mx1.dest.test', 'mx2.dest.test'];

const DROPS: Script = { connect: 'drop' };
const BUSY: Script = { connect: { raw: '421 4.3.2 too many connections\r\n', then: 'drop' } };

const rows: [
  reason: string,
  first: MailServerOptions,
  second: MailServerOptions,
  secure: readonly string[],
  end: string,
  host: string | null,
][] = [
  ['a host that promises it', { extensions: ['REQUIRETLS'] }, {}, secured, 'delivered', 'mx1'],
  ['the second host promises it', {}, { extensions: ['REQUIRETLS'] }, secured, 'delivered', 'mx2'],
  ['no host promises it', {}, {}, secured, 'bounced', null],
  [
    'the second host drops the connection',
    {},
    { extensions: ['REQUIRETLS'], script: DROPS },
    secured,
    'deferred',
    null,
  ],
  ['the first host drops the connection', { extensions: ['REQUIRETLS'], script: DROPS }, {}, secured, 'deferred', null],
  ['the second host is busy', {}, { extensions: ['REQUIRETLS'], script: BUSY }, secured, 'deferred', null],
  ['nobody vouches for the hosts', { extensions: ['REQUIRETLS'] }, { extensions: ['REQUIRETLS'] }, [], 'bounced', null],
  ['no host has TLS', { tls: 'none' }, { tls: 'none' }, secured, 'deferred', null],
  [
    'certificates of other names',
    { certificate: stsServer, extensions: ['REQUIRETLS'] },
    { certificate: stsServer },
    secured,
    'deferred',
    null,
  ],
];

describe('journey: REQUIRETLS', () => {
  let servers: FakeMailServer[];
  let app: TestApp;

  async function start(
    first: MailServerOptions,
    second: MailServerOptions,
    resolver: FakeResolver,
    { mtaSts = false } = {},
  ): Promise<void> {
    const usual = { tls: 'starttls', certificate } as const;
    const one = await startMailServer({ ...usual, ...first });
    servers = [one, await startMailServer({ ...usual, ...second, listen: { host: '127.0.0.2', port: one.port } })];
    app = await startTestApp({
      mailPort: one.port,
      resolver,
      ca: testCa,
      settings: { delivery: { dnssecResolver: true, mtaSts } },
    });
  }
  afterEach(async () => {
    await app.stop();
    for (const server of servers) await server.close();
  });

  async function submitted(mail: SendMailOptions & { requireTLSExtensionEnabled?: boolean }): Promise<string> {
    const transport = createTransport(submissionOptions(app));
    const { response } = await transport.sendMail({
      from: 'hi@acme.test',
      to: 'ana@dest.test',
      subject: 's',
      text: 't',
      ...mail,
    });
    return /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? assert.fail(response);
  }
  /** The MAIL commands of the mails that were taken. */
  const taken = (): string[] =>
    servers.flatMap(({ sessions }, at) =>
      sessions.flatMap(({ mails, lines }) =>
        mails.some(({ data }) => data !== '')
          ? lines.filter((line) => line.startsWith('MAIL')).map((line) => `mx${String(at + 1)} ${line}`)
          : [],
      ),
    );

  for (const [reason, first, second, secure, end, host] of rows)
    it(`${reason}: ${end}`, async () => {
      const resolver = new FakeResolver(zones);
      for (const name of secure) resolver.secure.add(name);
      await start(first, second, resolver);
      const id = await submitted({ requireTLSExtensionEnabled: true });
      await app.follow().of(id, end);
      const [attempt] = (await app.message(id)).attempts;
      if (host === null) assert.deepEqual(taken(), []);
      else assert.match(taken().join(), new RegExp(`^${host} MAIL FROM:<[^>]+>.* REQUIRETLS`));
      if (end === 'bounced') assert.deepEqual([attempt?.enhanced_code, attempt?.reason], ['5.7.30', 'tls_required']);
      if (end === 'deferred' && first.script === undefined && second.script === undefined)
        assert.equal(attempt?.reason, 'tls_required');
    });

  it('waits while the policy that may vouch for the host cannot be had, and says so', async () => {
    const resolver = new FakeResolver({
      ...zones,
      '_mta-sts.dest.test TXT': ['v=STSv1; id=1'],
      'mta-sts.dest.test A': 'SERVFAIL',
    });
    await start({ extensions: ['REQUIRETLS'] }, { extensions: ['REQUIRETLS'] }, resolver, { mtaSts: true });
    const id = await submitted({ requireTLSExtensionEnabled: true });
    await app.follow().of(id, 'deferred');
    const [attempt] = (await app.message(id)).attempts;
    assert.equal(attempt?.reason, 'tls_required');
    assert.match(attempt.smtp_reply ?? '', /REQUIRETLS: the MTA-STS policy of the domain cannot be had/);
  });

  it('says that nobody vouches for the host, where that is so', async () => {
    await start({ extensions: ['REQUIRETLS'] }, { extensions: ['REQUIRETLS'] }, new FakeResolver(zones));
    const id = await submitted({ requireTLSExtensionEnabled: true });
    await app.follow().of(id, 'bounced');
    const [attempt] = (await app.message(id)).attempts;
    assert.match(attempt?.smtp_reply ?? '', /neither DNSSEC nor MTA-STS vouches/);
  });

  for (const [how, send] of [
    ['by API', async () => (await app.send({ headers: { 'TLS-Required': 'No' } })).id],
    ['by SMTP', () => submitted({ headers: { 'TLS-Required': 'No' } })],
  ] as const)
    it(`TLS-Required: No ${how} goes where DANE would forbid it`, async () => {
      const resolver = new FakeResolver({
        ...zones,
        '_25._tcp.mx1.dest.test TLSA': [`3 1 1 ${'ab'.repeat(32)}`],
        '_25._tcp.mx2.dest.test TLSA': 'SERVFAIL',
      });
      for (const name of [...secured, '_25._tcp.mx1.dest.test']) resolver.secure.add(name);
      await start({}, {}, resolver);
      const { id: strict } = await app.send();
      await app.follow().of(strict, 'deferred');
      await app.follow().of(await send(), 'delivered');
      assert.equal(taken().length, 1);
      assert.match(servers[0]?.sessions.at(-1)?.mails.at(-1)?.data ?? '', /^TLS-Required: No\r$/im);
    });
});
