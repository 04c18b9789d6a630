/** The table of operations. `perform` finds one, checks its arguments, runs it and writes the audit line. */
import { isReading } from '../api/route.ts';
import { check } from '../base/check.ts';
import { refusedByRole } from '../keys/roles.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { accountOperations } from './accounts.ts';
import { auditOperations } from './audit.ts';
import { beginAct, commandLine, type Acting, type RunningAct } from '../operations/act.ts';
import { askAsOperator } from './ask.ts';
import { adminOperations } from './admin.ts';
import { backupOperations } from './backups.ts';
import { bookOperations } from './books.ts';
import { commandActOperations } from './command-acts.ts';
import { doctorOperations } from './doctor.ts';
import { eventOperations } from './events.ts';
import { holdOperations } from './holds.ts';
import { inboundOperations } from './inbound.ts';
import { messageOperations } from './messages.ts';
import type { Operation, OperatorDeps, StoreDeps } from './operation.ts';
import { nodeOperations } from './nodes.ts';
import { needOperations } from './needs/needs-facts.ts';
import { queueOperations } from './queue.ts';
import { reclassifyOperations } from './reclassify.ts';
import { reputationMomentOperations } from './reputation-moments.ts';
import { reputationOperations } from './reputation.ts';
import { resolveOperations } from './resolve.ts';
import { serverStateOperations } from './server-state.ts';
import { sourceOperations } from './sources.ts';
import { suppressionOperations } from './suppressions.ts';
import { notRunning, Unavailable } from './unavailable.ts';
import { teamOperations } from './team.ts';
import { watchOperations } from './watch.ts';

export type { OperatorDeps, StoreDeps } from './operation.ts';

const table = {
  ...accountOperations,
  ...auditOperations,
  ...commandActOperations,
  ...messageOperations,
  ...queueOperations,
  ...needOperations,
  ...nodeOperations,
  ...holdOperations,
  ...sourceOperations,
  ...watchOperations,
  ...resolveOperations,
  ...eventOperations,
  ...bookOperations,
  ...backupOperations,
  ...serverStateOperations,
  ...inboundOperations,
  ...reputationOperations,
  ...reputationMomentOperations,
  ...suppressionOperations,
  ...reclassifyOperations,
  ...adminOperations,
  ...teamOperations,
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

/** Returns whether an operation of this table or of the API changes something. */
export function isAct(name: string): boolean {
  const operation = operationNamed(name);
  return operation === null ? !isReading(name) : operation.act !== null;
}

/** The caller of an operation. */
export interface By {
  acting: Acting;
  /** For a member who is not an administrator: the only account that they may reach, and what they may do there. */
  within?: { account: string; scopes: readonly string[] };
}

/**
 * Performs an operation with arguments from outside: one of this table, else, for the operator, one of the API. Throws a `Problem` for the caller's
 * mistakes, `Unavailable` if it needs the running server and `deps` are not the server's.
 */
export async function perform(
  deps: StoreDeps | OperatorDeps,
  name: string,
  given: unknown,
  { acting, within }: By = { acting: commandLine },
): Promise<unknown> {
  const operation = operationNamed(name);
  // The operator's way into the API asks for no right, so a member whose role has no server must not get there.
  if (operation === null && within !== undefined) throw refusedByRole(null);
  if (operation === null) return await askAsOperator(deps, name, given, acting.user_agent);
  const act = beginAct({ commit: deps.db.commit, clock: deps.clock }, { name, words: operation.act }, acting);
  const args =
    within === undefined ? given : { ...(given as object), ...(operation.forMembers ?? {}), account: within.account };
  try {
    refuseRole(operation, within);
    const checked = check(operation.args, args);
    const result = await run(deps, operation, checked, act);
    if (operation.act !== null) await act.done();
    return result;
  } catch (error) {
    if (operation.act !== null && !(error instanceof Unavailable)) await act.failed(error);
    throw error;
  }
}

function refuseRole({ scope }: Operation, within: By['within']): void {
  if (within === undefined || (scope !== undefined && scopeAllows(within.scopes, scope))) return;
  throw refusedByRole(scope === undefined ? null : [scope]);
}

async function run(
  deps: StoreDeps | OperatorDeps,
  operation: Operation,
  args: unknown,
  act: RunningAct,
): Promise<unknown> {
  if (operation.needs === 'store') return await operation.run(deps, args, act);
  if (!('mta' in deps)) throw notRunning();
  return await operation.run(deps, args, act);
}
