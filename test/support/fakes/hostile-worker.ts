/** Does in a confined process the harm that a parser at fault might do. Each job names one kind. */
import childProcess from 'node:child_process';
import dgram from 'node:dgram';
import dns from 'node:dns';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { Worker } from 'node:worker_threads';
import { answerJobs } from '../../../src/base/answer-jobs.ts';

const MIB = 1024 * 1024;
const kept: unknown[] = [];

const deeds: Readonly<Record<string, (what: string) => unknown>> = {
  loop() {
    for (;;) kept.length = 0;
  },
  heap() {
    for (;;) kept.push(Array.from({ length: 10_000 }, (_, n) => ({ n })));
  },
  buffers() {
    for (let mib = 0; mib < 2048; mib += 16) kept.push(Buffer.alloc(16 * MIB, 1));
    return kept.length;
  },
  read: (file) => readFileSync(file).length,
  write: (file) => {
    writeFileSync(file, 'x');
  },
  program: (file) => childProcess.spawnSync(file).status,
  thread: (code) => new Worker(code, { eval: true }).threadId,
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- The harm that this deed tries is code made of a string.
  code: (code) => (new Function(code) as () => unknown)(),
  binding: (name) => (process as unknown as { binding(name: string): unknown }).binding(name),
  signal: (pid) => process.kill(Number(pid), 'SIGTERM'),
  connect: (port) =>
    new Promise((resolve, reject) =>
      net
        .connect(Number(port), '127.0.0.1', () => {
          resolve(1);
        })
        .on('error', reject),
    ),
  path: (file) =>
    new Promise((resolve, reject) =>
      net
        .connect(file, () => {
          resolve(1);
        })
        .on('error', reject),
    ),
  listen: () =>
    new Promise((resolve, reject) =>
      net
        .createServer()
        .on('error', reject)
        .listen(0, () => {
          resolve(1);
        }),
    ),
  datagram: (port) =>
    new Promise((resolve, reject) =>
      dgram.createSocket('udp4').send('x', Number(port), (error) => {
        if (error === null) resolve(1);
        else reject(error);
      }),
    ),
  name: (name) => dns.promises.resolve4(name),
  fetch: (url) => fetch(url).then(({ status }) => status),
  environment: () => Object.keys(process.env).concat(process.argv.slice(2)),
  late: () => {
    setTimeout(() => {
      throw new Error('late');
    }, 0);
    return new Promise(() => undefined);
  },
  pid: () => process.pid,
  say: (what) => what,
};

answerJobs(({ deed, what }: { deed: string; what: string }) => {
  const does = deeds[deed];
  if (does === undefined) throw new Error(`no such deed: ${deed}`);
  return does(what);
});
