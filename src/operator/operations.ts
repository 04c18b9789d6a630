/** The table of operations. `perform` finds one, checks its arguments, runs it and writes the audit line. */
import { check } from '../base/check.ts';
import { Problem } from '../base/problem.ts';
import { accountOperations } from './accounts.ts';
import { auditOperations } from './audit.ts';
import { beginAct, commandLine, type Acting, type RunningAct } from '../operations/act.ts';
import { askAsOperator } from './ask.ts';
import { adminOperations } from './admin.ts';
import { backupOperations } from './backups.ts';
import { bookOperations } from './books.ts';
import { doctorOperations } from './doctor.ts';
import { eventOperations } from './events.ts';
import { exportOperations } from './exports.ts';
import { holdOperations } from './holds.ts';
import { inboundOperations } from './inbound.ts';
import { messageOperations } from './messages.ts';
import type { Operation, OperatorDeps, StoreDeps } from './operation.ts';
import { queueOperations } from './queue.ts';
import { reclassifyOperations } from './reclassify.ts';
import { reputationMomentOperations } from './reputation-moments.ts';
import { reputationOperations } from './reputation.ts';
import { resendOperations } from './resend.ts';
import { resolveOperations } from './resolve.ts';
import { serverStateOperations } from './server-state.ts';
import { savedViewOperations } from './saved-views.ts';
import { sourceOperations } from './sources.ts';
import { suppressionOperations } from './suppressions.ts';
import { notRunning, Unavailable } from './unavailable.ts';
import { watchOperations } from './watch.ts';

export type { OperatorDeps, StoreDeps } from './operation.ts';

const table = {
  ...accountOperations,
  ...auditOperations,
  ...messageOperations,
  ...queueOperations,
  ...holdOperations,
  ...sourceOperations,
  ...watchOperations,
  ...resolveOperations,
  ...eventOperations,
  ...exportOperations,
  ...savedViewOperations,
  ...bookOperations,
  ...backupOperations,
  ...serverStateOperations,
  ...inboundOperations,
  ...reputationOperations,
  ...reputationMomentOperations,
  ...suppressionOperations,
  ...reclassifyOperations,
  ...resendOperations,
  ...adminOperations,
  ...doctorOperations,
};

export type OperationName = keyof typeof table;
/** The arguments before their schema is applied. */
export type ArgsOf<Name extends OperationName> = (typeof table)[Name] extends Operation<infer Args> ? Args : never;
export type ResultOf<Name extends OperationName> = Awaited<ReturnType<(typeof table)[Name]['run']>>;

/** Returns the operation with this name, or null. */
export function operationNamed(name: string): Operation | null {
  const operations: Readonly<Record<string, Operation>> = table;
  return Object.hasOwn(operations, name) ? (operations[name] ?? null) : null;
}

/** The caller of an operation. */
export interface By {
  acting: Acting;
  /** For a member who is not an administrator: the only account that they may reach. */
  onlyAccount?: string;
}

/**
 * Performs an operation with arguments from outside: one of this table, else one of the API. Throws a `Problem` for the caller's
 * mistakes, `Unavailable` if it needs the running server and `deps` are not the server's.
 */
export async function perform(
  deps: StoreDeps | OperatorDeps,
  name: string,
  given: unknown,
  { acting, onlyAccount }: By = { acting: commandLine },
): Promise<unknown> {
  const operation = operationNamed(name);
  if (operation === null) return await askAsOperator(deps, name, given, acting.user_agent);
  if (onlyAccount !== undefined && operation.who !== 'member')
    throw new Problem('insufficient_scope', 'Only administrators may do this.');
  const act = beginAct({ commit: deps.db.commit, clock: deps.clock }, { name, words: operation.act }, acting);
  const args = onlyAccount === undefined ? given : { ...(given as object), account: onlyAccount };
  if (operation.act === null) return await run(deps, operation, args, act);
  try {
    const result = await run(deps, operation, args, act);
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
  given: unknown,
  act: RunningAct,
): Promise<unknown> {
  const args = check(operation.args, given);
  if (operation.needs === 'store') return await operation.run(deps, args, act);
  if (!('mta' in deps)) throw notRunning();
  return await operation.run(deps, args, act);
}
