/** The programs that people have: each submits by STARTTLS and by TLS from the start, and what it sent arrives. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { createTransport } from 'nodemailer';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';
import { missing } from '../support/harness/peer.ts';
import { startPostfix } from '../support/harness/postfix.ts';

const run = promisify(execFile);
const FROM = 'robot@acme.test';
const TO = 'ana@dest.test';
/** On a busy machine a dialogue takes long; it is only to end before the test is ended. */
const LONGEST_RUN_MS = 240_000;
const LONGEST_STEP_S = 200;

/** One way to submit. */
interface Door {
  port: number;
  /** TLS from the first octet. */
  isSecure: boolean;
}
type Submit = (door: Door, key: string, subject: string) => Promise<unknown>;

const mail = (subject: string): string =>
  `From: ${FROM}\nTo: ${TO}\nSubject: ${subject}\n\nGood day.\n.a dot\nFrom here on.\n`;

const python = `
import smtplib, ssl, sys
port, secure, key, mail = int(sys.argv[1]), sys.argv[2] == '1', sys.argv[3], sys.argv[4]
context = ssl._create_unverified_context()
client = smtplib.SMTP_SSL('127.0.0.1', port, context=context) if secure else smtplib.SMTP('127.0.0.1', port)
if not secure: client.starttls(context=context)
client.login('apikey', key)
client.sendmail('${FROM}', ['${TO}'], mail)
client.quit()
`;

/** Program, what is to be installed for it, and how it submits. */
const clients: readonly (readonly [name: string, needs: readonly string[], submit: Submit])[] = [
  [
    'swaks',
    ['swaks'],
    ({ port, isSecure }, key, subject) =>
      run(
        'swaks',
        [
          '--server',
          `127.0.0.1:${String(port)}`,
          isSecure ? '--tls-on-connect' : '--tls',
          '--auth',
          'LOGIN',
          '--auth-user',
          'apikey',
          '--auth-password',
          key,
          '--from',
          FROM,
          '--to',
          TO,
          '--data',
          mail(subject),
          '--timeout',
          String(LONGEST_STEP_S),
        ],
        { timeout: LONGEST_RUN_MS },
      ),
  ],
  ['msmtp', ['msmtp'], (door, key, subject) => msmtp(door, key, subject)],
  [
    'Python’s smtplib',
    ['python3'],
    ({ port, isSecure }, key, subject) =>
      run('python3', ['-c', python, String(port), isSecure ? '1' : '0', key, mail(subject)], {
        timeout: LONGEST_RUN_MS,
      }),
  ],
  [
    'nodemailer',
    [],
    ({ port, isSecure }, key, subject) =>
      createTransport({
        host: '127.0.0.1',
        port,
        secure: isSecure,
        requireTLS: !isSecure,
        tls: { rejectUnauthorized: false },
        auth: { user: 'apikey', pass: key },
        greetingTimeout: LONGEST_RUN_MS,
      }).sendMail({ envelope: { from: FROM, to: TO }, raw: mail(subject) }),
  ],
  [
    'Postfix as a relay to its smarthost',
    ['postfix', 'sendmail'],
    (door, key, subject) => viaPostfix(door, key, subject),
  ],
];

async function msmtp({ port, isSecure }: Door, key: string, subject: string): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'ph-msmtp-'));
  const file = path.join(folder, 'msmtprc');
  writeFileSync(
    file,
    `account default\nhost 127.0.0.1\nport ${String(port)}\ntls on\ntls_starttls ${isSecure ? 'off' : 'on'}\ntls_certcheck off\nauth plain\nuser apikey\npassword ${key}\nfrom ${FROM}\ntimeout ${String(LONGEST_STEP_S)}\n`,
    { mode: 0o600 },
  );
  try {
    const running = run('msmtp', ['-C', file, TO], { timeout: LONGEST_RUN_MS });
    running.child.stdin?.end(mail(subject));
    await running;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Debian's swaks speaks TLS only with this package beside it. */
const withoutTls = (): Promise<string[]> =>
  run('perl', ['-MNet::SSLeay', '-e', '1']).then(
    () => [],
    () => ['libnet-ssleay-perl'],
  );

/** As docs/smtp.md shows it: a program on the host hands its mail to Postfix, and that to us. */
async function viaPostfix({ port, isSecure }: Door, key: string, subject: string): Promise<void> {
  const postfix = await startPostfix({
    hostname: 'lan.acme.test',
    main: (dir) => {
      writeFileSync(path.join(dir, 'key'), `[127.0.0.1]:${String(port)} apikey:${key}\n`);
      chmodSync(path.join(dir, 'key'), 0o644);
      return `mynetworks = 127.0.0.1
relayhost = [127.0.0.1]:${String(port)}
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = texthash:${dir}/key
smtp_sasl_security_options = noanonymous
smtp_tls_security_level = encrypt
smtp_tls_wrappermode = ${isSecure ? 'yes' : 'no'}
`;
    },
  });
  try {
    const transport = createTransport({
      host: '127.0.0.1',
      port: postfix.port,
      ignoreTLS: true,
      greetingTimeout: LONGEST_RUN_MS,
    });
    await transport.sendMail({ envelope: { from: FROM, to: TO }, raw: mail(subject) });
    while (postfix.queued() > 0) {
      assert.doesNotMatch(postfix.log(), /status=(?:bounced|deferred)/, postfix.log());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  } finally {
    postfix.stop();
  }
}

describe('journey: programs that submit', () => {
  let server: FakeMailServer;
  let app: TestApp;
  before(async () => {
    server = await startMailServer({ extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'] });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  after(async () => {
    await app.stop();
    await server.close();
  });

  const arrived = (subject: string): ReceivedMail | undefined =>
    server.sessions.flatMap(({ mails }) => mails).find(({ data }) => data.includes(`\r\nSubject: ${subject}\r\n`));

  for (const [name, needs, submit] of clients)
    for (const isSecure of [false, true])
      it(`${name} by ${isSecure ? 'TLS' : 'STARTTLS'}`, async function () {
        const absent = [...missing(...needs), ...(needs.includes('swaks') ? await withoutTls() : [])];
        if (absent.length > 0) this.skip(`${name} is not installed (apt-get install ${absent.join(' ')})`);
        if (needs.includes('postfix') && process.getuid?.() !== 0) this.skip('Postfix runs as root only');
        const { submissions, submission } = app.app.ports;
        const subject = `${name.replaceAll(/[^a-z]/gi, '')} ${String(isSecure)}`;
        await submit({ port: (isSecure ? submissions : submission) ?? 0, isSecure }, app.key, subject);
        while (arrived(subject) === undefined) await new Promise((resolve) => setImmediate(resolve));
        const { to, data } = arrived(subject) ?? assert.fail();
        assert.deepEqual(to, [TO]);
        assert.match(data, /\r\n\r\nGood day\.\r\n\.a dot\r\n>?From here on\.\r\n(?:\r\n)?$/);
        assert.match(data, /^DKIM-Signature: v=1;/);
        assert.match(data, /by mail\.posthorn\.test with ESMTPSA id msg_/);
      });
});
