/** Audit rows of what people do in the dashboard alone: signing in, their own login. */
import { beginAct } from '../operations/act.ts';
import type { ActWords, Deed } from '../operations/audit-row.ts';
import type { Rows } from '../storage/rows.ts';
import type { Guest } from './page.ts';

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

/** Returns the audit row, to be written with the act's own rows. `accountId`: the account in whose list of actions it is shown. */
export function actRows(
  { server: { db, clock }, ip, userAgent }: Pick<Guest, 'server' | 'ip' | 'userAgent'>,
  email: string,
  name: keyof typeof acts,
  accountId: string | null,
  deed: Deed = { object: email },
): Rows {
  const acting = { actor: `member:${email}`, ip, method: 'DASHBOARD', user_agent: userAgent };
  const act = beginAct({ commit: db.commit, clock }, { name, words: acts[name] }, acting);
  if (accountId !== null) act.concerns(accountId);
  act.on(deed);
  return act.rows();
}
