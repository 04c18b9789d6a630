/**
 * `npm run bench -- strangers`: what one host without a key can cost the built program, door by door. A few connections from one address
 * ask as often as they get answers; meanwhile and after it a mail is sent, and its bounce with a token comes in. Prints a table: requests and how many were
 * refused, CPU of the server a request, bytes and rows that stay, and the worst memory. Exit 1 if sending failed, or a bounce at its first try.
 *
 *   --seconds 10     how long each door is tried
 *   --connections 4  side by side
 *   --networks 1     that the connections by SMTP come from
 *   --doors login,t  only these
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import sqlite3 from 'sqlite3';
import { openKeyring } from '../../src/base/keyring.ts';
import { returnPathFor, returnPathKeys } from '../../src/messages/delivery/return-path.ts';
import { dmarcXml } from '../support/harness/dmarc.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { post } from './latency.ts';
import { freePort, until } from './peers.ts';

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    connections: { type: 'string', default: '4' },
    networks: { type: 'string', default: '1' },
    doors: { type: 'string', default: '' },
  },
});
const MS = Number(options.seconds) * 1000;
const CONNECTIONS = Number(options.connections);
const NETWORKS = Number(options.networks);
const PATIENCE_MS = 60_000;
const SAMPLE_MS = 100;
const BOUNCE_EVERY_MS = 5_000;

interface Place {
  appliance: Appliance;
  mx: number;
  submission: number;
  returnPath: string;
  /** The address that this connection comes from. */
  from: string;
}

/** Makes one request; gives whether it was refused. */
type Visitor = () => Promise<boolean>;
type Door = (place: Place) => Promise<Visitor>;

/** One connection after the other where the server ends one; the same as long as it does not. */
function mailer(port: number, to: string, mailOf: (n: number) => string): Door {
  return ({ mx, from }) => {
    const at: { client: ReturnType<typeof smtpClient> | null } = { client: null };
    let count = 0;
    return Promise.resolve(async () => {
      if (at.client === null) {
        at.client = smtpClient(port === 0 ? mx : port, { from });
        await at.client.reply();
        await at.client.say('EHLO evil.test');
      }
      const { client } = at;
      const isGone = (): boolean => at.client === null;
      const say = async (line: string): Promise<boolean> => {
        const reply = await client.say(line);
        if (reply === '(closed)' || reply.startsWith('421')) at.client = null;
        return /^[23]/.test(reply);
      };
      if (!(await say('MAIL FROM:<eve@evil.test>')) || !(await say(`RCPT TO:<${to}>`)) || !(await say('DATA'))) {
        if (!isGone()) await say('RSET');
        return true;
      }
      client.write(mailOf(count++));
      return !(await say('\r\n.'));
    });
  };
}

const FILLER = `${'x'.repeat(998)}\r\n`;
const letter = (): string => `From: eve@evil.test\r\nSubject: x\r\n\r\n${FILLER.repeat(500)}`;
const quadratic = (): string => dsn(`a${'>'.repeat(200_000)}b`);
const head = ['Message-ID: <msg_00000000000000000000000000@acme.test>', 'To: ana@dest.test'];
const complaint = (): string =>
  `From: eve@evil.test\r\nSubject: complaint about message from 192.0.2.1\r\nContent-Type: message/rfc822\r\n\r\n${head.join('\r\n')}\r\n\r\nx`;

function aggregate(n: number): string {
  const day = 86_400;
  const end = Math.floor(Date.now() / 1000);
  const rows = Array.from({ length: 3400 }, (_, at) => ({
    ip: `192.${String(n & 255)}.${String(at >> 8)}.${String(at & 255)}`,
    count: 1,
  }));
  const file = gzipSync(
    dmarcXml('bench.test', rows, {
      id: `r${String(process.hrtime.bigint())}`,
      begin: String(end - day),
      end: String(end),
    }),
  );
  return `From: eve@evil.test\r\nSubject: Report domain: bench.test Submitter: evil.test\r\nContent-Type: application/gzip; name="evil.test!bench.test!1!2.xml.gz"\r\nContent-Transfer-Encoding: base64\r\n\r\n${file.toString('base64').replace(/.{76}/g, '$&\r\n')}`;
}

