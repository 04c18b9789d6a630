/**
 * The API asked from inside: a page calls an endpoint by its operation id, with the same checks of fields, the same answers
 * and the same audit lines that a caller with a key would have. So there is one way to the data, and what the dashboard can
 * do the API can do.
 *
 * What is not done again is what belongs to keys and wires: rate limits, idempotency, compression.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import type { AuditSink } from '../api/audit.ts';
import type { JsonObject } from '../api/json.ts';
import type { Incoming, Reply, Route } from '../api/route.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { scopeNames } from '../keys/scopes.ts';
import type { AccountRow, AuditRow, MemberRow } from '../storage/tables.ts';

/** What is asked of an endpoint. */
export interface Asked {
  params?: Readonly<Record<string, string>>;
  /** Empty values are left out: an empty field of a form asks for nothing. */
  query?: Readonly<Record<string, string | null | undefined>> | URLSearchParams;
  body?: object;
  /** Media type that is wanted instead of JSON. */
  accept?: string;
  headers?: Readonly<Record<string, string>>;
}

/** For whom it is asked. */
export interface Asking {
  member: MemberRow;
  account: AccountRow;
  ip: string;
  userAgent: string | null;
  whenOver(listener: () => void): void;
}

export interface InsideDeps {
  clock: Clock;
  audit: AuditSink;
}

export type AskInside = (asking: Asking, operationId: string, asked: Asked) => Promise<Reply>;

export function createInside(deps: InsideDeps, routes: readonly Route[]): AskInside {
  const byId = new Map(routes.map((route) => [route.operationId, route]));
  return async (asking, operationId, asked) => {
    const route = byId.get(operationId);
    if (route === undefined) throw new Error(`there is no endpoint ${operationId}`);
    const call = callOf(deps, route, asking, asked);
    try {
      const reply = await route.run(call.incoming);
      if (isAct(route) && call.audited() !== reply.status) await deps.audit.write(call.line(reply.status, null));
      return reply;
    } catch (error) {
      const [status, code] = error instanceof Problem ? [error.status, error.code] : [500, 'internal_error'];
      // What was only looked at and not found is no act.
      if (isAct(route)) await deps.audit.write(call.line(status, code));
      throw error;
    }
  };
}

/** A preview is drawn again with each pause in typing: that is looking, whatever the method. */
const isAct = ({ method, operationId }: Route): boolean => method !== 'GET' && operationId !== 'renderTemplate';

interface InsideCall {
  incoming: Incoming;
  /** The status a handler took its audit line for, or null. */
  audited(): number | null;
  line(status: number, code: string | null): AuditRow;
}

function callOf({ clock }: InsideDeps, route: Route, asking: Asking, asked: Asked): InsideCall {
  const now = clock.now();
  const started = clock.monotonic();
  const requestId = newId('req', now);
  const caller = callerFor(asking);
  const { headers = {}, accept = 'application/json' } = asked;
  let audited: number | null = null;
  const line = (status: number, code: string | null): AuditRow => ({
    id: newId('aud', now),
    at: now,
    account_id: caller.accountId,
    key_id: null,
    actor: actorOf(caller),
    ip: asking.ip,
    method: route.method,
    endpoint: route.path,
    status,
    result: status >= 500 ? 'failed' : status >= 400 ? 'refused' : 'ok',
    error_code: code,
    request_id: requestId,
    ms: Math.round(clock.monotonic() - started),
    idempotency_replayed: 0,
    user_agent: asking.userAgent,
  });
  return {
    audited: () => audited,
    line,
    incoming: {
      params: asked.params ?? {},
      search: searchOf(asked.query),
      json: (asked.body ?? {}) as JsonObject,
      form: '',
      checked: null,
      rounded: [],
      bodyBytes: 0,
      caller,
      requestId,
      now,
      ip: asking.ip,
      method: route.method,
      header: (name) => (name === 'accept' ? accept : headers[name]),
      idempotencyRow: () => null,
      auditRow(status) {
        audited = status;
        return line(status, null);
      },
      whenOver: (listener) => {
        asking.whenOver(listener);
      },
    },
  };
}

/** A member may do everything in an account that a key could be made for. */
function callerFor({ member, account }: Asking): Caller {
  return {
    accountId: account.id,
    keyId: member.id,
    keyName: member.email,
    mode: 'live',
    scopes: scopeNames,
    domains: [],
    allowedIps: [],
    plan: account.plan,
    paused: account.paused === 1,
    expiresAt: null,
    revokedAt: null,
    member: member.email,
  };
}

function searchOf(query: Asked['query'] = {}): string {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const search = new URLSearchParams();
  for (const [name, value] of pairs) if (value != null && value !== '') search.append(name, value);
  return search.toString();
}

/** The JSON of a reply. */
export function jsonOf(reply: Reply): unknown {
  if ('body' in reply) return reply.body;
  throw new Error('this endpoint answers no JSON');
}

/** The bytes or the stream of a reply, with their type. */
export function rawOf(reply: Reply): { body: Buffer | Readable; type: string } {
  if ('bytes' in reply) return { body: reply.bytes, type: reply.type };
  if ('stream' in reply) return { body: reply.stream, type: reply.type };
  throw new Error('this endpoint answers JSON');
}
