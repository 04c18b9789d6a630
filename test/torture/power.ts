/**
 * `npm run torture -- power`: what a loss of power may leave. The appliance runs under strace, which writes down each of its
 * writes and fsyncs; afterwards its database is put together as it may be found after a loss of power at any moment, with any
 * part of what was not yet synced missing or torn. Each image has to open whole, with balanced books and with every mail
 * that was answered with 202 before that moment.
 */
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { openReader } from '../../src/storage/database.ts';
import { balance } from '../../src/messages/store/books.ts';
import { benchKey, startAppliance, type Appliance } from '../bench/appliance.ts';
import { Disk } from './disk.ts';
import { randomFrom } from './random.ts';
import { startReceiver } from './receiver.ts';
import { readLine, TRACED, type Step, type Unfinished } from './trace.ts';

const { values: options } = parseArgs({
  options: {
    images: { type: 'string', default: '10000' },
    mails: { type: 'string', default: '2000' },
    /** The same seed, trace and number of images give the same images. */
    seed: { type: 'string', default: '1' },
  },
});
const SENDERS = 10;
const FILES = ['posthorn.db', 'posthorn.db-wal'];
/** More than a page of the database, or the answer to a request. */
const TRACED_BYTES = 70_000;

const folder = mkdtempSync(path.join(existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'posthorn-power-'));
const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-power-'));
const traceFile = path.join(dataDir, 'trace.txt');
const receiver = await startReceiver();
const env = { POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }) };

async function send({ url }: Appliance, key: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const answer = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'a@torture.test', to: `${randomUUID()}@dest.test`, subject: 'x', html: '<p>x</p>' }),
    });
    if (answer.status !== 202) throw new Error(`${String(answer.status)} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
}

/** The database before the trace, then all that was done to it. */
async function traced(): Promise<{ before: Map<string, Buffer>; steps: Step[] }> {
  const first = await startAppliance({ dataDir, env });
  const key = benchKey(first);
  first.cli('domains', 'add', 'torture.test', '--trust', '--json');
  await first.stop();
  const before = new Map(
    FILES.filter((name) => existsSync(path.join(dataDir, name))).map((name) => [
      name,
      readFileSync(path.join(dataDir, name)),
    ]),
  );
  const under = [
    'strace',
    '-D',
    '-f',
    '-y',
    '-xx',
    '-s',
    String(TRACED_BYTES),
    '-e',
    `trace=${TRACED.join(',')}`,
    '-e',
    'signal=none',
    '-o',
    traceFile,
  ];
  const appliance = await startAppliance({ dataDir, env, under });
  const each = Math.ceil(Number(options.mails) / SENDERS);
  await Promise.all(Array.from({ length: SENDERS }, () => send(appliance, key, each)));
  await appliance.kill();
  const steps: Step[] = [];
  const unfinished: Unfinished = new Map();
  for await (const line of createInterface({ input: createReadStream(traceFile, 'latin1') })) {
    const step = readLine(line, unfinished);
    if (step === null) continue;
    if (step.kind === 'told') {
      if (step.text.includes(' 202 ')) steps.push(step);
    } else if (FILES.includes(path.basename(step.file))) steps.push({ ...step, file: path.basename(step.file) });
  }
  return { before, steps };
}

/** Returns the faults of the database that was found, in words. */
async function faultsOf(image: ReadonlyMap<string, Buffer>, promised: readonly string[]): Promise<string[]> {
  const url = `sqlite:${path.join(folder, 'posthorn.db')}`;
  for (const name of [...FILES, 'posthorn.db-shm']) rmSync(path.join(folder, name), { force: true });
  for (const [name, bytes] of image) writeFileSync(path.join(folder, name), bytes);
  const reader = await openReader({ url });
  try {
    const [check] = await reader.reader.raw<{ quick_check: string }[]>('PRAGMA quick_check');
    const faults = check?.quick_check === 'ok' ? [] : [`quick_check: ${String(check?.quick_check)}`];
    const rows = await reader.reader.raw<{ id: string }[]>(
      'SELECT value AS id FROM json_each(?) WHERE value NOT IN (SELECT id FROM messages)',
      [JSON.stringify(promised)],
    );
    if (rows.length > 0)
      faults.push(`${String(rows.length)} accepted mails are not there, such as ${String(rows[0]?.id)}`);
    return [...faults, ...(await balance(reader.reader)).faults];
  } finally {
    await reader.close();
  }
}

const problems: string[] = [];
try {
  const { before, steps } = await traced();
  const images = Number(options.images);
  const random = randomFrom(Number(options.seed));
  const disk = new Disk();
  for (const [name, bytes] of before) disk.put(name, bytes);
  const moments = Array.from({ length: images }, () => Math.floor(random() * steps.length)).sort((a, b) => a - b);
  const promised: string[] = [];
  let [made, lossy] = [0, 0];
  for (const [at, step] of steps.entries()) {
    if (step.kind === 'told') promised.push(...(step.text.match(/\bmsg_[0-9a-z]{26}\b/g) ?? []).slice(0, 1));
    else disk.apply(step);
    for (; moments[made] === at; made++) {
      if (disk.atRisk > 0) lossy++;
      for (const fault of await faultsOf(disk.image(random), promised))
        problems.push(`after step ${String(at)}: ${fault}`);
      if (made % 100 === 0) process.stderr.write(`\r${String(made)}/${String(images)} images `);
    }
  }
  process.stderr.write('\n');
  const syncs = steps.filter(({ kind }) => kind === 'sync').length;
  console.log(
    `${String(made)} images of ${String(steps.length)} steps (${String(syncs)} syncs), ${String(lossy)} with something to lose: ${String(promised.length)} accepted, ${String(problems.length)} faults`,
  );
  // A disk that loses all that ever was written must be found out, or the rest shows nothing.
  const control = await faultsOf(before, promised);
  if (control.length === 0) problems.push('a database without any of the mails passes for whole');
  if (syncs === 0 || promised.length < Number(options.mails)) problems.push('the trace does not hold what was done');
} finally {
  receiver.stop();
  for (const place of [folder, dataDir]) rmSync(place, { recursive: true, force: true });
  rmSync(`${dataDir}.log`, { force: true });
}
for (const problem of problems.slice(0, 20)) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
