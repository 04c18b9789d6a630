/**
 * `npm run bench:lists -- --data <folder>`: how long lists, filters and numbers take on a large data folder (`npm run seed`), asked
 * one after the other of the built program, when housekeeping has done its part. Each is asked five times and the middle one counts; on
 * a machine with other work `--cpu` has the CPU time count, which that stretches less. Exit 1 where one is over its limit.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import sqlite3 from 'sqlite3';
import { systemClock } from '../../src/base/clock.ts';
import { sumUpNext } from '../../src/events/stat-sums.ts';
import { addNextStates } from '../../src/messages/list/block-states.ts';
import { closeNextBlock } from '../../src/messages/list/message-blocks.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { startAppliance } from './appliance.ts';

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    limit: { type: 'string', default: '50' },
    cpu: { type: 'boolean', default: false },
  },
});
if (values.data === undefined) {
  console.error('--data names the data folder: make one with npm run seed');
  process.exit(64);
}
const dataDir = path.resolve(values.data);
const EXACT_MS = Number(values.limit);
const SUBJECT_MS = 300;
/** The largest page there is; no filter, but a thousand events to write as JSON. */
const PAGE_OF_THOUSAND_MS = 200;
const TIMES = 5;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A row of the database, read apart from the program. */
function one<Row>(sql: string): Promise<Row> {
  const db = new sqlite3.Database(path.join(dataDir, 'posthorn.db'), sqlite3.OPEN_READONLY);
  return new Promise((resolve, reject) => {
    db.get(sql, (error: Error | null, row) => {
      db.close();
      if (error === null) resolve(row as Row);
      else reject(error);
    });
  });
}

/** What housekeeping would do in the first minutes, so that it is done when the asking begins. */
async function upkeep(): Promise<void> {
  const began = process.cpuUsage();
  // A folder from before a migration may take minutes to bring up to date.
  const db = await openDatabase({ url: `sqlite:${path.join(dataDir, 'posthorn.db')}` });
  const deps = { db, clock: systemClock };
  const steps = { blocks: 0, states: 0, sums: 0 };
  while (await closeNextBlock(deps)) steps.blocks++;
  while (await addNextStates(deps)) steps.states++;
  while (await sumUpNext(deps)) steps.sums++;
  await db.close();
  const { user, system } = process.cpuUsage(began);
  console.log(`upkeep: ${JSON.stringify(steps)}, ${((user + system) / 1e6).toFixed(1)} s of CPU`);
}

