/** The answer of an operation that another process performs, as JSON: its result, or the problem of its caller. */
import type { Log } from '../base/log.ts';
import { catalogue, Problem, type ProblemCode } from '../base/problem.ts';
import { isDamage, isStorageTrouble } from '../storage/commit.ts';

export type ControlAnswer =
  { result: unknown } | { problem: { code: ProblemCode; message: string; field: string | null } };

/** Performs an operation for another process. An error that is not the caller's mistake is logged, and answered as `internal_error`. */
export async function answerOf(
  { log }: { log: Pick<Log, 'error'> },
  name: string,
  work: () => Promise<unknown>,
): Promise<{ status: number; answer: ControlAnswer }> {
  try {
    return { status: 200, answer: { result: await work() } };
  } catch (error) {
    const problem = error instanceof Problem ? error : internal(log, name, error);
    const { code, message, field } = problem;
    return { status: problem.status, answer: { problem: { code, message, field } } };
  }
}

/** A process that may ask here may read the log as well, so the answer contains the error. */
function internal(log: Pick<Log, 'error'>, name: string, error: unknown): Problem {
  log.error({ event: 'operation_failed', operation: name, err: error }, 'an operation of the operator failed');
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

/** Returns the result in an answer. Throws the `Problem` in it, or an error if its form is unknown: the other process may have another version. */
export function resultIn(text: string): unknown {
  const answer: unknown = JSON.parse(text);
  if (typeof answer === 'object' && answer !== null) {
    if ('result' in answer) return answer.result;
    if ('problem' in answer && isProblem(answer.problem)) {
      const { code, message, field } = answer.problem;
      throw new Problem(code, message, { field });
    }
  }
  throw new Error('the server answered in a form that is not known here: is it of another version?');
}

function isProblem(value: unknown): value is { code: ProblemCode; message: string; field: string | null } {
  if (typeof value !== 'object' || value === null) return false;
  const { code, message, field } = value as Record<string, unknown>;
  return (
    typeof code === 'string' &&
    Object.hasOwn(catalogue, code) &&
    typeof message === 'string' &&
    (field === null || typeof field === 'string')
  );
}