const http =
  (method: string, where: string, body?: string, headers: Record<string, string> = {}): Door =>
  ({ appliance }) =>
    Promise.resolve(async () => {
      const answer = await fetch(`${appliance.url}${where}`, {
        method,
        headers,
        redirect: 'manual',
        ...(body === undefined ? {} : { body }),
      });
      await answer.arrayBuffer();
      return answer.status === 429 || answer.status === 503;
    });

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const doors: Readonly<Record<string, Door>> = {
  'postmaster@, 500 KB': mailer(0, 'postmaster@mail.bench.test', letter),
  'abuse@, forged complaints': mailer(0, 'abuse@mail.bench.test', complaint),
  'fbl@, 500 KB': mailer(0, 'fbl@mail.bench.test', letter),
  'dmarc@, 3,400 records': mailer(0, 'dmarc@mail.bench.test', aggregate),
  'postmaster@, 200 KB recipient': mailer(0, 'postmaster@mail.bench.test', quadratic),
  'an old return path, 500 KB': (place) => mailer(0, place.returnPath, letter)(place),
  'a forged return path': mailer(0, `b+1${'0'.repeat(42)}@mail.bench.test`, letter),
  'submission without a key': (place) => mailer(place.submission, 'bo@dest.test', letter)(place),
  'GET /t/…': http('GET', '/t/c/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'),
  'POST /t/u/…': http('POST', '/t/u/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'List-Unsubscribe=One-Click', form),
  'GET /login': http('GET', '/login'),
  'POST /login': http('POST', '/login', 'email=a%40b.test&password=wrong-password', form),
  'GET /setup/…': http('GET', '/setup/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'),
  'GET /v1/messages': http('GET', '/v1/messages'),
  'POST /v1/messages, a wrong key': http('POST', '/v1/messages', '{}', {
    'content-type': 'application/json',
    authorization: `Bearer ph_live_${'a'.repeat(40)}`,
  }),
  'GET /nothing': http('GET', '/nothing'),
};

const sizeOf = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(path.join(folder, name)).size, 0);

function query<Row>(appliance: Appliance, sql: string): Promise<Row[]> {
  const db = new sqlite3.Database(path.join(appliance.dataDir, 'posthorn.db'), sqlite3.OPEN_READONLY);
  return new Promise((resolve, reject) => {
    db.all(sql, (error: Error | null, rows) => {
      db.close();
      if (error === null) resolve(rows as Row[]);
      else reject(error);
    });
  });
}

const TABLES = [
  'reports',
  'dmarc_rows',
  'tls_report_rows',
  'aggregate_reports',
  'audit',
  'messages',
  'suppressions',
  'sessions',
];

async function rowsOf(appliance: Appliance): Promise<number> {
  const known = await query<{ name: string }>(appliance, "SELECT name FROM sqlite_schema WHERE type = 'table'");
  const there = TABLES.filter((table) => known.some(({ name }) => name === table));
  const [row] = await query<{ n: number }>(
    appliance,
    `SELECT ${there.map((table) => `(SELECT COUNT(*) FROM ${table})`).join(' + ')} AS n`,
  );
  return row?.n ?? 0;
}

/** A mail to the simulator; the delivery, once it is delivered. */
async function delivered(appliance: Appliance, key: string): Promise<string> {
  await post(appliance, key, {
    from: 'hi@bench.test',
    subject: 's',
    text: 't',
    recipients: [{ to: 'delivered@simulator.posthorn.test' }],
  });
  let id = '';
  await until(
    async () => {
      const [row] = await query<{ id: string }>(
        appliance,
        "SELECT id FROM deliveries WHERE status = 'delivered' ORDER BY id DESC LIMIT 1",
      );
      id = row?.id ?? '';
      return id !== '';
    },
    'a simulated mail',
    PATIENCE_MS,
  );
  return id;
}

interface Line {
  door: string;
  requests: number;
  refused: number;
  cpu: number;
  bytes: number;
  rows: number;
  rss: number;
  healthz: number;
  bounceMs: number;
}

