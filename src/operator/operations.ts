/** The table of operations, and how one is performed: find it, check its arguments, run it, audit it. */
import { check } from '../base/check.ts';
import { Problem } from '../base/problem.ts';
import { accountOperations } from './accounts.ts';
import { beginAct, type Acting } from './act.ts';
import { adminOperations } from './admin.ts';
import { backupOperations } from './backups.ts';
import { bookOperations } from './books.ts';
import { doctorOperations } from './doctor.ts';
import { domainOperations } from './domains.ts';
import { eventOperations } from './events.ts';
import { holdOperations } from './holds.ts';
import { inboundOperations } from './inbound.ts';
import { keyOperations } from './keys.ts';
import { messageOperations } from './messages.ts';
import type { Operation, OperatorDeps, StoreDeps } from './operation.ts';
import { queueOperations } from './queue.ts';
import { reclassifyOperations } from './reclassify.ts';
import { reputationMomentOperations } from './reputation-moments.ts';
import { reputationOperations } from './reputation.ts';
import { resendOperations } from './resend.ts';
import { resolveOperations } from './resolve.ts';
import { sendOperations } from './send.ts';
import { sourceOperations } from './sources.ts';
import { statsOperations } from './stats.ts';
import { suppressionOperations } from './suppressions.ts';
import { Unavailable } from './unavailable.ts';
import { watchOperations } from './watch.ts';
import { webhookOperations } from './webhooks.ts';

export type { OperatorDeps, StoreDeps } from './operation.ts';

const table = {
  ...accountOperations,
  ...keyOperations,
  ...domainOperations,
  ...sendOperations,
  ...messageOperations,
  ...queueOperations,
  ...holdOperations,
  ...sourceOperations,
  ...watchOperations,
  ...resolveOperations,
  ...eventOperations,
  ...webhookOperations,
  ...bookOperations,
  ...backupOperations,
  ...inboundOperations,
  ...statsOperations,
  ...reputationOperations,
  ...reputationMomentOperations,
  ...suppressionOperations,
  ...reclassifyOperations,
  ...resendOperations,
  ...adminOperations,
  ...doctorOperations,
};

export type OperationName = keyof typeof table;
/** The arguments as they are written, before their schema has seen them. */
export type ArgsOf<Name extends OperationName> = (typeof table)[Name] extends Operation<infer Args> ? Args : never;
export type ResultOf<Name extends OperationName> = Awaited<ReturnType<(typeof table)[Name]['run']>>;

/** The operation with this name, or null. */
export function operationNamed(name: string): Operation | null {
  const operations: Readonly<Record<string, Operation>> = table;
  return Object.hasOwn(operations, name) ? (operations[name] ?? null) : null;
}

/**
 * Performs an operation with arguments from outside. Throws a `Problem` for the operator's mistakes, `Unavailable` where
 * it needs the running server and `deps` are not the server's. `acting` is who does it, where that is not the command line.
 */
export async function perform(
  deps: StoreDeps | OperatorDeps,
  name: string,
  given: unknown,
  acting?: Acting,
): Promise<unknown> {
  const operation = operationNamed(name);
  if (operation === null) throw new Problem('not_found', `there is no operation ${JSON.stringify(name.slice(0, 100))}`);
  if (!operation.acts) return await run(deps, operation, name, given);
  const act = beginAct({ commit: deps.db.commit, clock: deps.clock }, name, acting);
  try {
    const result = await run(deps, operation, name, given, act);
    await act.done();
    return result;
  } catch (error) {
    if (!(error instanceof Unavailable)) await act.failed(error);
    throw error;
  }
}

async function run(
  deps: StoreDeps | OperatorDeps,
  operation: Operation,
  name: string,
  given: unknown,
  act = beginAct({ commit: deps.db.commit, clock: deps.clock }, name),
): Promise<unknown> {
  const args = check(operation.args, given);
  if (operation.needs === 'store') return await operation.run(deps, args, act);
  if (!('mta' in deps)) throw notRunning();
  return await operation.run(deps, args, act);
}

/** What an operation that needs the server says without one. */
export function notRunning(): Unavailable {
  return new Unavailable('not_running', 'the server is not running: start it with `posthorn serve`');
}
