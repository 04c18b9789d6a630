/**
 * `npm run bench -- dsn`: a storm of bounces on the built program. Delivery reports of a realistic size come to the MX listener at a
 * steady rate, each about another delivered mail, while new mail goes on being accepted and delivered. Exit 1 where the rate was
 * not held, a report did not become a `bounced` event, or the event loop's p99 is over its limit.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import sqlite3 from 'sqlite3';
import { openKeyring } from '../../src/base/keyring.ts';
import { writeDeliveryReport } from '../../src/mail/delivery-report-write.ts';
import { returnPathFor, returnPathKeys } from '../../src/messages/delivery/return-path.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { post } from './latency.ts';
import { lagAt, loopLag } from './loop-lag.ts';
import { freePort, missing, startSink, until } from './peers.ts';

const { values: options } = parseArgs({
  options: {
    rate: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '60' },
    mails: { type: 'string', default: '20' },
    connections: { type: 'string', default: '10' },
  },
});
const rate = Number(options.rate);
const total = rate * Number(options.seconds);
/** Mails a second that are accepted and delivered meanwhile. */
const mails = Number(options.mails);
const LOOP_LIMIT_MS = 50;
const TOKEN = 'bench-of-reports';
const PATIENCE_MS = 120_000;
const BATCH = 1000;

interface Target {
  id: string;
  address: string;
}

/** `total` mails, delivered to the sink; their reports are yet to come. */
async function deliveredMails(appliance: Appliance, key: string): Promise<Target[]> {
  for (let at = 0; at < total; at += BATCH) {
    const recipients = Array.from({ length: Math.min(BATCH, total - at) }, (_, n) => ({
      to: `u${String(at + n)}@dest.test`,
    }));
    await post(appliance, key, { from: 'hi@bench.test', subject: 'Your order', text: 'Good day.', recipients });
  }
  const db = new sqlite3.Database(path.join(appliance.dataDir, 'posthorn.db'), sqlite3.OPEN_READONLY);
  const delivered = (): Promise<Target[]> =>
    new Promise((resolve, reject) => {
      db.all("SELECT id, address FROM deliveries WHERE status = 'delivered'", (error: Error | null, rows) => {
        if (error === null) resolve(rows as Target[]);
        else reject(error);
      });
    });
  let rows: Target[] = [];
  const isThere = async (): Promise<boolean> => (rows = await delivered()).length === total;
  await until(isThere, 'the mails', PATIENCE_MS);
  db.close();
  return rows;
}

const head =
  `Received: from mail.bench.test by mx.dest.test; Sat, 31 Jan 2026 09:30:00 +0000\r\n${'X-Filler: '.padEnd(76, 'a')}\r\nSubject: Your order\r\n`.repeat(
    12,
  );

function reportOn(address: string): string {
  const { headers, body } = writeDeliveryReport({
    reportingMta: 'mx.dest.test',
    arrivedAt: 0,
    messageId: 'none',
    text: 'This is the mail system at mx.dest.test.\n\nYour message could not be delivered.\n',
    recipients: [
      {
        address,
        status: '5.1.1',
        diagnostic: { type: 'smtp', text: '550 5.1.1 no such user', host: 'mx.dest.test' },
        lastAttemptAt: 0,
      },
    ],
    originalHead: Buffer.from(head),
  });
  const own =
    'From: mailer-daemon@mx.dest.test\r\nSubject: Undelivered Mail Returned to Sender\r\nAuto-Submitted: auto-replied\r\n';
  return `${own}${headers}\r\n${body.toString('latin1').replace(/^\./gm, '..')}`;
}

