/** `posthorn serve`: the whole program, until a signal ends it. */
import { rmSync } from 'node:fs';
import { systemClock, type Clock, type Timer } from '../base/clock.ts';
import { watchHeap } from '../base/heap-growth.ts';
import { isJournal, type Log, type RootLog } from '../base/log.ts';
import { ConfigError } from '../config/load.ts';
import { replaceFile } from '../base/replace-file.ts';
import type { CreatedKey, Key } from '../client/types.ts';
import type { Config } from '../config/schema.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { setUpFile } from '../operator/team/team.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import { reachOperator } from '../operator/door/operator.ts';
import { setupWarnings } from '../operator/setup-warnings.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { machineFault } from '../operator/machine-fault.ts';
import { whyForNow } from './print-error.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { HOUR_MS } from '../base/time.ts';

/** The running program, as `serve` uses it. */
interface Server {
  /** Where the API listens. */
  url: string;
  /** Applies the settings that can change while it runs. Throws ConfigError. */
  reload(config: Config): unknown;
  /** Makes a link for the first administrator. Returns null if there is one. */
  setUpLink?(): Promise<{ url: string; expires_at: string } | null>;
  /** Resolves with the reason if it cannot go on. */
  readonly failed?: Promise<Error>;
  stop(): Promise<void>;
}

export type StartApp = (config: Config, options: { log: Log; readSettings?: () => Config }) => Promise<Server>;

/** The unit allows 20 starts in ten minutes; with this pause there are at most 19, so that it is tried for as long as it takes. */
const PAUSE_MS = 30_000;

/** The key of the first start expires, since it stays in the scroll-back of a terminal. */
const FIRST_KEY = {
  name: 'first',
  mode: 'test',
  scopes: ['send', 'message:read', 'event:read'],
  ttl: 7 * 86_400,
} as const;

/** Runs the server. `greeting`: prints a test key at the first start, also if no terminal shows it. */
export async function serve(context: Context, options: { greeting?: true }): Promise<void> {
  const { startApp } = context.program;
  if (startApp === undefined) throw new Error('this program was built without a server');
  const { config, warnings } = context.load();
  const { createLog } = await import('../base/log.ts');
  const log = createLog({ ...config.log, journal: isJournal(context.env['JOURNAL_STREAM'], 1) });
  logWarnings(log, warnings);
  const ending = awaitEnding();
  const stopGuarding = endOnUncaughtErrors(log);
  const stopWatchingHeap = watchHeap();
  const systemd = managerIn(context.env, process.pid);
  const manager = openServiceManager({ clock: systemClock, log }, systemd, context.env['PATH']);
  let isStarted = false;
  try {
    makeDataFolder(config.dataDir);
    // Before a file is opened: two servers would take back each other's claims.
    if ((await lookAtSocket(socketPath(config.dataDir))) === 'live')
      throw new Unavailable('already_running', `a server is running on ${config.dataDir} already`);
    const server = await startApp(config, { log, readSettings: () => context.load({ again: true }).config }).catch(
      (error: unknown) => {
        throw listenFault(config, error) ?? error;
      },
    );
    void server.failed?.then(ending.fail);
    isStarted = true;
    logWarnings(log, await setupWarnings(config));
    manager.ready(`serving ${server.url}`);
    // On a full disk the server goes on without it.
    await greet(context, config, log, server, options.greeting === true).catch((err: unknown) => {
      log.warn({ event: 'greeting_failed', err }, 'the link or the test key of the first start cannot be made');
    });
    ending.onHangUp(() => {
      reload(context, log, server);
    });
    await ending.asked;
    manager.stopping();
    await server.stop();
    // A supervisor starts a program again that ends with an error.
    if (ending.failure !== null) throw ending.failure;
  } catch (error) {
    const reason = isStarted && machineFault(error, null)?.kind !== 'full' ? null : whyForNow(error, config.dataDir);
    if (systemd !== null && reason !== null) {
      log.warn({ event: 'start_waits', reason }, 'it cannot run now; systemd tries again in half a minute');
      // systemd gives up after some starts within ten minutes.
      await Promise.race([ending.asked, systemClock.sleep(PAUSE_MS)]);
    }
    throw error;
  } finally {
    manager.close();
    stopWatchingHeap();
    stopGuarding();
    ending.close();
    log.flush();
  }
}

/** Reads the settings again, and logs the warnings that a start prints. With mistakes nothing changes: they must not end a running server. */
function reload(context: Context, log: Log, server: Server): void {
  try {
    const { config, warnings } = context.load({ again: true });
    server.reload(config);
    logWarnings(log, warnings);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    log.error({ event: 'reload_failed', mistakes: error.mistakes }, 'the settings have mistakes: nothing was changed');
  }
}

function logWarnings(log: Log, warnings: readonly string[]): void {
  for (const text of warnings) log.warn({ event: 'settings_warning', text }, 'a setting may not be what is meant');
}

