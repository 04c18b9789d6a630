/**
 * `npm run bench -- packages`: each place where our own code does what one of the required packages could do, with both measured. The
 * figures are those of docs/dependencies.md. Takes two minutes; what a package does not end within a limit is ended and said so.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import knexPackage from 'knex';
import { createTransport } from 'nodemailer';
import type * as Clocks from '../../src/base/clock.ts';
import type * as Canonical from '../../src/mail/dkim/canonicalize.ts';
import type * as Sign from '../../src/mail/dkim/sign.ts';
import type * as OpenSession from '../../src/mta/connection/open-session.ts';
import type * as Tls from '../../src/mta/connection/tls.ts';
import type * as Connections from '../../src/storage/connection.ts';
import { timeouts } from '../mta/connection/helpers.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';
import { corpus } from '../support/harness/corpora.ts';
import { hostileTemplates } from '../templates/hostile.ts';
import { startFarReceiver } from './far-receiver.ts';

// The built code: what runs the source slows each function down.
const built = (file: string): string => new URL(`../../dist/src/${file}`, import.meta.url).href;
const { systemClock } = (await import(built('base/clock.js'))) as typeof Clocks;
const { relaxedBodyHash } = (await import(built('mail/dkim/canonicalize.js'))) as typeof Canonical;
const { signHeaders } = (await import(built('mail/dkim/sign.js'))) as typeof Sign;
const { openSession } = (await import(built('mta/connection/open-session.js'))) as typeof OpenSession;
const { createTlsClient } = (await import(built('mta/connection/tls.js'))) as typeof Tls;
const { takeConnection } = (await import(built('storage/connection.js'))) as typeof Connections;

const LIMIT_MS = 30_000;
const say = (text: string): void => {
  console.log(text);
};
const inMs = (ms: number): string => (ms < 10 ? `${ms.toFixed(2)} ms` : `${ms.toFixed(0)} ms`);

/** Runs an async function of this source, of one argument, in a thread; gives the time it took for each input. */
function timesOf(source: string, inputs: readonly unknown[]): Promise<(number | null)[]> {
  const code = `const { parentPort } = require('node:worker_threads');
    (async () => { const run = await (${source})(); parentPort.on('message', async (input) => {
      const from = performance.now(); try { await run(input); } catch {} parentPort.postMessage(performance.now() - from); });
      parentPort.postMessage('ready'); })();`;
  const start = async (): Promise<Worker> => {
    const worker = new Worker(code, { eval: true });
    await new Promise((resolve) => worker.once('message', resolve));
    return worker;
  };
  return (async () => {
    let worker = await start();
    const times: (number | null)[] = [];
    for (const input of inputs) {
      const answered = new Promise<number>((resolve) => worker.once('message', resolve));
      worker.postMessage(input);
      let timer: NodeJS.Timeout | undefined;
      const tooLong = new Promise<null>((resolve) => (timer = setTimeout(resolve, LIMIT_MS, null)));
      const ms = await Promise.race([answered, tooLong]);
      clearTimeout(timer);
      times.push(ms);
      if (ms !== null) continue;
      await worker.terminate();
      worker = await start();
    }
    await worker.terminate();
    return times;
  })();
}

const shown = (ms: number | null | undefined): string => (ms == null ? `over ${inMs(LIMIT_MS)}` : inMs(ms));

/** Mails that want to cost more than they may, in bytes that a listener takes. */
const repeated = (text: string, bytes: number): string => text.repeat(Math.floor(bytes / text.length));
const nested = (depth: number): string =>
  Array.from(
    { length: depth },
    (_, n) => `Content-Type: multipart/mixed; boundary=b${String(n)}\r\n\r\n--b${String(n)}\r\n`,
  ).join('');
const hostileMails: Readonly<Record<string, string>> = {
  '999 multiparts in each other': `${nested(999)}\r\nhi`,
  '5,000 multiparts in each other': `${nested(5000)}\r\nhi`,
  '500,000 parts': `Content-Type: multipart/mixed; boundary=x\r\n\r\n${'--x\r\n\r\nhi\r\n'.repeat(500_000)}--x--`,
  '10 MB of header fields': `${repeated('X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n', 10e6)}\r\nhi`,
  '1 MB of addresses': `To: ${repeated('a <a@b.c>,\r\n ', 1e6)}z@b.c\r\n\r\nhi`,
  '1 MB of <div>': `Content-Type: text/html\r\n\r\n${repeated('<div>\r\n', 1e6)}`,
  '2 MB of <div>': `Content-Type: text/html\r\n\r\n${repeated('<div>\r\n', 2e6)}`,
  '2 MB of links': `\r\n${repeated('http://a.b/ c@d.e \r\n', 2e6)}`,
};

const ours = `async () => { const { readReport } = await import(${JSON.stringify(built('inbound/classify.js'))});
  const { readBounceWords } = await import(${JSON.stringify(built('inbound/words-file.js'))});
  const { judge } = await import(${JSON.stringify(built('messages/delivery/classify.js'))});
  const words = readBounceWords(); return (bytes) => readReport({ words, judge }, bytes); }`;
