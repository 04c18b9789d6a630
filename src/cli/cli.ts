/**
 * The command line: its commands, and the exit codes of their errors (sysexits.h). Most are made of presentations (derive.ts); the
 * other files of this folder add a command each.
 * Modules that take time to load are loaded by the command that needs them.
 */
import { Command, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isJournal, PRIORITY } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import type { Loaded, loadConfig } from '../config/load.ts';
import { environment, readSurroundings } from '../config/surroundings.ts';
import type { Operator } from '../operator/door/operator.ts';
import { version } from '../version.ts';
import type { OpenExplainer } from './classify.ts';
import { addPresented } from './derive.ts';
import { exitCodes } from './exit-codes.ts';
import type { OpenReportParser } from './inbound.ts';
import { refuseEmptyArguments, refuseUnclear } from './options.ts';
import { addSamples } from './samples.ts';
import type { StartApp } from './serve.ts';
import { presentations } from '../presentations/index.ts';
import type { Presentation } from '../presentations/presentation.ts';
import { json, printable } from '../presentations/table.ts';

/** The dependencies of a command. */
export interface Context {
  /** Writes one line of result to standard output. */
  out(line: string): void;
  /** Writes lines of a file, such as CSV, to standard output: to a terminal with the characters escaped that would control it. */
  outFile(lines: string, isJson?: boolean): void;
  /** Writes one line to standard error. */
  note(line: string): void;
  /** Does the same with a reason why the command fails, which is an error in the journal of systemd. */
  fail(line: string): void;
  /** Shows progress on one line, which the next call overwrites; only on a terminal. */
  status(text: string): void;
  /** The time, in milliseconds since the epoch. */
  now(): number;
  /** Reads the settings that `--config` and the environment name. Throws `ConfigError`. */
  load(options?: { again: boolean }): Loaded;
  /** Does the same and prints warnings: for commands about settings. */
  loadAloud(): Loaded;
  /** Prints the record as JSON, or its lines for people, or a note if there are none. */
  print(asJson: boolean | undefined, record: unknown, lines: () => readonly string[]): void;
  /** Performs operations on the running server, or on the database. */
  operate<Result>(use: (operator: Operator) => Promise<Result>): Promise<Result>;
  /** Standard input, for what is read in pieces. */
  readonly input: AsyncIterable<Buffer>;
  /** Reads all of standard input, at most `most` bytes. Throws `Problem` beyond that. */
  read(most: number): Promise<string>;
  /** Sets the exit code of a command that has run and found a fault. */
  end(code: number): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True if standard error is a terminal. */
  readonly isTerminal: boolean;
}

export type Output = Pick<Context, 'out' | 'note'> & {
  status?: Context['status'];
  /** Writes one line of the error that ended the command to standard error. */
  fail?: Context['note'];
  isTerminal?: boolean;
  /** True if standard output is a terminal. */
  isOutTerminal?: boolean;
};

/** Dependencies that `main` passes. */
export interface Program {
  /** Builds and starts everything: app.ts. */
  startApp?: StartApp;
  /** Reads reports as the listener does: inbound/report-reader.ts. */
  openReportParser?: OpenReportParser;
  /** Says what replies teach the delivery engine: mta/limits/shaping.ts. */
  openExplainer?: OpenExplainer;
  input?: AsyncIterable<Buffer>;
  /** The time in milliseconds since the epoch; the system's clock if absent. */
  now?: () => number;
}

/** The output of the process. To the journal, each line on standard error goes with its priority. */
function terminal(env: Context['env']): Output {
  const journal = isJournal(env['JOURNAL_STREAM'], 2);
  const write = (priority: string, line: string): void => {
    process.stderr.write(`${journal ? priority : ''}${line}\n`);
  };
  return {
    out(line) {
      process.stdout.write(`${line}\n`);
    },
    note(line) {
      write(PRIORITY.warn, line);
    },
    fail(line) {
      write(PRIORITY.error, line);
    },
    status(text) {
      if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
    },
    isTerminal: process.stderr.isTTY,
    isOutTerminal: process.stdout.isTTY,
  };
}

