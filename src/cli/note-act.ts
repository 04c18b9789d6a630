/** Writes the acts of commands that work without the server to the audit. */
import type { Config } from '../config/schema.ts';
import type { CommandNote } from '../operator/door/command-acts.ts';
import { DatabaseRefusal } from '../storage/mark.ts';
import type { Context } from './cli.ts';

/** Writes the row. The act is over, so a row that cannot be written is a line on standard error, and the exit code stays. */
export async function noteAct(context: Pick<Context, 'note'>, config: Config, noted: CommandNote): Promise<void> {
  const { noteCommand } = await import('../operator/door/command-acts.ts');
  try {
    await noteCommand(config, noted);
  } catch (error) {
    context.note(`posthorn: the audit log has no line about this: ${messageOf(error)}`);
  }
}

/** Runs the work. If it throws, the audit gets a row with the error, which is thrown again. A database that cannot be used takes no row. */
export async function orNoteFailure<Result>(
  context: Pick<Context, 'note'>,
  config: Config,
  act: Pick<CommandNote, 'operation' | 'object'>,
  work: Promise<Result>,
): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof DatabaseRefusal))
      await noteAct(context, config, { ...act, fault: { code: 'internal_error', message: messageOf(error) } });
    throw error;
  }
}

/** Returns the fault of a command that was refused. */
export const refused = (message: string): CommandNote['fault'] => ({
  code: 'invalid_state',
  message: message.slice(0, 500),
});

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 500);
