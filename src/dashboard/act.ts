/** Audit rows of what people do in the dashboard alone: signing in, their own login. */
import { beginAct, type Acting } from '../operations/act.ts';
import type { ActWords, Deed } from '../operations/audit-row.ts';
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

/** The acts that members do in the dashboard alone, with the words of their audit rows. */
const acts = {
  'sign-in': { says: 'signed in', type: 'member' },
  'sign-out': { says: 'signed out', type: 'member' },
  'account.choose': { says: 'chose to look at the account {object}', type: 'account', named: 'name' },
  'message.share': { says: 'made a link to the message {object} for a person without a login', type: 'message' },
  'profile.session.end': { says: 'ended another of their own sessions', type: 'member' },
  'profile.password': { says: 'changed their own password', type: 'member' },
  'profile.second-factor.on': { says: 'switched their second factor on', type: 'member' },
  'profile.second-factor.off': { says: 'switched their second factor off', type: 'member' },
  'profile.recovery-codes': { says: 'made new recovery codes', type: 'member' },
} as const satisfies Readonly<Record<string, ActWords>>;

export type DashboardAct = keyof typeof acts;

/** Returns the audit row, to be written with the act's own rows. `accountId`: the account in whose list of actions it is shown. */
export function actRows(
  { db, clock }: Pick<DashboardDeps, 'db' | 'clock'>,
  actor: Actor,
  name: DashboardAct,
  accountId: string | null,
  deed: Deed = { object: actor.email },
): Rows {
  const act = beginAct({ commit: db.commit, clock }, { name, words: acts[name] }, actingAs(actor));
  if (accountId !== null) act.concerns(accountId);
  act.on(deed);
  return act.rows();
}
