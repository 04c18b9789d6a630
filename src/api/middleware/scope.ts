/**
 * Checks the scopes and the mode of the key. It comes after the body, because the scope of a send depends on its form. Calls of
 * members from the dashboard have the same check of scopes (api/inside.ts).
 */
import { Problem } from '../../base/problem.ts';
import { scopeAllows, scopeChallenge } from '../../keys/scopes.ts';
import type { Scope } from '../../keys/scopes.ts';
import type { Caller } from '../../keys/caller.ts';
import { refusedByRole } from '../../keys/roles.ts';
import type { JsonObject } from '../json.ts';
import type { Route } from '../route.ts';
import type { Middleware } from '../request-state.ts';
import { refuseInTestMode } from '../test-mode.ts';

export const scope: Middleware = async (ctx, next) => {
  const { exchange } = ctx.state;
  const { route, key } = exchange;
  if (route?.scope && key.kind === 'known') {
    refuseScope(route, key.caller, exchange.body?.value ?? {});
    refuseInTestMode(route, key.caller);
  }
  await next();
};

/** Returns the scopes that open a route to those who have one of them; null if it is for those who have the server. */
function neededScopes({ scope: declared, scopeFor, members }: Route, body: JsonObject): readonly Scope[] | null {
  if (declared === 'server') return members === undefined ? null : [members.scope];
  return scopeFor === undefined ? (declared ?? []) : [scopeFor(body)];
}

/** Throws `insufficient_scope` if the caller has none of the scopes that the operation needs. */
export function refuseScope(
  route: Route,
  { scopes, member, hasServer = false }: Pick<Caller, 'scopes' | 'member' | 'hasServer'>,
  body: JsonObject,
): void {
  if (route.scope === null || (route.scope === 'server' && hasServer)) return;
  const needed = neededScopes(route, body);
  const isOpen = needed?.some((one) => scopeAllows(scopes, one)) === true;
  // A key never opens an operation of the server.
  if (isOpen && (route.scope !== 'server' || member !== undefined)) return;
  if (member !== undefined || needed === null) throw refusedByRole(needed);
  throw new Problem(
    'insufficient_scope',
    `This needs a key with the scope ${needed.map((one) => `\`${one}\``).join(' or ')}.`,
    {
      headers: scopeChallenge(...needed),
    },
  );
}
