/** Faults of operations that another process asks for: a command. It may read the log as well, so it is told the error. */
import type { Log } from '../../base/log.ts';
import { catalogue, Problem, type ProblemCode } from '../../base/problem.ts';
import { isDamage, isStorageTrouble } from '../../storage/commit.ts';

/** Returns the problem that an error is answered as. An error that is not the caller's mistake is logged, and is an `internal_error`. */
export function problemOf({ log }: { log: Pick<Log, 'error'> }, operation: string | null, error: unknown): Problem {
  if (error instanceof Problem) return error;
  log.error({ event: 'operation_failed', operation, err: error }, 'an operation of the operator failed');
  const message = error instanceof Error ? error.message : String(error);
  if (isDamage(error))
    return new Problem(
      'internal_error',
      `the database is damaged (${String(Reflect.get(error, 'code'))}): stop the server, keep a copy of the database as it is, and restore the last backup with \`posthorn backup restore\` (docs/backup.md)`,
    );
  if (isStorageTrouble(error))
    return new Problem('service_unavailable', `the database cannot take this now: ${message}`);
  return new Problem('internal_error', message);
}

/** Returns the problem that another process answered, or null if its form is unknown: the process may have another version. */
export function problemIn(value: unknown): Problem | null {
  if (typeof value !== 'object' || value === null) return null;
  const { code, message, field } = value as Record<string, unknown>;
  if (typeof code !== 'string' || typeof message !== 'string') return null;
  if (!Object.hasOwn(catalogue, code) || (field !== null && typeof field !== 'string')) return null;
  return new Problem(code as ProblemCode, message, { field });
}

export const unknownForm = (): Error =>
  new Error('the server answered in a form that is not known here: is it of another version?');
