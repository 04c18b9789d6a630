/**
 * The command line: its commands, and the exit codes of their errors (sysexits.h). Most are made of presentations (derive.ts); the other files of
 * this folder add a command each. Modules that take time to load are loaded by the command that needs them.
 */
import { Command, Help, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isJournal, PRIORITY } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import type { Loaded, loadConfig as LoadConfig } from '../config/load.ts';
import { environment, readSurroundings } from '../config/surroundings.ts';
import type { Operator } from '../operator/door/operator.ts';
import { version } from '../version.ts';
import type { OpenExplainer, OpenReportParser } from './explain.ts';
import { ownCommands } from './commands.ts';
import { addCommands, addExamples, refuseEmptyArguments, refuseUnclear } from './derive.ts';
import { exitCodes } from './exit-codes.ts';
import type { StartApp } from './serve.ts';
import { presentations } from '../presentations/index.ts';
import { json, printable } from '../presentations/presentation.ts';

type Write = (line: string) => void;

export interface Output {
  /** Writes one line of result to standard output. */
  out: Write;
  /** Writes one line to standard error. */
  note: Write;
  /** Does the same with a reason why the command fails, which is an error in the journal of systemd. */
  fail?: Write;
  /** Shows progress on one line, which the next call overwrites; only on a terminal. */
  status?: Write;
  /** True if standard error is a terminal. */
  isTerminal?: boolean;
  /** True if standard output is a terminal. */
  isOutTerminal?: boolean;
}

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
function terminal(env: Env): Output {
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

type Env = Readonly<Record<string, string | undefined>>;

export type Context = ReturnType<typeof contextOf>;

/** `fileOf` returns what `--config` says. */
function contextOf(env: Env, output: Output, given: Program, fileOf: () => string | undefined) {
  const { input = process.stdin, now = () => systemClock.now() } = given;
  const { out, note } = output;
  let loaded: Loaded | null = null;
  let loadConfig: typeof LoadConfig | null = null;
  /** Reads the settings that `--config` and the environment name. Throws `ConfigError`. */
  const load = ({ again = false } = {}): Loaded => {
    if (loaded !== null && !again) return loaded;
    if (loadConfig === null) throw new Error('the settings are asked for before there is a command');
    return (loaded = loadConfig({ ...readSurroundings(), env, file: fileOf() }));
  };
  return {
    fail: note,
    status: (() => undefined) as Write,
    isTerminal: false,
    ...output,
    env,
    /** The parts that `main` has handed in. */
    program: given,
    now,
    exitCode: exitCodes.ok as number,
    /** The command that has begun. */
    command: null as CommandUnknownOpts | null,
    get dataDir(): string | null {
      return loaded?.config.dataDir ?? null;
    },
    /** Is called before the command begins: help is shown without the settings. */
    async begin(command: CommandUnknownOpts): Promise<void> {
      this.command = command;
      ({ loadConfig } = await import('../config/load.ts'));
    },
    load,
    /** Does the same and prints warnings: for commands about settings. */
    loadAloud(): Loaded {
      for (const warning of load().warnings) note(`posthorn: ${warning}`);
      return load();
    },
    /** Writes lines of a file, such as CSV, to standard output: to a terminal with the characters escaped that would control it. */
    outFile(lines: string, isJson = false): void {
      const isEscaped = isJson || output.isOutTerminal === true;
      out(isEscaped ? lines.split('\n').map(printable).join('\n') : lines);
    },
    /** Prints the record as JSON, or its lines for people, or a note if there are none. */
    print(asJson: boolean | undefined, record: unknown, lines: () => readonly string[]): void {
      if (asJson === true) {
        out(json(record));
        return;
      }
      const shown = lines();
      for (const line of shown) out(line);
      // On standard error: an empty list must not look like a command that did nothing.
      if (shown.length === 0) note('nothing to show');
    },
    /** Performs operations on the running server, or on the database. */
    async operate<Result>(use: (operator: Operator) => Promise<Result>): Promise<Result> {
      const { reachOperator } = await import('../operator/door/operator.ts');
      const operator = reachOperator(load().config);
      try {
        return await use(operator);
      } finally {
        await operator.close();
      }
    },
    /** Standard input, for what is read in pieces. */
    input,
    /** Reads all of standard input, at most `most` bytes. Throws `Problem` beyond that. */
    read: (most: number) => readAll(input, most),
    /** Sets the exit code of a command that has run and found a fault. */
    end(code: number): void {
      this.exitCode = code;
    },
  };
}

/** Runs one command and gives its exit code. Never throws. `env` and `output` are those of the process unless a test says otherwise. */
export async function run(
  args: readonly string[],
  env = environment(),
  output = terminal(env),
  given: Program = {},
): Promise<number> {
  const program = new Command('posthorn')
    .description('Self-hosted transactional e-mail.')
    .exitOverride()
    .option(
      '--config <file>',
      'settings file (default: POSTHORN_CONFIG, /etc/posthorn/posthorn.yaml, config/posthorn.yaml)',
    );
  program.version(version, '-V, --version', 'print the version');
  program.configureOutput({
    writeOut: (text) => output.out(text.trimEnd()),
    writeErr: (text) => output.note(text.trimEnd()),
  });
  const usual = new Help();
  // The list of all commands fits a narrow window without what each of them takes.
  program.configureHelp({
    subcommandTerm: (one) => (one.parent === program ? one.name() : usual.subcommandTerm(one)),
  });
  const context = contextOf(env, output, given, () => program.opts().config);
  addAll(program, context);
  refuseUnclear(program);
  refuseEmptyArguments(program);
  program.hook('preAction', (_, command) => context.begin(command));
  try {
    await program.parseAsync(args, { from: 'user' });
    return context.exitCode;
  } catch (error) {
    // Commander has printed the help.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    const { printError } = await import('./print-error.ts');
    return printError(error, context.fail, context.dataDir, context.command);
  }
}

/** First words of commands, in the order of the help; others come behind them. */
const order =
  'serve config migrate backup storage admin team accounts audit keys domains send messages received queue resolve events export stats reputation recipients suppressions webhooks books nodes doctor status tls inbound classify completion';

function addAll(program: Command, context: Context): void {
  const all = [...Object.values(presentations).flat(), ...ownCommands];
  const wordOf = ({ command }: { command: string }): string => command.split(' ', 1)[0] ?? '';
  for (const word of new Set([...order.split(' '), ...all.map(wordOf)]))
    addCommands(
      program,
      context,
      all.filter((one) => wordOf(one) === word),
    );
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(async (words) => {
      const { offersAfter } = await import('./completion.ts');
      for (const line of offersAfter(program, words)) context.out(line);
    });
  addExamples(program, new Map(all.map(({ command, examples }) => [command, examples])));
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
