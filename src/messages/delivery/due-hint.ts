/** Hints that tell the engine where deliveries have become due. */
import type { OwnMailRows } from '../accept/own-mail.ts';
import type { DeliveryRow } from '../../storage/tables.ts';
import type { DeliveryState } from './delivery.ts';

/**
 * Tells that deliveries of one group (domain, class, account) have a new due time, as their rows have it. There is one for each due time:
 * the engine looks for rows only from the earliest it was told, and for later ones only when the next it was told has come.
 */
export interface DueHint {
  domain: string;
  class: number;
  accountId: string;
  dueAt: number;
  /** The only one that it is about. */
  deliveryId?: string;
}

type Grouped = Pick<DeliveryRow, 'domain' | 'class' | 'account_id'>;

interface Changed {
  readonly applied: boolean;
  readonly state: Pick<DeliveryState, 'dueAt'> | null;
}

/** Adds the hint for a delivery, unless there is the same. */
export function addHint(
  hints: Map<string, DueHint>,
  { domain, class: order, account_id }: Grouped,
  dueAt: number,
): void {
  hints.set(`${domain} ${String(order)} ${account_id} ${String(dueAt)}`, {
    domain,
    class: order,
    accountId: account_id,
    dueAt,
  });
}

/** Returns the hints for the deliveries that a change made due. `recorded` has their results in the same order. */
export function hintsOfChanged(rows: readonly Grouped[], recorded: readonly Changed[]): DueHint[] {
  const hints = new Map<string, DueHint>();
  for (const [at, row] of rows.entries()) {
    const { applied = false, state = null } = recorded[at] ?? {};
    if (applied && state !== null && state.dueAt !== null) addHint(hints, row, state.dueAt);
  }
  return [...hints.values()];
}

export const hintsOf = ({ deliveries }: OwnMailRows): DueHint[] =>
  deliveries.map(({ domain, class: order, account_id: accountId, due_at: dueAt }) => ({
    domain,
    class: order,
    accountId,
    dueAt: dueAt ?? 0,
  }));
