/** Makes the visit that a page gets: the visitor, or a member with the account that is looked at. */
import { clientAddress } from '../api/client-address.ts';
import { overWatch } from '../api/over-watch.ts';
import { Problem } from '../base/problem.ts';
import { accountsOf } from '../members/member-store.ts';
import { actorOf } from '../keys/caller.ts';
import { renewSession, findSession } from '../members/session-store.ts';
import { rightsOf } from '../keys/roles.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { readCookie, setCookie } from './cookies.ts';
import { noSuchPage, type Context, type DashboardContext } from './context.ts';
import { contentOf, memberCaller, type Asking } from '../api/inside.ts';
import type { Guest, Visit } from './page.ts';
import { zoneNamed } from '../base/zones.ts';
import type { Timer } from '../base/clock.ts';
import type { AccountRow, MemberRow } from '../storage/tables.ts';
import type { DashboardDeps } from './deps.ts';

export function guestOf({ deps, trusted }: DashboardContext, ctx: Context): Guest {
  const { params, form: fields, session, sessionToken } = ctx.state;
  const forwarded = ctx.get('x-forwarded-for');
  return {
    params,
    query: new URLSearchParams(ctx.querystring),
    form: fields,
    ip: clientAddress(ctx.req.socket.remoteAddress, forwarded === '' ? undefined : forwarded, trusted),
    userAgent: ctx.get('user-agent').slice(0, 512) || null,
    header: (name) => ctx.get(name) || undefined,
    now: deps.clock.now(),
    zone: zoneNamed(readCookie(ctx, 'zone')) ?? 'UTC',
    sessionToken,
    device: readCookie(ctx, 'device'),
    halfway: session?.row.stage === 'code' ? session : null,
  };
}

export async function visitOf(dashboard: DashboardContext, ctx: Context, guest: Guest): Promise<Visit> {
  const { deps, inside } = dashboard;
  const { session } = ctx.state;
  if (session === null) throw noSuchPage();
  const { member, row } = session;
  const accounts = await accountsOf(deps, member);
  const account = accounts.find(({ id }) => id === row.account_id) ?? accounts[0];
  if (account === undefined)
    throw new Problem('not_found', 'You are not a member of any account yet. Ask an administrator.');
  const asking: Asking = {
    caller: memberCaller(member, account),
    ip: guest.ip,
    userAgent: guest.userAgent,
    whenOver: overWatch(
      () => ctx.res.destroyed,
      (end) => {
        dashboard.endings.add(end);
        ctx.res.once('close', end);
        const unwatch = watchSession(deps, { token: ctx.state.sessionToken, member, account }, end);
        return () => {
          dashboard.endings.delete(end);
          ctx.res.off('close', end);
          unwatch();
        };
      },
    ),
  };
  const { hasServer, scopes } = rightsOf(member.role);
  return {
    ...guest,
    member,
    session: row,
    account,
    accounts,
    renewSession: async () => setCookie(ctx, 'session', await renewSession(deps, row.id)),
    actor: actorOf(asking.caller),
    isAdmin: hasServer,
    may: (scope) => scopeAllows(scopes, scope),
    // The type of the answer is made from the same declaration as its check.
    ask: async (id: string, asked = {}) => contentOf(await inside.ask(asking, id, asked)) as never,
  };
}

/**
 * Ends answers that stay open, such as live tails, when their member may not see them any more: the session has ended, or the member has
 * another role or has lost the account. The page reconnects by itself, so that a member who still may goes on at once.
 */

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
function watchSession(deps: Deps, watched: Watched, over: () => void): () => void {
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
