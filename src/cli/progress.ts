/** Progress of long work: one line on a terminal that is overwritten. */
import type { Context } from './cli.ts';

const WIDTH = 30;

export type Progress = ReturnType<typeof showProgress>;

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
