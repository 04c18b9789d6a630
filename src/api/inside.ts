/** Calls operations for the dashboard, the control socket and commands: checked and audited as with a key, no rate limits or idempotency. */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/unavailable.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { rightsOf } from '../keys/roles.ts';
import { scopeNames } from '../keys/scopes.ts';
import { beginAct, type Acting, type RunningAct } from '../operations/act.ts';
import type { Committer } from '../storage/commit.ts';
import type { AccountRow, MemberRow } from '../storage/tables.ts';
import { deedOf } from './audit.ts';
import type { JsonObject } from './json.ts';
import type { JsonBody } from './json-reader.ts';
import { refuseScope } from './middleware/admit.ts';
import { pathWith, type Incoming, type Reply, type Route } from './route.ts';
export interface Asked {
  params?: Readonly<Record<string, string>>;
  /** Empty values are left out: an empty field of a form sets no filter. */
  query?: Readonly<Record<string, string | null | undefined>> | URLSearchParams;
  body?: object;
  /** Media type that is wanted instead of JSON. */
  accept?: string;
  headers?: Readonly<Record<string, string>>;
  /** The body as it was read from the wire. */
  read?: JsonBody | null;
}
export interface Asking {
  caller: Caller;
  ip?: string | null;
  userAgent?: string | null;
  /** As of a call; without it the caller stays until it is answered. */
  whenOver?: Incoming['whenOver'];
}

export type Inside = ReturnType<typeof createInside>;

export function createInside(deps: { clock: Clock; commit: Committer }, routes: readonly Route[]) {
  const byId = new Map<string, Route>(routes.map((route) => [route.operationId, route]));
  return {
    /** Throws the operation's Problem. */
    async ask(asking: Asking, operationId: string, asked: Asked): Promise<Reply> {
      const route = byId.get(operationId);
      if (route === undefined) throw new Error(`there is no operation ${operationId}`);
      const act = begin(deps, route, asking, asked.params);
      const told = (reply?: Reply): void => {
        // An operation of the server tells itself what it is done to.
        if (route.scope !== 'server') act.on(deedOf(asked.params ?? {}, reply, asked.body));
      };
      try {
        refuseScope(route, asking.caller, (asked.body ?? {}) as JsonObject);
        const reply = await route.run(incoming(deps, { route, asking, asked, act }));
        if (route.act !== undefined) {
          told(reply);
          await act.done(reply.status);
        }
        return reply;
      } catch (error) {
        // A read that found nothing is not audited.
        if (route.act !== undefined && !(error instanceof Unavailable)) {
          told();
          await act.failed(error);
        }
        throw error;
      }
    },
  };
}

function begin(
  deps: { clock: Clock; commit: Committer },
  { operationId, method, path, act, scope }: Route,
  { caller, ip = null, userAgent = null }: Asking,
  params: Asked['params'] = {},
): RunningAct {
  const isOperator = caller.isOperator === true;
  const isOfServer = scope === 'server';
  const acting: Acting = {
    actor: actorOf(caller),
    ip,
    method: isOperator ? 'CLI' : isOfServer ? 'DASHBOARD' : method,
    user_agent: userAgent,
    key_id: isOperator || caller.member !== undefined ? null : caller.keyId,
  };
  const operation = { name: operationId, words: act ?? null };
  if (isOfServer) return beginAct(deps, operation, acting);
  const asked = act?.named === null || !path.includes('{') ? null : pathWith(path, params);
  const begun = beginAct(deps, { ...operation, endpoint: path, path: asked }, acting);
  begun.concerns(caller.accountId);
  return begun;
}

interface InsideCall {
  route: Route;
  asking: Asking;
  asked: Asked;
  act: RunningAct;
}

function incoming({ clock }: { clock: Clock }, { route, asking, asked, act }: InsideCall): Incoming {
  const { headers = {}, accept = 'application/json', params = {}, read } = asked;
  const { whenOver = () => undefined } = asking;
  return {
    params,
    search: searchOf(asked.query),
    json: { ...asked.body, ...restrictions(route, asking.caller) },
    form: '',
    checked: read?.checked ?? null,
    bodyBytes: 0,
    act,
    caller: asking.caller,
    requestId: act.requestId,
    now: clock.now(),
    ip: asking.ip ?? '',
    method: route.method,
    header: (name) => (name === 'accept' ? accept : headers[name]),
    idempotencyRow: () => null,
    auditRow(reply) {
      act.on(deedOf(params, reply));
      return act.row(reply.status);
    },
    isStopping: () => false,
    whenOver,
    // A member's session stands for a key.
    whenKeyEnds: whenOver,
  };
}

/** Returns the input of an operation of the server that a member who is not an administrator cannot choose. */
const restrictions = ({ scope, members }: Route, { hasServer, accountId }: Caller): object =>
  scope === 'server' && hasServer !== true ? { ...members?.body, account: accountId } : {};

type Account = Pick<AccountRow, 'id' | 'plan' | 'paused'>;

/** A member of the dashboard in an account, with the scopes of their role. */
export const memberCaller = (
  { id, email, role }: Pick<MemberRow, 'id' | 'email' | 'role'>,
  account: Account,
): Caller => ({
  ...unlimited(account),
  scopes: rightsOf(role).scopes,
  hasServer: rightsOf(role).hasServer,
  keyId: id,
  keyName: email,
  member: email,
});

/** The operator on the command line, in an account; in none for an operation of the server. */
export const operatorCaller = (account: Account = { id: '', plan: '', paused: 0 }): Caller => ({
  ...unlimited(account),
  keyId: '',
  keyName: 'operator',
  isOperator: true,
  hasServer: true,
});

const unlimited = ({ id, plan, paused }: Account): Omit<Caller, 'keyId' | 'keyName'> => ({
  accountId: id,
  mode: 'live',
  scopes: scopeNames,
  domains: [],
  allowedIps: [],
  plan,
  paused: paused === 1,
  expiresAt: null,
  revokedAt: null,
});

function searchOf(query: Asked['query'] = {}): string {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const search = new URLSearchParams();
  for (const [name, value] of pairs) if (value != null && value !== '') search.append(name, value);
  return search.toString();
}

/** Returns the JSON of a reply, its bytes or its stream; of one without a body, the record of the removed object. */
export function contentOf(reply: Reply): unknown {
  if ('stream' in reply) return reply.stream;
  return 'bytes' in reply ? reply.bytes : (reply.body ?? reply.before ?? null);
}