async function tryDoor(name: string, door: Door): Promise<Line> {
  const [mx, submission, submissions] = [await freePort(), await freePort(), await freePort()];
  const appliance = await startAppliance({
    env: {
      POSTHORN_SMTP__MX__PORT: String(mx),
      POSTHORN_SMTP__SUBMISSION__PORT: String(submission),
      POSTHORN_SMTP__SUBMISSION__TLS_PORT: String(submissions),
    },
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    const keys = returnPathKeys(openKeyring(appliance.dataDir));
    const [signing = keys[0]] = keys;
    if (signing === undefined) throw new Error('there is no key');
    const returnPath = `${returnPathFor(signing, await delivered(appliance, key))}@mail.bench.test`;
    const before = { bytes: sizeOf(appliance.dataDir), rows: await rowsOf(appliance), cpu: appliance.cpu() };
    let [requests, refused, rss, healthz, over, meanwhile] = [0, 0, appliance.rss(), 0, false, 0];
    const from = performance.now();
    const visit = async (n: number): Promise<void> => {
      const from = `127.1.${String(n % NETWORKS)}.1`;
      const once = await door({ appliance, mx, submission, returnPath, from });
      while (!over) {
        const isRefused = await once().catch(() => true);
        requests += 1;
        if (isRefused) refused += 1;
      }
    };
    const watch = async (): Promise<void> => {
      while (!over) {
        const asked = performance.now();
        await fetch(`${appliance.url}/healthz`).then((answer) => answer.arrayBuffer());
        healthz = Math.max(healthz, performance.now() - asked);
        rss = Math.max(rss, appliance.rss());
        await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
        over = performance.now() - from > MS;
      }
    };
    const bounces = async (): Promise<void> => {
      while (!over) {
        meanwhile = Math.max(meanwhile, await bounced(appliance, mx, key, signing));
        await new Promise((resolve) => setTimeout(resolve, BOUNCE_EVERY_MS));
      }
    };
    await Promise.all([watch(), bounces(), ...Array.from({ length: CONNECTIONS }, (_, n) => visit(n))]);
    const cpu = appliance.cpu() - before.cpu;
    const bounceMs = Math.max(meanwhile, await bounced(appliance, mx, key, signing));
    return {
      door: name,
      requests,
      refused,
      cpu: cpu / requests,
      bytes: sizeOf(appliance.dataDir) - before.bytes,
      rows: (await rowsOf(appliance)) - before.rows,
      rss,
      healthz,
      bounceMs,
    };
  } finally {
    await appliance.kill();
  }
}

/** A mail is sent right behind the flood, and its bounce comes in: how long until it has its event. */
async function bounced(
  appliance: Appliance,
  mx: number,
  key: string,
  signing: Parameters<typeof returnPathFor>[0],
): Promise<number> {
  const id = await delivered(appliance, key);
  const from = performance.now();
  const replies = await sendByHand(
    mx,
    '',
    `${returnPathFor(signing, id)}@mail.bench.test`,
    dsn('delivered@simulator.posthorn.test'),
  );
  if (replies.at(-1)?.startsWith('250') !== true) throw new Error(`a bounce was refused: ${replies.at(-1) ?? ''}`);
  await until(
    async () => {
      const [row] = await query<{ status: string }>(appliance, `SELECT status FROM deliveries WHERE id = '${id}'`);
      return row?.status === 'bounced';
    },
    'the bounce',
    PATIENCE_MS,
  );
  return performance.now() - from;
}

const wanted = options.doors === '' ? [] : options.doors.split(',');
const lines: Line[] = [];
for (const [name, door] of Object.entries(doors)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
  lines.push(await tryDoor(name, door));
  const one = lines.at(-1);
  console.error(`${name}: ${String(one?.requests)} requests, ${one?.cpu.toFixed(2) ?? ''} ms`);
}
const kib = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;
console.log(
  `cores: ${readFileSync('/proc/cpuinfo', 'utf8').split('processor').length - 1}; ${options.connections} connections for ${options.seconds} s each\n`,
);
console.log(
  '| Door | Requests | Refused | CPU a request | Data folder | Rows | Worst RSS | Worst /healthz | Slowest bounce |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
for (const { door, requests, refused, cpu, bytes, rows, rss, healthz, bounceMs } of lines)
  console.log(
    `| ${door} | ${String(requests)} | ${String(refused)} | ${cpu.toFixed(2)} ms | ${bytes < 0 ? '-' : kib(bytes)} | ${String(rows)} | ${rss.toFixed(0)} MiB | ${healthz.toFixed(0)} ms | ${bounceMs.toFixed(0)} ms |`,
  );