const parser = (options: object): string => `async () => { const { simpleParser } = require('mailparser');
  return (bytes) => simpleParser(Buffer.from(bytes), ${JSON.stringify(options)}); }`;
const forPeople = { skipHtmlToText: true, skipTextToHtml: true, skipTextLinks: true, keepCidLinks: true };

async function compareReaders(): Promise<void> {
  say('mailparser: reports and hostile mails; our reader reads and classifies, mailparser only parses');
  const folder = corpus('bounces');
  const files = folder === null ? [] : readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const mails = files
    .filter((name) => /\.(?:eml|txt)$/.test(name) && !/SOURCE|LICENSE/.test(name))
    .map((name) => readFileSync(path.join(folder ?? '', name)));
  const named = Object.entries(hostileMails);
  const inputs = [...mails, ...named.map(([, text]) => Buffer.from(text))];
  const [own, stock, lean] = [
    await timesOf(ours, inputs),
    await timesOf(parser({}), inputs),
    await timesOf(parser(forPeople), inputs),
  ] as const;
  const mean = (times: readonly (number | null)[]): number =>
    times.slice(0, mails.length).reduce<number>((sum, ms) => sum + (ms ?? LIMIT_MS), 0) / mails.length;
  const line = (name: string, cells: readonly string[]): void => {
    say(`  ${name.padEnd(32)} ${cells.map((cell) => cell.padEnd(14)).join(' ')}`);
  };
  line('', ['ours', 'mailparser', 'as src/mail/received-mail.ts uses it']);
  if (mails.length > 0) line(`mean of ${String(mails.length)} bounces`, [own, stock, lean].map(mean).map(inMs));
  for (const [at, [name]] of named.entries())
    line(
      name,
      [own, stock, lean].map((times) => shown(times[mails.length + at])),
    );
}

async function compareSmtp(): Promise<void> {
  const MAILS = 20;
  const ROUNDS = 2000;
  const ROUND_TRIP_MS = 50;
  say(`nodemailer's SMTP client: a mail on a warm connection`);
  const measure = async (send: (port: number, mails: number) => Promise<void>): Promise<string> => {
    const far = await startFarReceiver(ROUND_TRIP_MS);
    await send(far.port, MAILS);
    const { warmTurns, warmMails } = far.seen;
    await far.close();
    const near = await startFarReceiver(0);
    const before = process.cpuUsage();
    await send(near.port, ROUNDS);
    const { user, system } = process.cpuUsage(before);
    await near.close();
    return `${(warmTurns / warmMails).toFixed(1)} round trips, ${((user + system) / ROUNDS).toFixed(0)} µs of CPU with the receiver's`;
  };
  const data = Buffer.from('Subject: hi\r\n\r\nhello\r\n');
  const own = await measure(async (port, mails) => {
    const need = { mode: 'opportunistic', verify: 'no', tlsa: [], policy: 'opportunistic' } as const;
    const target = {
      host: 'mx.test',
      ips: ['127.0.0.1'],
      port,
      ehlo: 'a.test',
      need,
      timeouts,
      otherHostsRemain: false,
    };
    const opened = await openSession({ clock: systemClock, tls: createTlsClient() }, target);
    if (opened.kind !== 'open') throw new Error('the session was not opened');
    const { session } = opened;
    const mail = { recipients: ['b@b.test'], data: [data], size: data.length, smtpUtf8: false, eightBit: false };
    for (let n = 0; n < mails; n++) await session.send({ envelopeFrom: 'a@a.test', ...mail });
    session.destroy();
  });
  const theirs = await measure(async (port, mails) => {
    const transport = createTransport({
      host: '127.0.0.1',
      port,
      pool: true,
      maxConnections: 1,
      maxMessages: 1e9,
      ignoreTLS: true,
    });
    for (let n = 0; n < mails; n++)
      await transport.sendMail({ envelope: { from: 'a@a.test', to: 'b@b.test' }, raw: data });
    transport.close();
  });
  say(`  ours: ${own}\n  nodemailer: ${theirs}`);
  for (const stage of ['rcpt', 'message'] as const) {
    const server = await startMailServer({ script: { [stage]: { raw: '', then: 'drop' } } });
    const transport = createTransport({ host: '127.0.0.1', port: server.port, ignoreTLS: true });
    const fault = await transport
      .sendMail({ envelope: { from: 'a@a.test', to: 'b@b.test' }, raw: data })
      .catch((error: unknown) => error as { code?: string; command?: string; message: string });
    await server.close();
    if ('message' in fault && 'code' in fault)
      say(
        `  nodemailer, hung up on at ${stage === 'rcpt' ? 'RCPT' : 'the final dot'}: ${String(fault.code)} ${String(fault.command)}`,
      );
  }
}

