/**
 * Ends answers that stay open, such as live tails, when their member may not see them any more: the session has ended, or the member has
 * another role or has lost the account. The page reconnects by itself, so that a member who still may goes on at once.
 */
import type { Timer } from '../base/clock.ts';
import { accountsOf } from '../members/member-store.ts';
import { findSession } from '../members/session-store.ts';
import type { AccountRow, MemberRow } from '../storage/tables.ts';
import type { DashboardDeps } from './deps.ts';

/** The time between two looks, each of which is a few lookups by key. */
const LOOK_MS = 10_000;

type Deps = Pick<DashboardDeps, 'db' | 'clock'>;

/** The member of an answer, and the account that it is about. */
interface Watched {
  token: string;
  member: Pick<MemberRow, 'role'>;
  account: Pick<AccountRow, 'id'>;
}

/** Calls `over` once when the member may not see the answer any more. The returned function ends the watch. */
export function watchSession(deps: Deps, watched: Watched, over: () => void): () => void {
  let hasEnded = false;
  let timer: Timer = wait();

  function wait(): Timer {
    return deps.clock.after(LOOK_MS, () => void look(), { background: true });
  }

  async function look(): Promise<void> {
    // A session that cannot be looked up now is not trusted further.
    const isGood = await isAsBefore(deps, watched).catch(() => false);
    if (hasEnded) return;
    if (isGood) timer = wait();
    else over();
  }

  return () => {
    hasEnded = true;
    timer.cancel();
  };
}

async function isAsBefore(deps: Deps, { token, member, account }: Watched): Promise<boolean> {
  const found = await findSession(deps, token, { isPoll: true });
  if (found?.row.stage !== 'open' || found.member.role !== member.role) return false;
  return (await accountsOf(deps, found.member)).some(({ id }) => id === account.id);
}
