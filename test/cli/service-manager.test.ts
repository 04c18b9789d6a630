import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Log } from '../../src/base/log.ts';
import { managerIn, openServiceManager, type Manager } from '../../src/cli/serve.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { missingForNotify, openNotifySocket, type NotifySocket } from '../support/fakes/notify-socket.ts';

const logInto = (lines: Record<string, unknown>[]): Log => {
  const take: Log['info'] = (fields) => void lines.push(fields);
  const log: Log = { debug: take, info: take, warn: take, error: take, child: () => log };
  return log;
};

describe('what the environment says of the service manager', () => {
  const rows: [env: Record<string, string>, found: Manager | null, why: string][] = [
    [{}, null, 'a shell'],
    [{ NOTIFY_SOCKET: '' }, null, 'emptied'],
    [{ NOTIFY_SOCKET: 'vsock:2:1' }, null, 'a virtual machine monitor, which systemd-notify of 252 does not know'],
    [{ NOTIFY_SOCKET: '/run/n' }, { socket: '/run/n', watchdogMs: null }, 'no watchdog'],
    [{ NOTIFY_SOCKET: '@n', WATCHDOG_USEC: '60000000' }, { socket: '@n', watchdogMs: 60_000 }, 'an abstract socket'],
    [
      { NOTIFY_SOCKET: '/n', WATCHDOG_USEC: '5000', WATCHDOG_PID: '7' },
      { socket: '/n', watchdogMs: 5 },
      'we are watched',
    ],
    [
      { NOTIFY_SOCKET: '/n', WATCHDOG_USEC: '5000', WATCHDOG_PID: '8' },
      { socket: '/n', watchdogMs: null },
      'another is',
    ],
    [{ NOTIFY_SOCKET: '/n', WATCHDOG_USEC: '1e9' }, { socket: '/n', watchdogMs: null }, 'not a number'],
    [{ NOTIFY_SOCKET: '/n', WATCHDOG_USEC: '0' }, { socket: '/n', watchdogMs: null }, 'switched off'],
  ];
  for (const [env, found, why] of rows) {
    it(`${JSON.stringify(env)}: ${why}`, () => {
      assert.deepEqual(managerIn(env, 7), found);
    });
  }
});

describe('service manager', () => {
  let folder: string;
  let socket: NotifySocket;
  before(function () {
    const missing = missingForNotify();
    if (missing === null) return;
    this.skip(`tools for sd_notify are not installed (apt-get install ${missing})`);
  });
  beforeEach(async () => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'ph-sd-'));
    socket = await openNotifySocket(folder);
  });
  afterEach(async () => {
    await socket.close();
    rmSync(folder, { recursive: true });
  });

  const { PATH } = process.env;

  it('hears of the start, of life every third of its period, and of the end', async () => {
    const clock = new FakeClock();
    const lines: Record<string, unknown>[] = [];
    const manager = openServiceManager(
      { clock, log: logInto(lines) },
      { socket: socket.file, watchdogMs: 60_000 },
      PATH,
    );
    clock.advance(20_000);
    await socket.heard('EXTEND_TIMEOUT_USEC=30000000', 3);
    manager.ready('serving http://127.0.0.1:8025');
    clock.advance(40_000);
    manager.stopping();
    await socket.heard('STOPPING');
    clock.advance(20_000);
    await socket.heard('WATCHDOG', 4);
    manager.close();
    clock.advance(3_600_000);
    // Where nothing reads the socket for five seconds, systemd-notify says so, to it and here, though its word arrives.
    assert.deepEqual(
      socket.words.filter((word) => !word.startsWith('EXTEND') && word !== 'ERRNO=110'),
      [
        'STATUS=serving http://127.0.0.1:8025',
        'READY=1',
        'WATCHDOG=1',
        'WATCHDOG=1',
        'WATCHDOG=1',
        'STOPPING=1',
        'WATCHDOG=1',
      ],
    );
    assert.equal(clock.nextAt(), null);
    assert.deepEqual(
      lines.filter(({ reason }) => reason !== 'Failed to invoke barrier: Connection timed out'),
      [],
    );
  });

  it('asks for time for an hour at most', () => {
    const clock = new FakeClock();
    // Without systemd-notify: it would be started 360 times, which takes a busy machine minutes.
    const manager = openServiceManager({ clock, log: logInto([]) }, { socket: socket.file, watchdogMs: null }, folder);
    clock.advance(3_600_000 - 1);
    assert.notEqual(clock.nextAt(), null);
    clock.advance(1);
    assert.equal(clock.nextAt(), null);
    manager.close();
  });

  it('gives no signs of life where none are wanted, and a status of one line', async () => {
    const clock = new FakeClock();
    const manager = openServiceManager({ clock, log: logInto([]) }, { socket: socket.file, watchdogMs: null }, PATH);
    manager.ready('up\nREADY=0');
    await socket.heard('READY=1');
    assert.ok(socket.words.includes('STATUS=up READY=0'), 'a status is one line');
    assert.equal(clock.nextAt(), null);
    manager.close();
    manager.close();
  });

  it('logs what goes wrong and goes on', async () => {
    const heard = new Promise<string>((resolve) => {
      const log: Log = {
        ...logInto([]),
        warn: ({ reason }) => {
          resolve(String(reason));
        },
      };
      const manager = openServiceManager(
        { clock: new FakeClock(), log },
        { socket: path.join(folder, 'none'), watchdogMs: null },
        PATH,
      );
      manager.ready('up');
      manager.close();
    });
    assert.match(await heard, /No such file|Failed to notify/);
  });

  it('does nothing without a manager', () => {
    const clock = new FakeClock();
    const manager = openServiceManager({ clock, log: logInto([]) }, null, PATH);
    manager.ready('up');
    manager.stopping();
    manager.close();
    assert.equal(clock.nextAt(), null);
  });
});
