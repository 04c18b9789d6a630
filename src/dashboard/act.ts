/** The audit line of what somebody did to the house itself: signing in, the team, one's own login. */
import { beginAct, type Acting } from '../operator/act.ts';
import type { Rows } from '../storage/rows.ts';
import type { DashboardDeps } from './deps.ts';

export interface Actor {
  email: string;
  ip: string;
  userAgent: string | null;
}

export const actingAs = ({ email, ip, userAgent }: Actor): Acting => ({
  actor: `member:${email}`,
  ip,
  method: 'DASHBOARD',
  user_agent: userAgent,
});

/** The line, to be written with the act's own rows. `accountId`: in whose list of actions it stands. */
export function actRows(
  { db, clock }: Pick<DashboardDeps, 'db' | 'clock'>,
  actor: Actor,
  endpoint: string,
  accountId: string | null,
): Rows {
  const act = beginAct({ commit: db.commit, clock }, endpoint, actingAs(actor));
  if (accountId !== null) act.concerns(accountId);
  return act.rows();
}
