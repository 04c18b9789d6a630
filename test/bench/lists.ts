/**
 * `npm run bench -- lists --data <folder>`: what lists, filters and numbers cost on a large data folder (`npm run seed`), asked one after
 * the other of the built program. Each is asked five times. A row shows the CPU time of a page (of the whole server, HTTP included, and
 * of PostgreSQL), the most CPU time that the main thread used between two turns of the event loop, and the median time of the answer. Exit 1 where a page
 * costs more CPU than its limit, or the loop was held longer than HOLD_MS. `--storage URL` names the PostgreSQL that the folder was moved to.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { openReader } from '../../src/storage/database.ts';
import { startAppliance } from './appliance.ts';
import { databaseCpu } from './database-cpu.ts';
import { freePort } from './peers.ts';

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    storage: { type: 'string' },
    limit: { type: 'string', default: '100' },
  },
});
if (values.data === undefined) {
  console.error('--data names the data folder: make one with npm run seed');
  process.exit(64);
}
const dataDir = path.resolve(values.data);
const LIMIT_MS = Number(values.limit);
/** The largest page there is; no filter, but a thousand events to write as JSON. */
const PAGE_OF_THOUSAND_MS = 200;
const HOLD_MS = 5;
const TIMES = 5;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const url = values.storage ?? `sqlite:${path.join(dataDir, 'posthorn.db')}`;

/** A row of the database, read apart from the program. */
async function one<Row>(sql: string): Promise<Row> {
  const { reader, close } = await openReader({ url });
  try {
    const rows = (await reader.raw(sql)) as Row[];
    const [row] = rows;
    if (row === undefined) throw new Error(`the database has no row for: ${sql}`);
    return row;
  } finally {
    await close();
  }
}

/** CPU time of the program and its database so far, in ms. */
const ofDatabase = await databaseCpu(url);
const cpuUsed = (): number => appliance.cpu() + ofDatabase();
const watchPort = await freePort();
const appliance = await startAppliance({
  dataDir,
  env: {
    POSTHORN_STORAGE__URL: url,
    POSTHORN_DELIVERY__DNS_SERVERS: '127.0.0.1:9',
    LOOP_WATCH_PORT: String(watchPort),
  },
  nodeArgs: ['--import', path.join(import.meta.dirname, 'loop-watch.mjs')],
});
/** The most CPU time of the main thread between two turns of its loop since the last call, in ms. */
const longestHold = async (): Promise<number> =>
  Number(await (await fetch(`http://127.0.0.1:${String(watchPort)}`)).text());
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
      'key_id=none',
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
      'metadata[order_id]=105000&status=delivered',
      'metadata[order_id]=105000&status=queued',
      'tag=none&status=delivered',
      `created_before=${middle}`,
      `created_before=${middle}&tag=sale&status=delivered`,
      `created_before=${from}&stream=broadcast&opened=true`,
    ].map((query): [string, number] => [`/v1/messages?${query}`, LIMIT_MS]),
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
    ].map((words): [string, number] => [`/v1/messages?subject=${words}`, LIMIT_MS]),
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
    ].map((query): [string, number] => [`/v1/events?${query}`, LIMIT_MS]),
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
    ].map((query): [string, number] => [`/v1/stats?${query}`, LIMIT_MS]),
    [`/v1/messages/${some.id}`, LIMIT_MS],
    ['/v1/batches', LIMIT_MS],
    [`/v1/batches/${batch}`, LIMIT_MS],
    ['/v1/suppressions', LIMIT_MS],
    ['/v1/suppressions?reason=complaint', LIMIT_MS],
    ['/v1/audit', LIMIT_MS],
    ['/v1/audit?by=person', LIMIT_MS],
    ['/v1/webhooks', LIMIT_MS],
  ];
  let slow = 0;
  // The work of a server in its first second is not counted with the first row.
  for (let n = 0; n < 20; n++)
    await (await fetch(`${appliance.url}/v1/messages`, { headers: { authorization: `Bearer ${key}` } })).text();
  for (const [where, limit] of queries) {
    const times: number[] = [];
    let said = '';
    await longestHold();
    const used = cpuUsed();
    for (let n = 0; n < TIMES; n++) {
      const begun = performance.now();
      const answer = await fetch(`${appliance.url}${where}`, { headers: { authorization: `Bearer ${key}` } });
      const body = (await answer.json()) as { data?: unknown[]; has_more?: boolean; error?: { message: string } };
      times.push(performance.now() - begun);
      said = answer.ok
        ? `${String(body.data?.length ?? 1)} rows${body.has_more === true ? ', has_more' : ''}`
        : `${String(answer.status)} ${body.error?.message ?? ''}`;
    }
    const cpu = (cpuUsed() - used) / TIMES;
    const hold = await longestHold();
    const median = times.sort((a, b) => a - b)[Math.floor(TIMES / 2)] ?? NaN;
    const isSlow = cpu > limit || hold > HOLD_MS;
    if (isSlow) slow++;
    console.log(
      `${isSlow ? 'SLOW' : 'ok  '} ${cpu.toFixed(0).padStart(4)} ms of CPU, loop ${hold.toFixed(1).padStart(4)} ms, answer ${median.toFixed(0).padStart(5)} ms  ${where}  ${said}`,
    );
  }
  console.log(slow === 0 ? 'all within their limits' : `${String(slow)} over their limits`);
  if (slow > 0) process.exitCode = 1;
} finally {
  await appliance.stop();
}
