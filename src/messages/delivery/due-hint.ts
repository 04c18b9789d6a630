/** Where the engine finds what has just become due. */
import type { OwnMailRows } from '../accept/own-mail.ts';

/** Deliveries of one domain, class and account that have just become due: a hint where to look. */
export interface DueHint {
  domain: string;
  class: number;
  accountId: string;
  dueAt: number;
}

/** Where to look for what these rows add. */
export const hintsOf = ({ deliveries }: OwnMailRows): DueHint[] =>
  deliveries.map(({ domain, class: order, account_id: accountId, due_at: dueAt }) => ({
    domain,
    class: order,
    accountId,
    dueAt: dueAt ?? 0,
  }));