/**
 * Prints the greeting to a terminal; with `always` (`npm start`) also elsewhere, but not to the journal, while there is no key yet. That a
 * database exists does not mean that a greeting was printed: a start that failed, for example on a port that is taken, has created it.
 * Neither a key nor a link to a login gets into a log.
 */
async function greet(context: Context, config: Config, log: Log, server: Server, always: boolean): Promise<void> {
  const { env, isTerminal } = context;
  const lines = { url: server.url, simulator: config.simulator.domain };
  if (config.log.format === 'json') {
    const { send, events } = greeting({ ...lines, key: null });
    log.info({ event: 'ready', url: server.url, send, events }, 'the API takes requests');
  }
  const link = (await server.setUpLink?.()) ?? null;
  const file = setUpFile(config.dataDir);
  const removeFile = (): void => rmSync(file, { force: true });
  if (link === null || isTerminal) removeFile();
  else {
    replaceFile(file, `${link.url}\n`, 0o600);
    systemClock.after(Date.parse(link.expires_at) - systemClock.now(), removeFile, { background: true });
    const facts = { event: 'set_up', file, expires_at: link.expires_at, command: 'posthorn admin create EMAIL' };
    log.info(facts, 'there is no administrator yet: the link in this file makes the first one');
  }
  const made = isTerminal || (always && !isJournal(env['JOURNAL_STREAM'], 2)) ? await firstKey(config) : null;
  if (!isTerminal && made === null) return;
  const shown = { ...lines, key: made?.key ?? null, setUpLink: isTerminal ? (link?.url ?? null) : null };
  for (const line of greeting(shown).text) context.note(line);
}

/** Makes a key of the account `default`; returns null if it has one, also a revoked one. */
async function firstKey(config: Config): Promise<{ key: string } | null> {
  const operator = reachOperator(config);
  try {
    const { data } = await operator.ask<{ data: Key[] }>('listKeys', { query: { limit: '1' } });
    return data.length > 0 ? null : await operator.ask<CreatedKey>('createKey', { body: FIRST_KEY });
  } finally {
    await operator.close();
  }
}

/** npm passes on a Ctrl-C that the terminal has sent to us as well: within this time both count as one. */
const SAME_SIGNAL_MS = 500;