/** Hands the reports in at the rate; gives how long each 250 took, and how long all of it. */
async function storm(
  port: number,
  reports: readonly { to: string; mail: string }[],
): Promise<{ times: number[]; ms: number }> {
  const times: number[] = [];
  const started = performance.now();
  let next = 0;
  const worker = async (): Promise<void> => {
    const client = smtpClient(port);
    await client.reply();
    await client.say('EHLO mx.dest.test');
    for (let n = next++; n < reports.length; n = next++) {
      const wait = started + (n * 1000) / rate - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      const report = reports[n] ?? { to: '', mail: '' };
      const begun = performance.now();
      for (const line of ['MAIL FROM:<>', `RCPT TO:<${report.to}>`, 'DATA']) {
        const reply = await client.say(line);
        if (!/^[23]/.test(reply)) throw new Error(`${line}: ${reply}`);
      }
      const reply = await client.say(`${report.mail}\r\n.`);
      if (!reply.startsWith('250')) throw new Error(reply);
      times.push(performance.now() - begun);
    }
    client.end();
  };
  await Promise.all(Array.from({ length: Number(options.connections) }, worker));
  return { times, ms: performance.now() - started };
}

/** Posts new mails until told to stop; gives how many were accepted. */
async function flow(appliance: Appliance, key: string, goesOn: () => boolean): Promise<number> {
  let count = 0;
  const posting: Promise<void>[] = [];
  const started = performance.now();
  while (goesOn()) {
    posting.push(
      post(appliance, key, {
        from: 'hi@bench.test',
        to: `new${String(count)}@dest.test`,
        subject: 'New',
        text: 'Good day.',
      }),
    );
    count++;
    const wait = started + (count * 1000) / mails - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  }
  await Promise.all(posting);
  return count;
}

async function bouncedEvents({ url }: Appliance, key: string): Promise<number> {
  let seen = 0;
  let after = '';
  const end = performance.now() + PATIENCE_MS;
  while (seen < total && performance.now() < end) {
    const where = `${url}/v1/events?type=bounced&limit=1000&wait=2${after === '' ? '' : `&after=${after}`}`;
    const answer = await fetch(where, { headers: { authorization: `Bearer ${key}` } });
    const { data, next_cursor: next } = (await answer.json()) as { data: unknown[]; next_cursor: string };
    seen += data.length;
    after = next;
  }
  return seen;
}

const at = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? NaN;

if (missing('smtp-sink').length > 0) {
  console.log('skipped: smtp-sink is not here: apt-get install postfix');
  process.exit(0);
}
const sink = await startSink();
const port = await freePort();
const appliance = await startAppliance({
  env: {
    POSTHORN_SMTP__MX__HOST: '127.0.0.1',
    POSTHORN_SMTP__MX__PORT: String(port),
    POSTHORN_METRICS__TOKEN: TOKEN,
    POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
  },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const targets = await deliveredMails(appliance, key);
  const [returnKey] = returnPathKeys(openKeyring(appliance.dataDir));
  if (returnKey === undefined) throw new Error('no key');
  const reports = targets.map(({ id, address }) => ({
    to: `${returnPathFor(returnKey, id)}@rp.bench.test`,
    mail: reportOn(address),
  }));
  const before = await loopLag(appliance, TOKEN);
  const cpu = appliance.cpu();
  let isOn = true;
  const flowing = flow(appliance, key, () => isOn);
  const { times, ms } = await storm(port, reports);
  isOn = false;
  const accepted = await flowing;
  const taken = performance.now();
  const seen = await bouncedEvents(appliance, key);
  const behind = performance.now() - taken;
  const p99 = lagAt(before, await loopLag(appliance, TOKEN), 0.99);
  console.log(
    `${String(total)} reports in ${(ms / 1000).toFixed(1)} s (${((total / ms) * 1000).toFixed(0)}/s), the 250 after p50 ${at(times, 0.5).toFixed(1)} ms, p99 ${at(times, 0.99).toFixed(1)} ms; ${String(accepted)} mails accepted meanwhile`,
  );
  console.log(
    `bounced events: ${String(seen)} of ${String(total)}, the last ${(behind / 1000).toFixed(1)} s after the last 250; ${((appliance.cpu() - cpu) / total).toFixed(2)} ms of CPU a report; ${appliance.rss().toFixed(0)} MiB`,
  );
  console.log(`event loop: late by at most ${p99.toFixed(0)} ms in 99 of 100 looks`);
  if (seen < total || p99 > LOOP_LIMIT_MS || total / ms < (rate * 0.95) / 1000) process.exitCode = 1;
} finally {
  await appliance.stop();
  sink.stop();
}
