/** `posthorn serve`: the whole program, until a signal ends it. */
import { rmSync } from 'node:fs';
import { systemClock } from '../base/clock.ts';
import { watchHeap } from '../base/heap-growth.ts';
import { isJournal, type Log, type RootLog } from '../base/log.ts';
import { managerIn, openServiceManager } from './service-manager.ts';
import { ConfigError } from '../config/load.ts';
import { replaceFile } from '../base/replace-file.ts';
import type { CreatedKey, Key } from '../client/types.ts';
import type { Config } from '../config/schema.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { setUpFile } from '../operator/team/admin.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import { reachOperator } from '../operator/door/operator.ts';
import { setupWarnings } from '../operator/setup-warnings.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { greeting } from './greeting.ts';
import { listenFault } from './listen-fault.ts';
import { isDiskFull } from './machine-fault.ts';
import { whyForNow } from './print-error.ts';

/** The running program, as `serve` uses it. */
export interface Server {
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

/** Runs the server. `greets`: prints a test key at the first start, also if no terminal shows it. */
export async function serve(context: Context, startApp: StartApp, greets: boolean): Promise<void> {
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
    await greet(context, config, log, server, greets).catch((err: unknown) => {
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
    const reason = isStarted && !isDiskFull(error) ? null : whyForNow(error, config.dataDir);
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
