/** Turns errors into the error envelope: a Problem is for the caller, any other error is an internal one. */
import { Problem } from '../../base/problem.ts';
import { isStorageTrouble } from '../../storage/commit.ts';
import { problemAnswer } from '../answer.ts';
import type { Answer } from '../answer.ts';
import { serviceAt } from '../compat/services.ts';
import type { Exchange } from '../exchange.ts';
import type { OperatorDoor } from './operate.ts';
import type { ApiLog, Middleware } from '../request-state.ts';

/** `problemOf` finds the problem of an error for callers who may read the log as well. */
export function problem(deps: { log: ApiLog }, problemOf?: OperatorDoor['problemOf']): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    try {
      await next();
    } catch (error) {
      exchange.answer =
        problemOf === undefined
          ? answerTo(deps, exchange, error)
          : problemAnswer(problemOf(exchange.route?.operationId ?? null, error), exchange.requestId);
    }
  };
}

/** Returns the answer to an error. Of an internal one the caller gets the request id; its text goes to the log only. */
export function answerTo(deps: { log: ApiLog }, exchange: Exchange, error: unknown): Answer {
  if (error instanceof Problem) {
    if (error.cause !== undefined && error.status >= 500) logFault(deps.log, exchange, error);
    return inForm(exchange, error);
  }
  logFault(deps.log, exchange, error);
  if (isStorageTrouble(error))
    return inForm(
      exchange,
      new Problem('service_unavailable', 'The database cannot take this now.', { retryAfter: 10 }),
    );
  return inForm(exchange, new Problem('internal_error', 'Something failed on our side.'));
}

/** A program that was written for another service gets its errors in the form that it knows. */
function inForm({ path, requestId }: Exchange, problem: Problem): Answer {
  const answer = problemAnswer(problem, requestId);
  const service = serviceAt(path);
  if (service === null) return answer;
  const { status, body } = service.problem(problem);
  const fault = { field: problem.field, message: problem.message };
  return { ...answer, status, body: JSON.stringify(body), fault };
}

function logFault(log: ApiLog, exchange: Exchange, err: unknown): void {
  log.error({ err, request_id: exchange.requestId, endpoint: exchange.route?.path ?? null }, 'a request failed');
}
