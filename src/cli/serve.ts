/** `posthorn serve`: the whole program, until a signal ends it. */
import { existsSync } from 'node:fs';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Log, RootLog } from '../base/log.ts';
import { managerIn, openServiceManager } from './service-manager.ts';
import { ConfigError } from '../config/load.ts';
import type { CreatedKey } from '../client/types.ts';
import type { Config } from '../config/schema.ts';
import { makeDataFolder } from '../operator/data-folder.ts';
import { lookAtSocket, socketPath } from '../operator/control-socket.ts';
import { reachOperator } from '../operator/operator.ts';
import { Unavailable } from '../operator/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { greeting } from './greeting.ts';
import { listenFault } from './listen-fault.ts';

/** What serve needs of the running program. */
export interface Server {
  /** Where the API listens. */
  url: string;
  /** Takes over what can change while running. Throws ConfigError. */
  reload(config: Config): unknown;
  /** The link that makes the first administrator, or null where there is one. */
  setUpLink?(): Promise<{ url: string; expires_at: string } | null>;
  stop(): Promise<void>;
}

export type StartApp = (config: Config, options: { log: Log }) => Promise<Server>;

/** The key of the first start ends by itself: it may be in the scroll-back of a terminal. */
const FIRST_KEY = {
  name: 'first',
  mode: 'test',
  scopes: ['send', 'message:read', 'event:read'],
  ttl: 7 * 86_400,
} as const;

export function addServe(program: CommandUnknownOpts, context: Context, startApp: StartApp | undefined): void {
  program
    .command('serve')
    .description('run the server until SIGTERM or SIGINT')
    .action(async () => {
      if (startApp === undefined) throw new Error('this program was built without a server');
      await serve(context, startApp);
    });
}

async function serve(context: Context, startApp: StartApp): Promise<void> {
  const { config } = context.loadAloud();
  makeDataFolder(config.dataDir);
  // Before anything is opened: two servers would take each other's mail for left behind.
  if ((await lookAtSocket(socketPath(config.dataDir))) === 'live') {
    throw new Unavailable('already_running', `a server is running on ${config.dataDir} already`);
  }
  const isFirst = await isFirstStart(config);
  const { createLog } = await import('../base/log.ts');
  const log = createLog(config.log);
  const ending = hearSignals();
  const unguard = guard(log);
  const manager = openServiceManager(
    { clock: systemClock, log },
    managerIn(context.env, process.pid),
    context.env['PATH'],
  );
  try {
    const server = await starting(context, config, () => startApp(config, { log }));
    if (server === null) return;
    manager.ready(`serving ${server.url}`);
    await greet(context, config, log, { server, isFirst });
    ending.onHangUp(() => {
      reload(context, log, server);
    });
    await ending.asked;
    manager.stopping();
    await server.stop();
  } finally {
    manager.close();
    unguard();
    ending.quiet();
    log.flush();
  }
}

/** Settings that cannot be read leave everything as it is: a slip in the file must not end a running server. */
function reload(context: Context, log: Log, server: Server): void {
  try {
    server.reload(context.load({ again: true }).config);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    log.error({ event: 'reload_failed', mistakes: error.mistakes }, 'the settings have mistakes: nothing was changed');
  }
}

/** Null where the machine does not give what the settings ask for: it has been said, with the exit code. */
async function starting(context: Context, config: Config, start: () => Promise<Server>): Promise<Server | null> {
  try {
    return await start();
  } catch (error) {
    const fault = listenFault(config, error);
    if (fault === null) throw error;
    context.note(`posthorn: ${fault.line}`);
    context.end(fault.exitCode);
    return null;
  }
}

async function isFirstStart(config: Config): Promise<boolean> {
  const { sqliteFile } = await import('../storage/database.ts');
  return !existsSync(sqliteFile(config.storage.url));
}

/** A key goes to people only: into no log of ours, nor into systemd's journal, which keeps what standard error says. */
async function greet(
  context: Context,
  config: Config,
  log: Log,
  { server, isFirst }: { server: Server; isFirst: boolean },
): Promise<void> {
  const { url } = server;
  const lines = { url, simulator: config.simulator.domain };
  const isJournal = context.env['JOURNAL_STREAM'] !== undefined;
  const isSilent = isJournal || !(isFirst || context.isTerminal);
  const link = (await server.setUpLink?.()) ?? null;
  // It is good for 30 minutes and once: that much a log may know.
  if (link !== null && (isSilent || config.log.format === 'json'))
    log.info({ event: 'set_up', ...link }, 'there is no administrator yet: this link makes the first one');
  if (config.log.format === 'json') {
    const { send, events } = greeting({ ...lines, key: null });
    log.info({ event: 'ready', url, send, events }, 'the API takes requests');
  }
  if (isSilent) return;
  const made = isFirst ? await firstKey(config) : null;
  const shown = { ...lines, key: made?.key ?? null, setUpLink: link?.url ?? null };
  for (const line of greeting(shown).text) context.note(line);
}

async function firstKey(config: Config): Promise<{ key: string }> {
  const operator = reachOperator(config);
  try {
    return await operator.ask<CreatedKey>('createKey', { body: FIRST_KEY });
  } finally {
    await operator.close();
  }
}

/** npm passes a Ctrl-C on to us that the terminal has sent us already: within this time, both are one. */
const SAME_SIGNAL_MS = 500;

/** The first signal asks for an end; a second one, from somebody who will not wait, ends at once with 1. */
function hearSignals(): { asked: Promise<void>; onHangUp(reload: () => void): void; quiet(): void } {
  let askedAt: number | null = null;
  let ask: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  const hear = (): void => {
    const now = systemClock.monotonic();
    if (askedAt !== null && now - askedAt > SAME_SIGNAL_MS) process.exit(1);
    askedAt ??= now;
    ask();
  };
  process.on('SIGTERM', hear);
  process.on('SIGINT', hear);
  // From the begin: without a listener SIGHUP ends the process, and it may come while we start.
  let hangUp: () => void = () => undefined;
  const hearHangUp = (): void => {
    hangUp();
  };
  process.on('SIGHUP', hearHangUp);
  return {
    asked,
    onHangUp(reload) {
      hangUp = reload;
    },
    quiet() {
      process.off('SIGHUP', hearHangUp);
      process.off('SIGTERM', hear);
      process.off('SIGINT', hear);
    },
  };
}

/** After an error nobody caught, nothing that is in memory can be relied on; what was promised is on disk. */
function guard(log: RootLog): () => void {
  const fall = (error: unknown): void => {
    log.error({ event: 'crashed', err: error }, 'an error that nobody caught: ending');
    log.flush();
    process.exit(exitCodes.software);
  };
  process.on('uncaughtException', fall);
  process.on('unhandledRejection', fall);
  return () => {
    process.off('uncaughtException', fall);
    process.off('unhandledRejection', fall);
  };
}
