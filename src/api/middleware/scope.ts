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

function neededScopes(route: Route, body: JsonObject): readonly Scope[] {
  return route.scopeFor === undefined ? (route.scope ?? []) : [route.scopeFor(body)];
}

/** Throws `insufficient_scope` if the caller has none of the scopes that the operation needs. */
export function refuseScope(
  route: Route,
  { scopes, member }: Pick<Caller, 'scopes' | 'member'>,
  body: JsonObject,
): void {
  if (route.scope === null) return;
  const needed = neededScopes(route, body);
  if (needed.some((one) => scopeAllows(scopes, one))) return;
  if (member !== undefined) throw refusedByRole(needed);
  throw new Problem(
    'insufficient_scope',
    `This needs a key with the scope ${needed.map((one) => `\`${one}\``).join(' or ')}.`,
    {
      headers: scopeChallenge(...needed),
    },
  );
}
