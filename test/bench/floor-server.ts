/**
 * The floor: the least that a program on these libraries does for one mail, as the yardstick of a machine. A request, one row
 * in a grouped commit on SQLite (WAL, FULL), nodemailer's composer, one RSA-2048 signature in libuv's threads, nodemailer's
 * connection, one changed row. No keys, no checks, no idempotency, no events, no audit, no retries, no second signature.
 * Arguments: the receiver's port, connections to it, a database file.
 */
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import MailComposer from 'nodemailer/lib/mail-composer';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import sqlite3 from 'sqlite3';

const [receiver = '', sessions = '20', file = ''] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const SIGNED = ['From', 'To', 'Subject', 'Date', 'Message-ID', 'MIME-Version', 'Content-Type'];

interface Mail {
  id: number;
  from: string;
  to: string;
  subject: string;
  html: string;
}

interface Unit {
  insert?: Mail;
  done?: number;
  ready: () => void;
}

const db = new sqlite3.Database(file);
const run = (sql: string, ...params: string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    db.run(sql, params, (error: Error | null) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
for (const sql of [
  'PRAGMA journal_mode=WAL',
  'PRAGMA synchronous=FULL',
  'CREATE TABLE mails(id INTEGER PRIMARY KEY, sender TEXT, recipient TEXT, subject TEXT, html TEXT, done INT)',
])
  await run(sql);

const units: Unit[] = [];
let isWriting = false;

async function write(): Promise<void> {
  if (isWriting) return;
  isWriting = true;
  while (units.length > 0) {
    const group = units.splice(0, 500);
    const rows = group.flatMap(({ insert }) =>
      insert === undefined ? [] : [[insert.id, insert.from, insert.to, insert.subject, insert.html]],
    );
    const done = group.flatMap((unit) => unit.done ?? []);
    await run('BEGIN');
    if (rows.length > 0)
      await run(
        'INSERT INTO mails SELECT value->>0, value->>1, value->>2, value->>3, value->>4, 0 FROM json_each(?)',
        JSON.stringify(rows),
      );
    if (done.length > 0)
      await run('UPDATE mails SET done = 1 WHERE id IN (SELECT value FROM json_each(?))', JSON.stringify(done));
    await run('COMMIT');
    for (const unit of group) unit.ready();
  }
  isWriting = false;
}

const committed = (unit: Omit<Unit, 'ready'>): Promise<void> =>
  new Promise((resolve) => {
    units.push({ ...unit, ready: resolve });
    void write();
  });

const relaxed = (name: string, value: string): string =>
  `${name.toLowerCase()}:${value
    .replaceAll('\r\n', '')
    .replaceAll(/[ \t]+/g, ' ')
    .trim()}`;

const signed = (data: string): Promise<string> =>
  new Promise((resolve, reject) => {
    sign('sha256', Buffer.from(data, 'latin1'), privateKey, (error, signature) => {
      if (error === null) resolve(signature.toString('base64'));
      else reject(error);
    });
  });

async function composed({ from, to, subject, html }: Mail): Promise<Buffer> {
  const raw = await new MailComposer({ from, to, subject, html }).compile().build();
  const text = raw.toString('latin1');
  const cut = text.indexOf('\r\n\r\n');
  const body = text
    .slice(cut + 4)
    .replaceAll(/[ \t]+(?=\r\n)/g, '')
    .replaceAll(/[ \t]+/g, ' ')
    .replace(/(\r\n)*$/, '\r\n');
  const bodyHash = createHash('sha256').update(body, 'latin1').digest('base64');
  const fields = new Map(
    text
      .slice(0, cut)
      .split(/\r\n(?![ \t])/)
      .map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1)]),
  );
  const tags = `v=1; a=rsa-sha256; c=relaxed/relaxed; d=bench.test; s=floor; h=${SIGNED.join(':')}; bh=${bodyHash}; b=`;
  const lines = SIGNED.map((name) => relaxed(name, fields.get(name.toLowerCase()) ?? ''));
  const signature = await signed([...lines, relaxed('DKIM-Signature', tags)].join('\r\n'));
  return Buffer.from(`DKIM-Signature: ${tags}${signature}\r\n${text}`, 'latin1');
}

const waiting: Mail[] = [];
const idle: ((mail: Mail) => void)[] = [];
let delivered = 0;

async function deliver(): Promise<never> {
  const connection = new SMTPConnection({ host: '127.0.0.1', port: Number(receiver), ignoreTLS: true });
  await new Promise<void>((resolve) => {
    connection.connect(() => {
      resolve();
    });
  });
  for (;;) {
    const mail = waiting.shift() ?? (await new Promise<Mail>((resolve) => idle.push(resolve)));
    const octets = await composed(mail);
    await new Promise<void>((resolve, reject) => {
      connection.send({ from: 'hi@bench.test', to: [mail.to] }, octets, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
    await committed({ done: mail.id });
    delivered++;
  }
}
for (let n = 0; n < Number(sessions); n++) void deliver();

let lastId = 0;
const app = new Koa();
app.use(async (ctx) => {
  if (ctx.method === 'GET') {
    ctx.body = { delivered };
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer);
  const mail = { ...(JSON.parse(Buffer.concat(chunks).toString()) as Omit<Mail, 'id'>), id: ++lastId };
  await committed({ insert: mail });
  const free = idle.shift();
  if (free === undefined) waiting.push(mail);
  else free(mail);
  ctx.status = 202;
  ctx.body = { id: mail.id };
});
const server = app.listen(0, '127.0.0.1', () => {
  console.log(String((server.address() as AddressInfo).port));
});
