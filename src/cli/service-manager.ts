/**
 * Notifies systemd of our state (sd_notify(3)): ready, alive, needs more time to start, stopping. Node.js cannot open a Unix
 * datagram socket, so `systemd-notify` sends the words, started by one small shell that reads them line by line: starting a
 * process from this one, with all its memory, would hold up the loop each time.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { HOUR_MS } from '../base/time.ts';

export interface ServiceManager {
  /** Everything is open. `status` is what `systemctl status` shows. */
  ready(status: string): void;
  /** The end has begun. */
  stopping(): void;
  /** Ends the notifications and the shell. Safe to call twice. */
  close(): void;
}

/** The socket and the watchdog of systemd. */
export interface Manager {
  /** The socket; its name may begin with `@`. */
  socket: string;
  /** A sign of life is due within this time, in milliseconds; null without a watchdog. */
  watchdogMs: number | null;
}

/** Reads the service manager from the environment; null if none started us. `pid` is our own. */
export function managerIn(env: Readonly<Record<string, string | undefined>>, pid: number): Manager | null {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec, WATCHDOG_PID: watched } = env;
  if (socket === undefined || !/^[/@]/.test(socket)) return null;
  const ms = /^\d{1,15}$/.test(usec ?? '') ? Number(usec) / 1000 : 0;
  const forUs = watched === undefined || watched === String(pid);
  return { socket, watchdogMs: ms > 0 && forUs ? ms : null };
}

/** A third: two signs of life may come late before we are taken for dead. */
const SIGNS_A_PERIOD = 3;
const EXTEND_EVERY_MS = 10_000;
const EXTEND_BY_USEC = 30_000_000;
/** A start that takes longer than this is left to the manager's own limit. */
const LONGEST_START_MS = HOUR_MS;
/** SIGTERM may go to the whole control group: the shell still has to report that we stop. */
const RELAY = `trap '' TERM INT HUP; while read -r word; do systemd-notify "$word"; done`;

const noop: ServiceManager = { ready: () => undefined, stopping: () => undefined, close: () => undefined };

/** Begins at once to ask for time to start. `path` is where programs are looked for. */
export function openServiceManager(
  deps: { clock: Clock; log: Log },
  manager: Manager | null,
  path: string | undefined,
): ServiceManager {
  if (manager === null) return noop;
  const { clock } = deps;
  const relay = openRelay(deps, { NOTIFY_SOCKET: manager.socket, PATH: path });
  const startedAt = clock.monotonic();
  let timer: Timer | null = null;
  let closed = false;

  function every(ms: number, word: string, until = Infinity): void {
    relay.say(word);
    if (clock.monotonic() + ms > until) return;
    timer = clock.after(
      ms,
      () => {
        every(ms, word, until);
      },
      { background: true },
    );
  }

  every(EXTEND_EVERY_MS, `EXTEND_TIMEOUT_USEC=${String(EXTEND_BY_USEC)}`, startedAt + LONGEST_START_MS);
  return {
    ready(status) {
      timer?.cancel();
      relay.say(`STATUS=${status}`);
      relay.say('READY=1');
      if (manager.watchdogMs !== null) every(manager.watchdogMs / SIGNS_A_PERIOD, 'WATCHDOG=1');
    },
    stopping() {
      // Signs of life go on: a stop may take a minute, and one that hangs should be seen.
      relay.say('STOPPING=1');
    },
    close() {
      if (closed) return;
      closed = true;
      timer?.cancel();
      relay.close();
    },
  };
}

/** Enough for one line of complaint. */
const MOST_COMPLAINT = 500;

/** Starts the shell again if it has died. Errors of it and of `systemd-notify` are logged. */
function openRelay({ log }: { log: Log }, env: Record<string, string | undefined>) {
  let shell: ChildProcess | null = null;

  const failed = (why: string): void => {
    log.warn(
      { event: 'service_manager', reason: why.trim().slice(0, MOST_COMPLAINT) },
      'systemd could not be notified',
    );
  };
  function start(): ChildProcess {
    const fresh = spawn('/bin/sh', ['-c', RELAY], { env, stdio: ['pipe', 'ignore', 'pipe'] });
    fresh.on('error', (error) => {
      failed(String(error));
    });
    // A pipe whose reader has died: the exit is what counts.
    fresh.stdin.on('error', () => undefined);
    fresh.stderr.setEncoding('utf8').on('data', failed);
    fresh.once('exit', () => {
      if (shell === fresh) shell = null;
    });
    // It must not keep the program running, nor be waited for.
    fresh.unref();
    return fresh;
  }

  return {
    say(word: string): void {
      shell ??= start();
      shell.stdin?.write(`${word.replaceAll('\n', ' ')}\n`);
    },
    close(): void {
      shell?.stdin?.end();
      shell = null;
    },
  };
}