/** Runs one command and gives its exit code. Never throws. `env` and `output` are those of the process unless a test says otherwise. */
export async function run(
  args: readonly string[],
  env = environment(),
  output = terminal(env),
  given: Program = {},
): Promise<number> {
  const { input = process.stdin, now = () => systemClock.now() } = given;
  const program = new Command('posthorn')
    .description('Self-hosted transactional e-mail.')
    .exitOverride()
    .option(
      '--config <file>',
      'settings file (default: POSTHORN_CONFIG, /etc/posthorn/posthorn.yaml, config/posthorn.yaml)',
    );
  program.version(version, '-V, --version', 'print the version');
  program.configureOutput({
    writeOut: (text) => {
      output.out(text.trimEnd());
    },
    writeErr: (text) => {
      output.note(text.trimEnd());
    },
  });
  let exitCode: number = exitCodes.ok;
  let loaded: Loaded | null = null;
  let settings: { loadConfig: typeof loadConfig } | null = null;
  const load = ({ again = false } = {}): Loaded => {
    if (loaded !== null && !again) return loaded;
    if (settings === null) throw new Error('the settings are asked for before there is a command');
    const { config: file } = program.opts();
    loaded = settings.loadConfig({ ...readSurroundings(), env, file });
    return loaded;
  };
  const loadAloud = (): Loaded => {
    for (const warning of load().warnings) output.note(`posthorn: ${warning}`);
    return load();
  };
  const context: Context = {
    out: output.out,
    outFile(lines, isJson = false) {
      const isEscaped = isJson || output.isOutTerminal === true;
      output.out(isEscaped ? lines.split('\n').map(printable).join('\n') : lines);
    },
    note: output.note,
    fail: output.fail ?? output.note,
    status: output.status ?? (() => undefined),
    now,
    load,
    loadAloud,
    print(asJson, record, lines) {
      if (asJson === true) {
        output.out(json(record));
        return;
      }
      const shown = lines();
      for (const line of shown) output.out(line);
      // On standard error: an empty list must not look like a command that did nothing.
      if (shown.length === 0) output.note('nothing to show');
    },
    async operate(use) {
      const { reachOperator } = await import('../operator/door/operator.ts');
      const operator = reachOperator(load().config);
      try {
        return await use(operator);
      } finally {
        await operator.close();
      }
    },
    input,
    read: (most) => readAll(input, most),
    end(code) {
      exitCode = code;
    },
    env,
    isTerminal: output.isTerminal ?? false,
  };
  await addCommands(program, context, given, args);
  refuseUnclear(program);
  refuseEmptyArguments(program);
  let running: CommandUnknownOpts | null = null;
  program.hook('preAction', async (_, command) => {
    running = command;
    settings = await import('../config/load.ts');
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has printed the help.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    const { printError } = await import('./print-error.ts');
    const { dataDir = null } = (loaded as Loaded | null)?.config ?? {};
    return printError(error, output.fail ?? output.note, dataDir, running);
  }
}

type Add = (command: Command, context: Context, given: Program) => void;

const addServe: Add = (command, context, { startApp }) =>
  void command
    .option('--greeting', 'print a test key at the first start, also if no terminal shows it, as `npm start` does')
    .action(async ({ greeting = false }: { greeting?: boolean }) => {
      if (startApp === undefined) throw new Error('this program was built without a server');
      await (await import('./serve.ts')).serve(context, startApp, greeting);
    });

const addConfig: Add = (command, context) => {
  command
    .command('check')
    .description('read all settings and report every mistake; exit code 78 if there is one')
    .option('--json', 'as one JSON object')
    .action(async ({ json: asJson }) => (await import('./config.ts')).checkSettings(context, asJson));
  command
    .command('show')
    .description('print the settings in effect and where each came from; secrets are hidden')
    .option('--json', 'as one JSON object; durations in milliseconds, sizes in bytes')
    .action(async ({ json: asJson }) => {
      (await import('./config.ts')).showSettings(context, asJson);
    });
};

/** Commands that are written by hand, by their first word: what the list of commands says of them, and the modules that add them. */
const byHand: Readonly<Record<string, { says?: string; load: () => Promise<readonly Add[]> }>> = {
  serve: {
    says: 'run the server until SIGTERM or SIGINT',
    load: () => Promise.resolve([addServe]),
  },
  config: {
    says: 'check the settings, or show those in effect',
    load: () => Promise.resolve([addConfig]),
  },
  migrate: {
    says: 'bring the database up to date (serve does this too)',
    load: async () => [(await import('./migrate.ts')).addMigrate],
  },
  backup: {
    says: 'copies of a SQLite database and the keys',
    load: async () => [(await import('./backup.ts')).addBackup],
  },
  storage: { says: 'where the database is', load: async () => [(await import('./storage.ts')).addStorage] },
  send: { says: 'send one mail', load: async () => [(await import('./send.ts')).addSend] },
  received: { load: async () => [(await import('./received.ts')).addSave] },
  queue: {
    load: async () => [(await import('./queue-lanes.ts')).addLanes, (await import('./queue-watch.ts')).addWatch],
  },
  events: { says: 'what happened to mail', load: async () => [(await import('./events.ts')).addEvents] },
  export: {
    says: 'write a whole list as CSV to standard output; filters are the parameters of the list in the API',
    load: async () => [(await import('./export.ts')).addExport],
  },
  suppressions: { load: async () => [(await import('./suppressions.ts')).addSuppressions] },
  doctor: {
    says: 'check everything that mail depends on; exit code 1 if a check failed',
    load: async () => [(await import('./doctor.ts')).addDoctor],
  },
  tls: {
    says: 'the certificate of the SMTP listeners, and of HTTPS',
    load: async () => [(await import('./tls.ts')).addTls],
  },
  inbound: {
    async load() {
      const { addInbound } = await import('./inbound.ts');
      const { addSimulate } = await import('./received.ts');
      return [(command, context, { openReportParser }) => addInbound(command, context, openReportParser), addSimulate];
    },
  },
  classify: {
    says: 'explain what an SMTP reply, or the diagnostic of a bounce mail, would mean here, by which rule, and which limit would follow',
    async load() {
      const { addClassify } = await import('./classify.ts');
      return [(command, context, { openExplainer }) => addClassify(command, context, openExplainer)];
    },
  },
  completion: {
    says: 'print a script that completes commands and options in your shell',
    load: async () => [(await import('./completion.ts')).addCompletion],
  },
};

/** First words of commands, in the order of the help. */
const order =
  'serve config migrate backup storage admin team accounts audit keys domains send messages received queue resolve events export stats reputation recipients suppressions webhooks books nodes doctor status tls inbound classify completion';

/** Adds the commands. Of those that are written by hand, others than the arguments name are in the list of commands only, so that help is quick. */
async function addCommands(program: Command, context: Context, given: Program, args: readonly string[]): Promise<void> {
  const presented: Readonly<Record<string, readonly Presentation[]>> = presentations;
  for (const word of order.split(' ')) {
    addPresented(program, context, presented[word] ?? []);
    const { says, load } = byHand[word] ?? {};
    if (load === undefined) continue;
    const command = (program.commands.find((one) => one.name() === word) ?? program.command(word)) as Command;
    if (says !== undefined) command.description(says);
    if (args.includes(word) || (word === 'completion' && args.includes('complete')))
      for (const add of await load()) add(command, context, given);
  }
  addSamples(program, Object.values(presentations).flat());
}

async function readAll(input: AsyncIterable<Buffer>, most: number): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of input) {
    bytes += part.length;
    if (bytes > most) throw new Problem('field_too_long', `standard input has more than ${String(most)} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
