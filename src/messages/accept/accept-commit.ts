/** Makes an acceptance durable: checks quota and disk, commits one transaction, then notifies the engine. */
import type { SettleQuota } from '../../accounts/quota.ts';
import type { Notifier } from '../../scheduling/notifier.ts';
import type { Gate } from '../../scheduling/gate.ts';
import { Problem } from '../../base/problem.ts';
import { isStorageTrouble, type Committer } from '../../storage/commit.ts';
import type { Rows, RowsToWrite } from '../../storage/rows.ts';
import type { Plan } from './accept-rows.ts';
import { hintsOf, type DueHint } from '../delivery/due-hint.ts';
import type { Sender } from './may-send.ts';
import type { OwnMailRows } from './own-mail.ts';

export interface AcceptCommitDeps {
  commit: Committer;
  notifiers: { deliveries: Notifier<readonly DueHint[]>; events: Notifier };
  /** Takes this number of mails from the plan's quota; the returned function is told whether they were accepted. Throws `quota_exceeded`. */
  takeQuota?: (accountId: string, plan: string, mails: number) => Promise<SettleQuota>;
  /** False while the disk is too full for new mail. */
  hasRoom(): boolean;
  /** Limits how many acceptances are written at once. */
  intake?: Gate;
}

export async function commitPlan(
  deps: AcceptCommitDeps,
  sender: Sender,
  plan: Plan,
  alsoInTransaction: Rows,
  notice: OwnMailRows | null = null,
): Promise<void> {
  const { rows, packed, counters, stats, hints, bytes } = plan;
  const own: RowsToWrite = {
    ...rows,
    ...Object.fromEntries(packed),
    counters: [...counters.values()],
    event_counts: [...stats.values()],
  };
  if (Object.keys(alsoInTransaction).some((table) => table in own))
    throw new Error('the further rows contain a table of the message itself');
  const settleQuota = await takeQuota(deps, sender, plan.charged);
  try {
    await store(deps, { ...withNotice(own, notice), ...alsoInTransaction }, bytes);
  } catch (error) {
    settleQuota(false);
    throw error;
  }
  settleQuota(true);
  deps.notifiers.deliveries.notify([...hints.values(), ...(notice === null ? [] : hintsOf(notice))]);
  if (rows.events.length > 0 || packed.has('events')) deps.notifiers.events.notify();
}

const withNotice = (own: RowsToWrite, notice: OwnMailRows | null): RowsToWrite =>
  notice === null
    ? own
    : {
        ...own,
        contents: [...(own.contents ?? []), ...notice.contents],
        messages: [...(own.messages ?? []), ...notice.messages],
        deliveries: [...(own.deliveries ?? []), ...notice.deliveries],
        counters: [...(own.counters ?? []), ...notice.counters],
      };

const noop = (): void => undefined;

function takeQuota(
  { takeQuota: take }: AcceptCommitDeps,
  { accountId, plan }: Sender,
  charged: number,
): Promise<SettleQuota> | SettleQuota {
  // Mail that does not count is accepted also if the quota is used up.
  if (take === undefined || plan === undefined || charged === 0) return noop;
  return take(accountId, plan, charged);
}

/** `Retry-After` in seconds when the disk or the database does not accept mail. */
const RETRY_AFTER_S = 10;
/** `Retry-After` in seconds when too many requests came at once. */
const OVERLOAD_RETRY_AFTER_S = 1;

async function store(deps: AcceptCommitDeps, rows: RowsToWrite, bytes: number): Promise<void> {
  if (!deps.hasRoom())
    throw new Problem('service_unavailable', 'The disk is too full for new mail. Try again later.', {
      retryAfter: RETRY_AFTER_S,
    });
  // Without a limit, acceptances would take time of the writer and the event loop from deliveries.
  const leave = await deps.intake?.enter();
  if (leave === null)
    throw new Problem('service_unavailable', 'Too many requests came at once. Try again.', {
      retryAfter: OVERLOAD_RETRY_AFTER_S,
    });
  try {
    await deps.commit.insert(rows, bytes);
  } catch (error) {
    if (!isStorageTrouble(error)) throw error;
    throw new Problem('service_unavailable', 'The message could not be stored now. Try again.', {
      retryAfter: RETRY_AFTER_S,
      cause: error,
    });
  } finally {
    leave?.();
  }
}
