/** A command that changes something while PostgreSQL is away: it ends within seconds, with cause, cure and exit code, and has changed nothing. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { chmodSync, rmSync } from 'node:fs';
import path from 'node:path';
import { ran, type Ran } from '../cli/ran.ts';
import { newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { postgresPrograms } from '../support/harness/postgres.ts';
import { PostgresServer, startProxy, urlOn, type Proxy } from '../support/harness/postgres-server.ts';

/** How long the server waits before it asks a database again that did not answer (await-database.ts). */
const PAUSE_MS = 250;

describe('journey: a command without its database', () => {
  const folder = newFolder();
  const dataDir = newFolder();
  let server: PostgresServer;
  let proxy: Proxy;
  let test: TestApp;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    // PostgreSQL runs as a user of its own.
    chmodSync(folder, 0o755);
    server = new PostgresServer(path.join(folder, 'server'), ['fsync=off']);
    server.initialize();
    await server.start();
    await server.query('CREATE DATABASE posthorn');
    proxy = await startProxy(path.join(folder, 'proxy'), server);
    const settings = { storage: { url: urlOn([proxy.folder], 'posthorn') }, node: { name: 'one' } };
    test = await startTestApp({ folder: dataDir, settings });
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await test.stop();
    await proxy.close();
    await server.stopAtOnce();
    for (const one of [dataDir, folder]) rmSync(one, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });

  const command = (args: readonly string[]): Promise<Ran> => ran(args, { POSTHORN_DATA_DIR: dataDir });

  /**
   * Runs the command while the server's clock goes on; returns what it said, and the seconds that it took by that clock. Another
   * process is run between two steps, so that the clock does not run ahead of what the command and the server say to each other.
   */
  async function took(args: readonly string[]): Promise<Ran & { seconds: number }> {
    const began = test.clock.monotonic();
    const running = { isOver: false };
    const result = command(args).finally(() => (running.isOver = true));
    while (!running.isOver) {
      await promisify(execFile)('true');
      test.clock.advance(20);
    }
    return { ...(await result), seconds: (test.clock.monotonic() - began) / 1000 };
  }

  /** Runs the command; the server's clock goes on only if the server pauses before it asks the database again. */
  async function untilAnswered(args: readonly string[]): Promise<Ran> {
    const running = { isOver: false };
    const result = command(args).finally(() => (running.isOver = true));
    while (!running.isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      if (test.clock.isDueIn(PAUSE_MS)) test.clock.advance(PAUSE_MS);
    }
    return await result;
  }

  const hold = ['queue', 'hold', '--domain', 'dest.test', '--new', '--for', '1h'];
  const holds = (): Promise<{ n: number }[]> => server.query('SELECT count(*)::int AS n FROM limits', 'posthorn');

  for (const [what, away, back] of [
    ['the database is stopped', () => server.stopAtOnce().then(() => proxy.mend()), () => server.start()],
    ['the network to it is cut', () => proxy.cut(), () => proxy.mend()],
  ] as const)
    it(`ends within ten seconds while ${what}, and works when it is back`, async () => {
      await away();
      for (const args of [hold, ['nodes', 'drain', 'one']]) {
        const { code, notes, seconds } = await took(args);
        assert.equal(code, 69, notes);
        assert.match(notes, /the database does not answer, and nothing was done: \S/);
        assert.match(notes, /cause: .*its database does not answer.*\n +cure: {2}Try again later/);
        assert.ok(seconds >= 5 && seconds < 10, String(seconds));
      }
      await back();
      const [before] = await holds();
      const { code, notes } = await untilAnswered(hold);
      assert.equal(code, 0, notes);
      assert.equal((await holds())[0]?.n, (before?.n ?? 0) + 1);
    });
});