/** The first signal asks for an orderly end; a second one ends the process at once with 1. */
function awaitEnding() {
  let askedAt: number | null = null;
  let failure: Error | null = null;
  let ask: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  const askNow = (): void => {
    askedAt ??= systemClock.monotonic();
    ask();
  };
  const onSignal = (): void => {
    if (askedAt !== null && systemClock.monotonic() - askedAt > SAME_SIGNAL_MS) process.exit(1);
    askNow();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  // From the beginning: without a listener SIGHUP ends the process, and it may come during the start.
  let hangUp: () => void = () => undefined;
  const onSighup = (): void => {
    hangUp();
  };
  process.on('SIGHUP', onSighup);
  return {
    /** Resolves when the server shall stop. */
    asked,
    /** The reason why the server cannot go on; null if a signal alone ends it. */
    get failure() {
      return failure;
    },
    /** Asks for an orderly end, as a first signal does. */
    fail: (error: Error): void => {
      failure = error;
      askNow();
    },
    onHangUp(reload: () => void): void {
      hangUp = reload;
    },
    close(): void {
      process.off('SIGHUP', onSighup);
      process.off('SIGTERM', onSignal);
      process.off('SIGINT', onSignal);
    },
  };
}

/** Ends the process after an uncaught error: memory can no longer be trusted, and accepted mail is on disk. */
function endOnUncaughtErrors(log: RootLog): () => void {
  const crash = (error: unknown): void => {
    log.error({ event: 'crashed', err: error }, 'an uncaught error: ending');
    log.flush();
    process.exit(exitCodes.software);
  };
  process.on('uncaughtException', crash);
  process.on('unhandledRejection', crash);
  return () => {
    process.off('uncaughtException', crash);
    process.off('unhandledRejection', crash);
  };
}

interface Greeted {
  url: string;
  simulator: string;
  /** A key of the first start, shown only here; with null the text names a variable instead. */
  key: string | null;
  /** The link that makes the first administrator; null if there is one. */
  setUpLink?: string | null;
}

/** Returns commands that send a mail to the simulator and show its events, and the whole text for people. */
export function greeting({ url, simulator, key, setUpLink = null }: Greeted) {
  const base = reachable(url);
  // Single quotes would keep the shell from putting the variable in.
  const authorization = `-H "Authorization: Bearer ${key ?? '$POSTHORN_API_KEY'}"`;
  const mail = JSON.stringify({
    from: `Posthorn <hello@${simulator}>`,
    to: `delivered@${simulator}`,
    subject: 'First mail',
    text: 'Hello from Posthorn.',
  });
  const send = `curl -sS ${base}/v1/messages ${authorization} -H "Content-Type: application/json" -d '${mail}'`;
  const events = `curl -sS ${base}/v1/events ${authorization}`;
  const about =
    key === null
      ? 'Keys: posthorn keys create --name NAME --scopes send,message:read,event:read'
      : 'The key below is a test key: its mail is simulated. It is shown this once and ends in 7 days.';
  return {
    send,
    events,
    text: [
      '',
      `Posthorn is running at ${base}`,
      ...(setUpLink === null
        ? []
        : ['', 'Create the administrator of the dashboard (once, within 30 minutes):', setUpLink, '']),
      about,
      '',
      'Send a mail to the simulator:',
      send,
      '',
      'See the outcome:',
      events,
      '',
    ],
  };
}

/** Replaces an address that means all interfaces, as it cannot be dialled everywhere. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
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

/** Notifies systemd of our state (sd_notify(3)), if there is one, and at once asks for time to start. `path` is where programs are looked for. */
export function openServiceManager(
  deps: { clock: Clock; log: Log },
  manager: Manager | null,
  path: string | undefined,
) {
  const { clock } = deps;
  const relay = manager === null ? null : openRelay(deps, { NOTIFY_SOCKET: manager.socket, PATH: path });
  const startedAt = clock.monotonic();
  let timer: Timer | null = null;
  let isClosed = false;

  function every(ms: number, word: string, until = Infinity): void {
    relay?.say(word);
    if (clock.monotonic() + ms <= until) timer = clock.after(ms, () => every(ms, word, until), { background: true });
  }

  if (relay !== null)
    every(EXTEND_EVERY_MS, `EXTEND_TIMEOUT_USEC=${String(EXTEND_BY_USEC)}`, startedAt + LONGEST_START_MS);
  return {
    /** Everything is open. `status` is what `systemctl status` shows. */
    ready(status: string): void {
      timer?.cancel();
      relay?.say(`STATUS=${status}`);
      relay?.say('READY=1');
      const ms = manager?.watchdogMs ?? null;
      if (ms !== null) every(ms / SIGNS_A_PERIOD, 'WATCHDOG=1');
    },
    /** The end has begun. Signs of life go on: a stop may take a minute, and one that hangs should be seen. */
    stopping: (): void => relay?.say('STOPPING=1'),
    /** Ends the notifications and the shell. Safe to call twice. */
    close(): void {
      timer?.cancel();
      if (!isClosed) relay?.close();
      isClosed = true;
    },
  };
}

/** Enough for one line of complaint. */
const MOST_COMPLAINT = 500;

/**
 * Sends words to systemd. Node.js cannot open a Unix datagram socket, so `systemd-notify` does it, by one small shell: starting processes from this
 * large one would hold up the loop. Starts the shell again if it has died; its errors and those of `systemd-notify` are logged.
 */
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

type Listening = Pick<Config, 'http' | 'metrics' | 'dashboard' | 'smtp'>;

const portsOf = ({ http, metrics, dashboard, smtp: { mx, submission } }: Listening) =>
  [
    { host: http.host, port: http.port, of: 'http', portSetting: 'http.port' },
    { host: http.host, port: dashboard.port, of: 'http', portSetting: 'dashboard.port' },
    { host: metrics.host, port: metrics.port, of: 'metrics', portSetting: 'metrics.port' },
    { host: mx.host, port: mx.port, of: 'smtp.mx', portSetting: 'smtp.mx.port' },
    { host: submission.host, port: submission.port, of: 'smtp.submission', portSetting: 'smtp.submission.port' },
    { host: submission.host, port: submission.tlsPort, of: 'smtp.submission', portSetting: 'smtp.submission.tlsPort' },
  ] as const;

/** Returns null if the error is not about listening. */
export function listenFault(config: Listening, error: unknown): Refusal | null {
  if (!(error instanceof Error) || !('code' in error)) return null;
  const port = 'port' in error ? Number(error.port) : config.http.port;
  const asked = portsOf(config).filter((one) => one.port === port);
  const { host, of, portSetting } = asked[0] ?? portsOf(config)[0];
  const hostSetting = `${of}.host`;
  switch (error.code) {
    case 'EADDRINUSE': {
      const other = asked.find((one) => one.portSetting !== portSetting && one.portSetting !== 'dashboard.port');
      const line =
        other === undefined
          ? `something listens on ${host}:${String(port)} already: change ${portSetting}, or end it (as root, \`ss -ltnp 'sport = :${String(port)}'\` shows what it is)`
          : `${portSetting} and ${other.portSetting} are both ${String(port)}, or something else listens there already`;
      return new Refusal(exitCodes.unavailable, line);
    }
    case 'EACCES':
    case 'EPERM':
      return new Refusal(
        exitCodes.noPermission,
        `${portSetting}: this user may not listen on port ${String(port)}: run it as the systemd service, give it the capability CAP_NET_BIND_SERVICE, or take a port from 1024 up`,
      );
    // At boot an address may be there later than the server: a floating one, or that of a link that is slow.
    case 'EADDRNOTAVAIL':
      return new Refusal(
        exitCodes.unavailable,
        `${hostSetting}: this machine has no address ${host}; if it comes up later, a later start works`,
      );
    case 'EAFNOSUPPORT':
      return new Refusal(exitCodes.config, `${hostSetting}: this machine has no address ${host}`);
    default:
      return null;
  }
}
