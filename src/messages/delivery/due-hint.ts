/** Hints that tell the engine where deliveries have become due. */
import type { OwnMailRows } from '../accept/own-mail.ts';

/** Names one group of deliveries (domain, class, account) in which some have just become due. */
export interface DueHint {
  domain: string;
  class: number;
  accountId: string;
  dueAt: number;
}

/** Returns the hints for the deliveries among these rows. */
export const hintsOf = ({ deliveries }: OwnMailRows): DueHint[] =>
  deliveries.map(({ domain, class: order, account_id: accountId, due_at: dueAt }) => ({
    domain,
    class: order,
    accountId,
    dueAt: dueAt ?? 0,
  }));