await upkeep();
const appliance = await startAppliance({ dataDir, env: { POSTHORN_DELIVERY__DNS_SERVERS: '127.0.0.1:9' } });
try {
  const { key } = appliance.cli(
    'keys',
    'create',
    '--name',
    'bench lists',
    '--scopes',
    'message:read,event:read,stats:read,audit:read,suppression,campaign:read,webhook',
    '--json',
  ) as { key: string };
  const some = await one<{
    id: string;
    to_address: string;
    template_id: string;
    batch_id: string;
    rfc_message_id: string;
    created_at: number;
  }>(
    "SELECT m.* FROM messages m JOIN accounts a ON a.id = m.account_id WHERE a.name = 'default' ORDER BY m.id LIMIT 1 OFFSET 5000",
  );
  const { batch_id: batch } = await one<{ batch_id: string }>('SELECT id AS batch_id FROM batches LIMIT 1');
  const { template_id: template } = await one<{ template_id: string }>(
    'SELECT id AS template_id FROM templates LIMIT 1',
  );
  const day = (ms: number): string => new Date(ms).toISOString();
  const [from, to] = [day(some.created_at), day(some.created_at + HOUR_MS)];
  const middle = day(some.created_at + 10 * DAY_MS);
  const { at: last } = await one<{ at: number }>('SELECT at FROM events ORDER BY sequence DESC LIMIT 1');
  const [week, month] = [day(Date.now() - 7 * DAY_MS + HOUR_MS), day(Date.now() - 31 * DAY_MS + HOUR_MS)];
  console.log(`the last event is of ${day(last)}`);
  const queries: [where: string, limit: number][] = [
    ...[
      '',
      'status=bounced',
      'status=deferred',
      'status=delivered',
      'status=failed,canceled',
      `to=${encodeURIComponent(some.to_address)}`,
      'to=nobody%40nowhere.test',
      'from=hello%40acme.test',
      'from=nobody%40acme.test',
      'tag=shop',
      'tag=sale',
      'tag=none',
      'tag=shop&tag=receipt',
      'tag=newsletter&stream=transactional',
      'tag=newsletter&tag=receipt',
      'tag=newsletter&tag=receipt&sort=created_at',
      'status=queued',
      'status=sent',
      'opened=false',
      'clicked=false',
      'opened=true&clicked=true',
      'opened=false&clicked=true',
      'status=delivered&opened=false',
      'status=delivered&opened=false&sort=created_at',
      'status=bounced&opened=true',
      'status=bounced&clicked=true',
      'status=bounced,failed&opened=true&clicked=false',
      'status=bounced&tag=shop',
      'status=bounced&tag=newsletter&stream=transactional',
      'opened=true&tag=newsletter',
      'opened=true&test=true',
      'test=false',
      'metadata[user_id]=17',
      'metadata[order_id]=105000',
      'metadata[order_id]=none',
      `template_id=${template}`,
      `batch_id=${batch}`,
      'stream=broadcast',
      'stream=none',
      'domain=shop.acme.test',
      'domain=none.test',
      `rfc_message_id=${encodeURIComponent(some.rfc_message_id)}`,
      'rfc_message_id=%3Cx%40y.test%3E',
      'opened=true',
      'clicked=true',
      'opened=true&clicked=false',
      'test=true',
      `created_after=${from}&created_before=${to}`,
      `created_after=${from}&created_before=${to}&status=bounced`,
      'sort=created_at',
      'stream=broadcast&status=bounced&tag=sale',
    ].map((query): [string, number] => [`/v1/messages?${query}`, EXACT_MS]),
    ...[
      'order',
      'password',
      'password%20reset',
      '1',
      '105000',
      'zzz',
      'autumn',
      '20',
      'неt',
      'order&status=bounced',
      '1&tag=shop',
      '1&opened=true&clicked=false',
      'ih%20best',
      'ih%20best&status=bounced',
    ].map((words): [string, number] => [`/v1/messages?subject=${words}`, SUBJECT_MS]),
    ...[
      '',
      'type=bounced',
      'type=complained',
      `message_id=${some.id}`,
      `recipient=${encodeURIComponent(some.to_address)}`,
      `batch_id=${batch}`,
      'tag=shop',
      'tag=none',
      'test=true',
      'before=end',
      `occurred_after=${middle}`,
      `occurred_after=${middle}&type=complained`,
      `occurred_after=${from}&occurred_before=${to}`,
    ].map((query): [string, number] => [`/v1/events?${query}`, EXACT_MS]),
    ['/v1/events?after=start&limit=1000', PAGE_OF_THOUSAND_MS],
    ...[
      '',
      'bucket=hour',
      'bucket=total',
      'by=stream',
      'by=tag',
      'by=domain',
      'by=provider',
      'by=template',
      'by=tag&bucket=day',
      'by=domain&bucket=day',
      'by=provider&bucket=day',
      'tag=shop',
      'stream=broadcast',
      'by=provider&stream=broadcast',
      'test=true',
      `bucket=hour&since=${month}`,
      ...['stream', 'domain', 'provider', 'tag', 'template'].map((by) => `bucket=hour&by=${by}&since=${week}`),
    ].map((query): [string, number] => [`/v1/stats?${query}`, EXACT_MS]),
    [`/v1/messages/${some.id}`, EXACT_MS],
    ['/v1/batches', EXACT_MS],
    [`/v1/batches/${batch}`, EXACT_MS],
    ['/v1/suppressions', EXACT_MS],
    ['/v1/suppressions?reason=complaint', EXACT_MS],
    ['/v1/audit', EXACT_MS],
    ['/v1/audit?by=person', EXACT_MS],
    ['/v1/webhooks', EXACT_MS],
  ];
  let slow = 0;
  // What a server does in its first second is not counted with the first row.
  for (let n = 0; n < 20; n++)
    await (await fetch(`${appliance.url}/v1/messages`, { headers: { authorization: `Bearer ${key}` } })).text();
  for (const [where, limit] of queries) {
    const times: number[] = [];
    let said = '';
    const used = appliance.cpu();
    for (let n = 0; n < TIMES; n++) {
      const begun = performance.now();
      const answer = await fetch(`${appliance.url}${where}`, { headers: { authorization: `Bearer ${key}` } });
      const body = (await answer.json()) as { data?: unknown[]; error?: { message: string } };
      times.push(performance.now() - begun);
      said = answer.ok
        ? `${String(body.data?.length ?? 1)} rows`
        : `${String(answer.status)} ${body.error?.message ?? ''}`;
    }
    const median = times.sort((a, b) => a - b)[Math.floor(TIMES / 2)] ?? NaN;
    const cpu = (appliance.cpu() - used) / TIMES;
    const isSlow = (values.cpu ? cpu : median) > limit;
    if (isSlow) slow++;
    console.log(
      `${isSlow ? 'SLOW' : 'ok  '} ${median.toFixed(1).padStart(8)} ms, ${cpu.toFixed(0).padStart(5)} ms of CPU, limit ${String(limit).padStart(3)}  ${where}  ${said}`,
    );
  }
  console.log(slow === 0 ? 'all within their limits' : `${String(slow)} over their limits`);
  if (slow > 0) process.exitCode = 1;
} finally {
  await appliance.stop();
}
