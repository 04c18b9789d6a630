/** Prints the error that ended a command, with cause and cure, and finds its exit code (sysexits.h). */
import { CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { KeyFileError } from '../base/keyring.ts';
import { catalogue, Problem, type ProblemCode } from '../base/problem.ts';
import { ConfigError } from '../config/load.ts';
import { Unavailable, type UnavailableWhy } from '../base/unavailable.ts';
import { DatabaseRefusal, type RefusalWhy } from '../storage/mark.ts';
import { UnsupportedSchema } from '../storage/migrate.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { machineFault, type MachineFault } from '../operator/machine-fault.ts';
import { printable } from '../presentations/presentation.ts';

type Note = (line: string) => void;

/** The exit codes of what a command may end with, by the reason. */
const codes: Readonly<Record<MachineFault['kind'] | RefusalWhy | UnavailableWhy, number>> = {
  already_running: exitCodes.cannotCreate,
  away: exitCodes.unavailable,
  busy: exitCodes.unavailable,
  damaged: exitCodes.output,
  failing: exitCodes.output,
  forbidden: exitCodes.noPermission,
  full: exitCodes.output,
  in_use: exitCodes.cannotCreate,
  moved: exitCodes.config,
  no_access: exitCodes.noPermission,
  no_backup: exitCodes.cannotCreate,
  no_database: exitCodes.noInput,
  not_running: exitCodes.unavailable,
  read_only: exitCodes.noPermission,
  taken_over: exitCodes.unavailable,
  unreachable: exitCodes.unavailable,
  unsuitable: exitCodes.config,
  wrong_clock: exitCodes.unavailable,
};

/** Prints an error for people; `command` is the one that ended with it, if one had begun. Returns the exit code. */
export function printError(
  error: unknown,
  note: Note,
  dataDir: string | null,
  command: CommandUnknownOpts | null = null,
): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage; // commander has printed the reason
  if (error instanceof ConfigError) {
    for (const mistake of error.mistakes) note(mistake);
    if (!error.isForbidden) return exitCodes.config;
    note('  cure:  Run it as the user of the service: `sudo posthorn ...` becomes that user by itself.');
    return exitCodes.noPermission;
  }
  const code = codeOf(error);
  if (code !== null) {
    note(`posthorn: ${(error as Error).message}`);
    if (error instanceof Refusal && error.cure !== null) note(`  cure:  ${error.cure}`);
    return code;
  }
  if (error instanceof Problem) return printProblem(error, note, command);
  const fault = machineFault(error, dataDir);
  if (fault !== null) {
    note(`posthorn: ${fault.line}`);
    note(`  cure:  ${fault.cure}`);
    return codes[fault.kind];
  }
  // The modules of the server are loaded late; src/bin/posthorn.cjs prints the same for earlier ones.
  if (error instanceof Error && 'code' in error && error.code === 'EMFILE') {
    note('posthorn: this shell allows too few open files: run `ulimit -n 1024` or more (systemd: LimitNOFILE).');
    return exitCodes.software;
  }
  note(error instanceof Error ? (error.stack ?? error.message) : String(error));
  return exitCodes.software;
}

/** Returns the exit code of an error that says all by its message, or null. */
function codeOf(error: unknown): number | null {
  if (error instanceof Refusal) return error.exitCode;
  if (error instanceof Unavailable || error instanceof DatabaseRefusal) return codes[error.why];
  return error instanceof UnsupportedSchema || error instanceof KeyFileError ? exitCodes.config : null;
}

/** Returns the reason if a later start may work by itself (used by others, silent, full); null if an operator must act or the program is at fault. */
export function whyForNow(error: unknown, dataDir: string): string | null {
  const lines: string[] = [];
  const code = printError(error, (line) => lines.push(line), dataDir);
  const mayPass =
    code === exitCodes.unavailable || code === exitCodes.cannotCreate || machineFault(error, dataDir)?.kind === 'full';
  return mayPass ? (lines[0] ?? String(error)).replace(/^posthorn: /, '') : null;
}

/** Their causes and cures in the catalogue speak of requests, paths and members; the message says what is wrong with the command. */
const ofRequests: ReadonlySet<ProblemCode> = new Set([
  'invalid_field',
  'invalid_parameter',
  'invalid_state',
  'invalid_type',
  'missing_field',
  'not_found',
  'unknown_field',
]);

/** Prints a problem with its cure, and with its cause if the message does not say it. Returns the exit code. */
function printProblem(problem: Problem, note: Note, command: CommandUnknownOpts | null): number {
  note(`posthorn: ${printable(inOptions(problem.message, command))} (${problem.code})`);
  if (command !== null && ofRequests.has(problem.code)) {
    const cure = cureOf(problem, command);
    if (cure !== null) note(`  cure:  ${cure}`);
  } else if (!namesCommand(problem)) {
    const { cause, cure } = catalogue[problem.code];
    note(`  cause: ${cause}`);
    note(`  cure:  ${cure}`);
  }
  if (problem.code === 'not_found') return exitCodes.noInput;
  if (problem.code === 'service_unavailable') return exitCodes.unavailable;
  return problem.status >= 500 ? exitCodes.software : exitCodes.data;
}

/** Returns whether the message itself names the command that helps. */
const namesCommand = ({ message }: Problem): boolean => message.includes('`posthorn ');

/** Returns the command that lists what there is, or that describes the options; null if the message is enough. */
function cureOf(problem: Problem, command: CommandUnknownOpts): string | null {
  const { code } = problem;
  if (code === 'invalid_state' || namesCommand(problem)) return null;
  const list = command.parent?.commands.find((one) => one.name() === 'list');
  return code === 'not_found' && list !== undefined && command.registeredArguments.length > 0
    ? `\`${nameOf(list)}\` shows those that there are.`
    : `\`${nameOf(command)} --help\` describes its options.`;
}

/** Writes a member at the head of a message, such as `status[0]`, as the option that gave it. */
function inOptions(message: string, command: CommandUnknownOpts | null): string {
  return message.replace(/^`(\w+)(?:\[\d+\])?`/, (member, name: string) => {
    const long = `--${name.replaceAll('_', '-')}`;
    return command?.options.some((option) => option.long === long) === true ? long : member;
  });
}

/** Returns the whole name of a command: `posthorn messages list`. */
function nameOf(command: CommandUnknownOpts): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}
