/** Makes the visit that a page gets: the visitor, or a member with the account that is looked at. */
import { clientAddress } from '../api/client-address.ts';
import { overWatch } from '../api/exchange.ts';
import { Problem } from '../base/problem.ts';
import { accountsOf } from '../members/member-store.ts';
import { actorOf } from '../keys/caller.ts';
import { renewSession } from '../members/session-store.ts';
import { rightsOf } from '../keys/roles.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { noSuchPage, readCookie, setCookie, type Context } from './context.ts';
import { contentOf, memberCaller, type Asking } from '../api/inside.ts';
import type { Guest, Visit } from './page.ts';
import { zoneNamed } from '../base/zones.ts';

export function guestOf(ctx: Context): Guest {
  const { server } = ctx;
  const { params, form: fields, session, sessionToken } = ctx.state;
  const forwarded = ctx.get('x-forwarded-for');
  return {
    server,
    params,
    query: new URLSearchParams(ctx.querystring),
    form: fields,
    ip: clientAddress(ctx.req.socket.remoteAddress, forwarded === '' ? undefined : forwarded, server.trusted),
    userAgent: ctx.get('user-agent').slice(0, 512) || null,
    isPoll: ctx.get('x-poll') !== '',
    now: server.clock.now(),
    zone: zoneNamed(readCookie(ctx, 'zone')) ?? 'UTC',
    sessionToken,
    device: readCookie(ctx, 'device'),
    halfway: session?.row.stage === 'code' ? session : null,
  };
}

export async function visitOf(ctx: Context): Promise<Visit> {
  const guest = guestOf(ctx);
  const { server } = guest;
  const { session } = ctx.state;
  if (session === null) throw noSuchPage();
  const { member, row } = session;
  const accounts = await accountsOf(server, member);
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
        server.endings.add(end);
        ctx.res.once('close', end);
        return () => {
          server.endings.delete(end);
          ctx.res.off('close', end);
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
    renewSession: async () => setCookie(ctx, 'session', await renewSession(server, row.id)),
    actor: actorOf(asking.caller),
    isAdmin: hasServer,
    may: (scope) => scopeAllows(scopes, scope),
    // The type of the answer is made from the same declaration as its check.
    ask: async (id: string, asked = {}) => contentOf(await server.inside.ask(asking, id, asked)) as never,
  };
}
