/** The parts of long work beside the server: progress on one line, its row of the audit, and the refusal of root. */
import type { Context } from './cli.ts';
import type { Config } from '../config/schema.ts';
import type { CommandNote } from '../operator/door/command-acts.ts';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { refuseRoot } from '../operator/door/data-folder.ts';

const WIDTH = 30;

/** Shows the progress of `what`; `total` has the unit of `done`, and is null if it is unknown. */
export function showProgress({ status }: Pick<Context, 'status'>, what: string) {
  return {
    at(done: number, total: number | null): void {
      if (total === null || total === 0) {
        status(`${what}: ${String(done)}`);
        return;
      }
      const part = Math.min(1, done / total);
      const bar = '#'.repeat(Math.round(part * WIDTH)).padEnd(WIDTH, '.');
      status(`${what} [${bar}] ${String(Math.floor(part * 100))} %`);
    },
    /** Clears the line. */
    end(): void {
      status('');
    },
  };
}

/** Writes the row. The act is over, so a row that cannot be written is a line on standard error, and the exit code stays. */
export async function noteAct(context: Pick<Context, 'note'>, config: Config, noted: CommandNote): Promise<void> {
  const { noteCommand } = await import('../operator/door/command-acts.ts');
  try {
    await noteCommand(config, noted);
  } catch (error) {
    context.note(
      `posthorn: the audit log has no line about this: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Throws `Unavailable` for root if the database, or the folder that it would be made in, belongs to another user. */
export async function refuseRootOf({ storage, dataDir }: Pick<Config, 'storage' | 'dataDir'>): Promise<void> {
  const { databaseFile } = await import('../storage/database.ts');
  const file = databaseFile(storage.url);
  refuseRoot(file === null ? dataDir : existsSync(file) ? file : path.dirname(path.resolve(file)));
}
