/** The served program under a service manager: what systemd sees of a start, a life and an end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { missingForNotify, openNotifySocket } from '../support/fakes/notify-socket.ts';

const root = path.resolve(import.meta.dirname, '../..');

describe('posthorn serve under systemd', () => {
  before(function () {
    const missing = missingForNotify();
    if (missing === null) return;
    this.skip(`tools for sd_notify are not installed (apt-get install ${missing})`);
  });

  it('says READY, WATCHDOG and STOPPING, in this order, and ends with 0', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-sd-'));
    const socket = await openNotifySocket(folder);
    const server = spawn(process.execPath, ['--import=tsx', 'src/main.ts', 'serve'], {
      cwd: root,
      env: {
        PATH: process.env['PATH'],
        NOTIFY_SOCKET: socket.file,
        // Of a process that systemd watches it gives the number; 0.6 s makes a sign of life due every 0.2 s.
        WATCHDOG_USEC: '600000',
        POSTHORN_CONFIG: '/dev/null',
        POSTHORN_DATA_DIR: path.join(folder, 'data'),
        POSTHORN_HTTP__PORT: '0',
        POSTHORN_SMTP__HOSTNAME: 'mail.posthorn.test',
        JOURNAL_STREAM: '8:1',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    server.stdout.resume();
    const ended = once(server, 'close');
    await socket.heard('READY=1');
    await socket.heard('WATCHDOG=1', 2);
    server.kill('SIGTERM');
    await socket.heard('STOPPING=1');
    assert.deepEqual((await ended) as unknown, [0, null]);
    const order = ['EXTEND_TIMEOUT_USEC=30000000', 'READY=1', 'WATCHDOG=1', 'STOPPING=1'].map((word) =>
      socket.words.indexOf(word),
    );
    assert.deepEqual(
      order,
      [...order].sort((a, b) => a - b),
    );
    assert.ok(order.every((place) => place >= 0));
    assert.match(
      socket.words.find((word) => word.startsWith('STATUS=')) ?? '',
      /^STATUS=serving http:\/\/127\.0\.0\.1:\d+$/,
    );
    await socket.close();
    rmSync(folder, { recursive: true });
  });
});
