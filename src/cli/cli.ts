/**
 * The command line: its commands, and the exit codes of their errors (sysexits.h). Most are made of presentations (derive.ts); the
 * other files of this folder add a command each.
 * Modules that take time to load are loaded by the command that needs them.
 */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isJournal, PRIORITY } from '../base/journal.ts';
import { Problem } from '../base/problem.ts';
import { environment, loadConfig } from '../config/load.ts';
import type { Loaded } from '../config/load.ts';
import { readSurroundings } from '../config/surroundings.ts';
import { reachOperator, type Operator } from '../operator/door/operator.ts';
import { noExplainer, type OpenExplainer } from '../operator/reports/classify.ts';
import { noReportParser, type OpenReportParser } from '../operator/reports/report-parser.ts';
import { version } from '../version.ts';
import { addBackup } from './backup.ts';
import { addClassify } from './classify.ts';
import { addCompletion } from './completion.ts';
import { addConfig } from './config.ts';
import { addDoctor } from './doctor.ts';
import { addExport } from './export.ts';
import { addEvents } from './events.ts';
import { addInbound } from './inbound.ts';
import { addReceived } from './received.ts';
import { addMigrate } from './migrate.ts';
import { addReputation } from './reputation.ts';
import { addLanes } from './queue-lanes.ts';
import { addWatch } from './queue-watch.ts';
import { addPresented } from './derive.ts';
import { exitCodes } from './exit-codes.ts';
import { refuseEmptyArguments, refuseUnclear } from './options.ts';
import { addSamples } from './samples.ts';
import { addSend } from './send.ts';
import { addServe, type StartApp } from './serve.ts';
import { addStorage } from './storage.ts';
import { addSuppressions } from './suppressions.ts';
import { printError } from './print-error.ts';
import { presentations } from '../presentations/index.ts';
import { json, printable } from '../presentations/table.ts';
import { addTls } from './tls.ts';

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
  /** Says what replies teach the delivery engine: mta/limits/explain.ts. */
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
  const load = ({ again = false } = {}): Loaded => {
    if (loaded !== null && !again) return loaded;
    const { config: file } = program.opts();
    loaded = loadConfig({ ...readSurroundings(), env, file });
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
      const operator = reachOperator(load().config, given.openReportParser);
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
  addCommands(program, context, given);
  refuseUnclear(program);
  refuseEmptyArguments(program);
  let running: CommandUnknownOpts | null = null;
  program.hook('preAction', (_, command) => {
    running = command;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    const { dataDir = null } = (loaded as Loaded | null)?.config ?? {};
    return printError(error, output.fail ?? output.note, dataDir, running);
  }
}

/** Adds all commands, in the order of the help. */
function addCommands(
  program: Command,
  context: Context,
  { startApp, openReportParser = noReportParser, openExplainer = noExplainer }: Program,
): void {
  const present = (part: keyof typeof presentations): void => addPresented(program, context, presentations[part]);
  addServe(program, context, startApp);
  addConfig(program, context);
  addMigrate(program, context);
  addBackup(program, context);
  addStorage(program, context);
  present('admin');
  present('team');
  present('accounts');
  present('audit');
  present('keys');
  present('domains');
  addSend(program, context);
  present('messages');
  present('received');
  present('queue');
  addLanes(program, context);
  addWatch(program, context);
  present('resolve');
  addEvents(program, context);
  addExport(program, context);
  present('stats');
  addReputation(program, context);
  present('recipients');
  present('suppressions');
  addSuppressions(program, context);
  present('webhooks');
  present('books');
  present('nodes');
  addDoctor(program, context);
  present('status');
  addTls(program, context);
  present('inbound');
  addInbound(program, context, openReportParser);
  addReceived(program, context);
  present('reclassify');
  addClassify(program, context, openExplainer);
  addCompletion(program, context);
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
