/**
 * Calls operations of the API from within the process: a page of the dashboard and a command name one by its operation id, and
 * get the same checks of fields, the same answers and the same audit rows as a caller with a key. Rate limits, idempotency and
 * compression do not apply.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { rightsOf } from '../keys/roles.ts';
import { scopeNames } from '../keys/scopes.ts';
import { beginAct, type Acting, type RunningAct } from '../operations/act.ts';
import type { Committer } from '../storage/commit.ts';
import type { AccountRow, MemberRow } from '../storage/tables.ts';
import { deedOf } from './audit.ts';
import type { JsonObject } from './json.ts';
import { refuseScope } from './middleware/scope.ts';
import type { Reply, Route, Incoming } from './route.ts';

/** The input of an operation. */
export interface Asked {
  params?: Readonly<Record<string, string>>;
  /** Empty values are left out: an empty field of a form sets no filter. */
  query?: Readonly<Record<string, string | null | undefined>> | URLSearchParams;
  body?: object;
  /** Media type that is wanted instead of JSON. */
  accept?: string;
  headers?: Readonly<Record<string, string>>;
}

/** The caller of an operation. */
export interface Asking {
  caller: Caller;
  ip: string | null;
  userAgent: string | null;
  whenOver(listener: () => void): void;
}

export interface Inside {
  /** Throws the operation's Problem. */
  ask(asking: Asking, operationId: string, asked: Asked): Promise<Reply>;
  has(operationId: string): boolean;
}

export function createInside(deps: { clock: Clock; commit: Committer }, routes: readonly Route[]): Inside {
  const byId = new Map<string, Route>(routes.map((route) => [route.operationId, route]));
  return {
    has: (operationId) => byId.has(operationId),
    async ask(asking, operationId, asked) {
      const route = byId.get(operationId);
      if (route === undefined) throw new Error(`there is no operation ${operationId}`);
      const act = begin(deps, route, asking, asked.params);
      try {
        refuseScope(route, asking.caller, (asked.body ?? {}) as JsonObject);
        const reply = await route.run(incoming(deps, { route, asking, asked, act }));
        if (route.act !== undefined) {
          act.on(deedOf(asked.params ?? {}, reply));
          await act.done(reply.status);
        }
        return reply;
      } catch (error) {
        // A read that found nothing is not audited.
        if (route.act !== undefined) {
          act.on(deedOf(asked.params ?? {}, undefined, asked.body));
          await act.failed(error);
        }
        throw error;
      }
    },
  };
}

function begin(
  deps: { clock: Clock; commit: Committer },
  { operationId, method, path, act }: Route,
  { caller, ip, userAgent }: Asking,
  params: Asked['params'] = {},
): RunningAct {
  const acting: Acting = {
    actor: actorOf(caller),
    ip,
    method: caller.isOperator === true ? 'CLI' : method,
    user_agent: userAgent,
  };
  const asked = act?.named === null ? null : pathWith(path, params);
  const begun = beginAct(deps, { name: operationId, words: act ?? null, endpoint: path, path: asked }, acting);
  begun.concerns(caller.accountId);
  return begun;
}

/** Returns the path with its parameters; null for one without any. */
const pathWith = (path: string, params: Readonly<Record<string, string>>): string | null =>
  path.includes('{')
    ? path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
    : null;

interface InsideCall {
  route: Route;
  asking: Asking;
  asked: Asked;
  act: RunningAct;
}

function incoming({ clock }: { clock: Clock }, { route, asking, asked, act }: InsideCall): Incoming {
  const { headers = {}, accept = 'application/json', params = {} } = asked;
  return {
    params,
    search: searchOf(asked.query),
    json: (asked.body ?? {}) as JsonObject,
    form: '',
    checked: null,
    bodyBytes: 0,
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
    whenOver: (listener) => {
      asking.whenOver(listener);
    },
    // A member's session stands for a key.
    whenKeyEnds: (listener) => {
      asking.whenOver(listener);
    },
  };
}

type Account = Pick<AccountRow, 'id' | 'plan' | 'paused'>;

/** A member of the dashboard in an account, with the scopes of their role. */
export const memberCaller = (
  { id, email, role }: Pick<MemberRow, 'id' | 'email' | 'role'>,
  account: Account,
): Caller => ({
  ...unlimited(account),
  scopes: rightsOf(role).scopes,
  keyId: id,
  keyName: email,
  member: email,
});

/** The operator on the command line, in an account. */
export const operatorCaller = (account: Account): Caller => ({
  ...unlimited(account),
  keyId: '',
  keyName: 'operator',
  isOperator: true,
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

/** Returns the JSON of a reply; of one without a body, the record of the removed object. */
export function jsonOf(reply: Reply): unknown {
  if ('body' in reply) return reply.body ?? reply.before ?? null;
  throw new Error('this operation answers no JSON');
}

/** Returns the bytes or the stream of a reply, with their type. */
export function rawOf(reply: Reply): { body: Buffer | Readable; type: string } {
  if ('bytes' in reply) return { body: reply.bytes, type: reply.type };
  if ('stream' in reply) return { body: reply.stream, type: reply.type };
  throw new Error('this operation answers JSON');
}
