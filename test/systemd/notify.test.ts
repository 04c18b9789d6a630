/** The served program under a service manager: what systemd sees of a start, a life and an end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
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

  it('takes mail by the socket that systemd has opened for its port', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-sd-'));
    const opened = net.createServer();
    await new Promise<void>((resolve) => opened.listen(0, '127.0.0.1', resolve));
    const { port } = opened.address() as AddressInfo;
    const command = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" --import=tsx src/main.ts serve';
    const server = spawn('/bin/sh', ['-c', command, process.execPath], {
      cwd: root,
      env: {
        PATH: process.env['PATH'],
        POSTHORN_CONFIG: '/dev/null',
        POSTHORN_DATA_DIR: path.join(folder, 'data'),
        POSTHORN_HTTP__PORT: '0',
        POSTHORN_SMTP__HOSTNAME: 'mail.posthorn.test',
        POSTHORN_SMTP__MX__HOST: '127.0.0.1',
        POSTHORN_SMTP__MX__PORT: String(port),
        POSTHORN_SMTP__SUBMISSION__PORT: '0',
        POSTHORN_SMTP__SUBMISSION__TLS_PORT: '0',
        POSTHORN_LOG__FORMAT: 'json',
      },
      stdio: ['ignore', 'pipe', 'inherit', (opened as unknown as { _handle: { fd: number } })._handle.fd],
    });
    const ended = once(server, 'close');
    // The socket is theirs alone then: without it nothing would listen.
    opened.close();
    let said = '';
    for await (const text of server.stdout?.setEncoding('utf8') ?? []) {
      said += String(text);
      if (said.includes('"event":"started"')) break;
    }
    const client = net.connect(port, '127.0.0.1').setEncoding('latin1');
    assert.match(String((await once(client, 'data'))[0]), /^220 mail\.posthorn\.test /);
    client.destroy();
    server.kill('SIGTERM');
    assert.deepEqual((await ended) as unknown, [0, null]);
    rmSync(folder, { recursive: true });
  });
});
