/** Checks the scopes and the mode of the key. It comes after the body, because the scope of a send depends on its form. */
import { Problem } from '../../base/problem.ts';
import { scopeAllows } from '../../keys/scopes.ts';
import type { Scope } from '../../keys/scopes.ts';
import type { Exchange } from '../exchange.ts';
import type { Route } from '../route.ts';
import type { Middleware } from '../request-state.ts';
import { refuseInTestMode } from '../test-mode.ts';

export const scope: Middleware = async (ctx, next) => {
  const { exchange } = ctx.state;
  const { route, key } = exchange;
  if (route?.scope && key.kind === 'known') {
    refuseScope(neededScopes(route, exchange), key.caller.scopes);
    refuseInTestMode(route, key.caller);
  }
  await next();
};

function neededScopes(route: Route, { body }: Exchange): readonly Scope[] {
  return route.scopeFor === undefined ? (route.scope ?? []) : [route.scopeFor(body?.value ?? {})];
}

function refuseScope(needed: readonly Scope[], granted: readonly string[]): void {
  if (needed.some((one) => scopeAllows(granted, one))) return;
  throw new Problem(
    'insufficient_scope',
    `This needs a key with the scope ${needed.map((one) => `\`${one}\``).join(' or ')}.`,
    {
      headers: { 'WWW-Authenticate': `Bearer realm="api", error="insufficient_scope", scope="${needed.join(' ')}"` },
    },
  );
}