async function compareDkim(): Promise<void> {
  const ROUNDS = 300;
  say('nodemailer DKIM: CPU to sign a mail of 100 KB for one more recipient, RSA of 2,048 bits');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const head = 'From: a@a.test\r\nTo: b@b.test\r\nSubject: hi\r\n';
  const body = Buffer.from('A line of the mail that is as long as lines usually are in mails.\r\n'.repeat(1500));
  const cpu = async (run: () => Promise<unknown>): Promise<number> => {
    for (let n = 0; n < 20; n++) await run();
    const before = process.cpuUsage();
    for (let n = 0; n < ROUNDS; n++) await run();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000 / ROUNDS;
  };
  const key = { selector: 's', domain: 'a.test', algorithm: 'rsa-sha256' } as const;
  const { sign } = await import('node:crypto');
  const signers = [{ key, sign: (bytes: Buffer) => sign('sha256', bytes, privateKey) }];
  const bodyHash = relaxedBodyHash(body);
  const own = await cpu(() => signHeaders({ head, bodyHash, timestamp: 1, signers }));
  const transport = createTransport({
    streamTransport: true,
    buffer: true,
    dkim: { domainName: 'a.test', keySelector: 's', privateKey: pem },
  });
  const raw = Buffer.concat([Buffer.from(`${head}\r\n`), body]);
  const stock = await cpu(() => transport.sendMail({ envelope: { from: 'a@a.test', to: 'b@b.test' }, raw }));
  say(`  ours ${inMs(own)} (the body is hashed once for all recipients), nodemailer ${inMs(stock)}; it has no Ed25519`);
}

async function compareKnex(): Promise<void> {
  const ROUNDS = 20_000;
  say('knex builder: time of one read by key, and CPU');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-packages-'));
  const knex = knexPackage({
    client: 'sqlite3',
    connection: { filename: path.join(folder, 'a.db') },
    useNullAsDefault: true,
    pool: { min: 1, max: 1 },
  });
  await knex.raw('CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT, c INTEGER)');
  await knex.raw(
    "INSERT INTO t SELECT value, 'a' || value, 'b', 1 FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < 1000) SELECT value FROM n)",
  );
  const measure = async (name: string, run: (id: number) => Promise<unknown>): Promise<void> => {
    for (let n = 0; n < 500; n++) await run((n % 1000) + 1);
    const [from, before] = [performance.now(), process.cpuUsage()];
    for (let n = 0; n < ROUNDS; n++) await run((n % 1000) + 1);
    const { user, system } = process.cpuUsage(before);
    const wall = ((performance.now() - from) * 1000) / ROUNDS;
    say(`  ${name}: ${wall.toFixed(0)} µs, CPU ${((user + system) / ROUNDS).toFixed(0)} µs`);
  };
  await measure('knex builder', (id) => knex('t').where({ id }).first('a', 'b', 'c'));
  await measure('knex raw', (id) => knex.raw('SELECT a, b, c FROM t WHERE id = ?', [id]));
  const prepared = await takeConnection(knex);
  await measure('prepared statement', (id) => prepared.all('SELECT a, b, c FROM t WHERE id = ?', [id]));
  await prepared.close();
  await knex.destroy();
  rmSync(folder, { recursive: true });
}

async function compareLiquid(): Promise<void> {
  say('LiquidJS: hostile templates with its own limits (250 ms of rendering, 1 MB of source, 10 MB of memory)');
  const liquid = `async () => { const { Liquid } = require('liquidjs');
    const engine = new Liquid({ renderLimit: 250, parseLimit: 1e6, memoryLimit: 1e7 });
    return async ({ source, variables }) => engine.parseAndRender(source, variables); }`;
  const mixed = `async () => { const { compile, render } = await import(${JSON.stringify(built('templates/mixed/index.js'))});
    const monotonic = () => performance.now();
    const options = { strict: false, locale: 'en', timezone: 'UTC', now: 0, monotonic };
    return ({ source, variables }) => { const compiled = compile(source, 'html', { monotonic, limitMs: 250 });
      return compiled.ok ? render(compiled.template, { ...options, variables }) : compiled; }; }`;
  const inputs = hostileTemplates
    .filter(({ source }) => !source.includes('{{#'))
    .map(({ name, source, variables }) => ({ name, source, variables }));
  const [own, stock] = [await timesOf(mixed, inputs), await timesOf(liquid, inputs)];
  const slow = inputs
    .map(({ name }, at) => ({ name, own: own[at] ?? LIMIT_MS, stock: stock[at] ?? LIMIT_MS }))
    .sort((a, b) => b.stock - a.stock);
  const worst = Math.max(...slow.map((one) => one.own));
  say(`  ours: ${inMs(worst)} at most of ${String(inputs.length)} templates; LiquidJS over 300 ms:`);
  for (const one of slow.filter(({ stock: ms }) => ms > 300))
    say(`  ${one.name}: LiquidJS ${shown(one.stock >= LIMIT_MS ? null : one.stock)}, ours ${inMs(one.own)}`);
}

await compareReaders();
await compareSmtp();
await compareDkim();
await compareKnex();
await compareLiquid();
process.exit(0);
