/**
 * The layers of the control socket in the place of those for keys: the caller is the operator, whom the file rights of the socket have let
 * in, and operations are called as from within the process (inside.ts).
 */
import type { Problem } from '../../base/problem.ts';
import type { Caller } from '../../keys/caller.ts';
import type { Inside } from '../inside.ts';
import type { Exchange } from '../exchange.ts';
import type { Middleware, Stop } from '../request-state.ts';
import type { Reply, Route } from '../route.ts';
import { Answers, callWatch } from './run.ts';

/** The parts that make a server of the API one for the operator. */
export interface OperatorDoor {
  inside: Inside;
  /** Finds the operator as the caller of an operation. Throws `not_found` for an account that does not exist. */
  callerOf: (exchange: Pick<Exchange, 'header' | 'params'>, route: Route) => Promise<Caller>;
  /** Returns the person at the command line, for the audit. */
  agentOf: (exchange: Pick<Exchange, 'header'>) => string | null;
  /** Resolves when an act can begin. Throws `Problem` if the database does not answer. */
  ready: () => Promise<void>;
  /** Returns the problem that an error is answered as; one that is not the caller's mistake is logged. */
  problemOf: (operation: string | null, error: unknown) => Problem;
}

/** Names the operator as the caller. */
export const admitOperator =
  ({ callerOf }: Pick<OperatorDoor, 'callerOf'>): Middleware =>
  async (ctx, next) => {
    const { exchange } = ctx.state;
    if (exchange.route !== null) {
      const caller = await callerOf(exchange, exchange.route);
      exchange.key = { kind: 'known', caller, standing: 'good', isAddressAllowed: true };
    }
    await next();
  };

/** Calls the operation. */
export const operate =
  (stop: Stop, { inside, agentOf, ready }: OperatorDoor): Middleware =>
  async (ctx) => {
    const { exchange } = ctx.state;
    const { route, key, params, search, body: read, header } = exchange;
    if (route === null || key.kind !== 'known') throw new Error('a request without a route was let through');
    if (route.act !== undefined) await ready();
    const reply = await inside.ask(
      { caller: key.caller, ip: null, userAgent: agentOf(exchange), whenOver: callWatch(stop, ctx) },
      route.operationId,
      {
        params,
        query: new URLSearchParams(search),
        body: read?.value ?? {},
        read,
        accept: header('accept') ?? 'application/json',
      },
    );
    exchange.answer = await new Answers().gently(withRecord(reply));
  };

/** Answers the removed object, which commands show, in the place of nothing. */
const withRecord = (reply: Reply): Reply =>
  'body' in reply && reply.body === null && reply.before !== undefined ? { status: 200, body: reply.before } : reply;
