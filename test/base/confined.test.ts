/** A parser with a fault, or one that a stranger has taken over: it can cost its process and reach nothing. */
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { mkdtempSync, openSync, closeSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createThreads, ThreadRefusal, type Threads } from '../../src/base/threads.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

interface Job {
  deed: string;
  what?: unknown;
}

const REPOSITORY = path.resolve(import.meta.dirname, '../..');

describe('base/confined', () => {
  let clock: FakeClock;
  let workers: Threads<Job, unknown>;
  let folder: string;
  beforeEach(() => {
    clock = new FakeClock();
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-confined-'));
    const entry = new URL('../support/fakes/hostile-worker.ts', import.meta.url);
    const confined = { maxRssMb: 256 };
    workers = createThreads(
      { clock },
      { entry, count: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64, confined },
    );
  });
  afterEach(async () => {
    await workers.close();
    rmSync(folder, { recursive: true });
  });

  const run = (deed: string, what?: unknown): Promise<unknown> => workers.run({ deed, what });
  /** The job is refused with this text in its cause, and the next one is done by another process. */
  async function costsItsProcess(deed: string, what: unknown, cause: RegExp): Promise<void> {
    const before = await run('pid');
    await assert.rejects(run(deed, what), (error: unknown) => {
      assert.ok(error instanceof ThreadRefusal && error.why === 'died' && error.begun);
      assert.match((error.cause as Error).message, cause);
      return true;
    });
    assert.notEqual(await run('pid'), before);
  }

  it('answers, with the octets of a mail as they are', async () => {
    const mail = Buffer.alloc(3_000_000, 'From: a@b.example\r\n');
    const [first, again] = (await Promise.all([run('say', { mail, n: 1 }), run('say', [mail, Buffer.alloc(0)])])) as [
      { mail: Buffer; n: number },
      Buffer[],
    ];
    assert.ok(first.n === 1 && Buffer.isBuffer(first.mail) && first.mail.equals(mail));
    assert.deepEqual(
      again.map(({ length }) => length),
      [mail.length, 0],
    );
  });

  it('refuses a job with what is not a value, and does the next', async () => {
    await assert.rejects(
      run('say', () => 1),
      ThreadRefusal,
    );
    assert.equal(await run('say', 'next'), 'next');
  });

  it('says why it could not start', async () => {
    const entry = new URL('../support/fakes/broken-worker.ts', import.meta.url);
    const broken = createThreads<Job, unknown>(
      { clock },
      { entry, count: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64, confined: { maxRssMb: 256 } },
    );
    await assert.rejects(broken.run({ deed: 'say' }), (error) => {
      assert.ok(error instanceof ThreadRefusal && !error.begun);
      assert.match((error.cause as Error).message, /^the process ended: 1: Error: there is no parser$/);
      return true;
    });
    await broken.close();
  });

  it('ends a parser that loops when its time is over', async () => {
    const [before, loop] = [await run('pid'), run('loop')];
    clock.advance(5000);
    await assert.rejects(loop, (error) => error instanceof ThreadRefusal && error.why === 'slow');
    assert.notEqual(await run('pid'), before);
  });

  it('ends one that takes 2 GB, on the heap or outside it', async () => {
    await costsItsProcess('heap', null, /^the process (?:ended: (?:SIGABRT|SIGTRAP|13\d)|took \d+ MB)/);
    await costsItsProcess('buffers', null, /^the process took \d{3} MB/);
  });

  it('ends one that throws, now or later', async () => {
    await costsItsProcess('nothing', null, /no such deed/);
    await costsItsProcess('late', null, /late/);
  });

  it('lets it read no file but the code, and write none', async () => {
    const file = path.join(folder, 'posthorn.db');
    writeFileSync(file, 'a database');
    const others = ['/etc/passwd', '/proc/self/environ', 'config/posthorn.yaml', 'test/base/confined.test.ts'];
    for (const name of [file, ...others.map((name) => path.resolve(REPOSITORY, name))])
      await costsItsProcess('read', name, /ERR_ACCESS_DENIED|restricted/);
    await costsItsProcess('write', file, /restricted/);
    await costsItsProcess('write', path.join(REPOSITORY, 'dist/x'), /restricted/);
  });

  it('lets it start no program, no thread and no code', async () => {
    await costsItsProcess('program', '/bin/true', /restricted/);
    await costsItsProcess('thread', '1', /restricted/);
    await costsItsProcess('code', 'return 1', /Code generation from strings/);
    await costsItsProcess('binding', 'tcp_wrap', /process.binding/);
    await costsItsProcess('signal', process.pid, /reaches nothing/);
  });

  it('lets it reach no network', async () => {
    const reached: unknown[] = [];
    const server = net.createServer((socket) => reached.push(socket.destroy()));
    const local = net.createServer((socket) => reached.push(socket.destroy()));
    const datagrams = dgram.createSocket('udp4').on('message', (message) => reached.push(message));
    const socket = path.join(folder, 'posthorn.sock');
    await Promise.all([
      new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)),
      new Promise<void>((resolve) => local.listen(socket, resolve)),
      new Promise<void>((resolve) => datagrams.bind(0, '127.0.0.1', resolve)),
    ]);
    const { port } = server.address() as AddressInfo;
    await costsItsProcess('connect', port, /reaches nothing/);
    await costsItsProcess('path', socket, /reaches nothing/);
    await costsItsProcess('listen', null, /reaches nothing/);
    await costsItsProcess('datagram', datagrams.address().port, /reaches nothing/);
    await costsItsProcess('name', 'shop.example', /reaches nothing/);
    await costsItsProcess('fetch', `http://127.0.0.1:${String(port)}/`, /reaches nothing/);
    for (const one of [server, local, datagrams]) one.close();
    assert.deepEqual(reached, []);
  });

  it('gives it no environment and no descriptor of ours', async () => {
    process.env['POSTHORN_TEST_SECRET'] = 'secret';
    const file = path.join(folder, 'secret.key');
    writeFileSync(file, '');
    const opened = openSync(file, 'r');
    try {
      assert.deepEqual(await run('environment'), ['MALLOC_ARENA_MAX', 'MALLOC_MMAP_THRESHOLD_']);
      const pid = String(await run('pid'));
      const targets = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
      const strange = targets.filter((one) => !/^(?:\/dev\/null|pipe:|anon_inode:|socket:)/.test(one));
      assert.deepEqual(strange, []);
      assert.equal(targets.filter((one) => one.startsWith('socket:')).length, 2, 'its pipe, and that of its errors');
    } finally {
      closeSync(opened);
      delete process.env['POSTHORN_TEST_SECRET'];
    }
  });
});
