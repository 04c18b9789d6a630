/**
 * One declaration per endpoint: what it takes, what it gives, who may use it. The router, the checks, the handler's types and
 * the OpenAPI document are all made from it.
 */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { check, fieldName } from '../base/check.ts';
import { Problem } from '../base/problem.ts';
import type { ProblemCode } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import type { Scope } from '../keys/scopes.ts';
import type { ActWords } from '../operations/audit-row.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { JsonObject } from './json.ts';
import { roundedProblem, type RoundedNumber } from './json-numbers.ts';
import type { CheckedSend } from './send-check.ts';
import type { SendRules } from '../messages/request/send-request.ts';
import { parseQuery } from './query.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** What a handler answers: a JSON value (null: no body), bytes of another type, or a stream. */
export type Reply =
  | {
      status: number;
      body: unknown;
      headers?: Readonly<Record<string, string>>;
      /** The record as it was, of an object that is changed or removed: for the audit, and for doors that show what is gone. */
      before?: object;
    }
  | { status: number; bytes: Buffer; type: string; headers?: Readonly<Record<string, string>> }
  | { status: number; stream: Readable; type: string; headers?: Readonly<Record<string, string>> };

/** A request whose time has come: everything about it that a handler may want, checked. */
export interface Call<Params, Query, Body> {
  params: Params;
  query: Query;
  body: Body;
  /** The body as it came, for handlers that check it themselves (`bodyByHandler`); `{}` where there was none. */
  json: JsonObject;
  /** The body checked apart (see `sendRules`), or null; `json` then has only what tells its form. */
  checked: CheckedSend | null;
  /** Numbers of the body that are not what was written: refused before the handler, unless it checks the body itself. */
  rounded: readonly RoundedNumber[];
  /** The body of a form that a page of ours sent, undecoded (`page`); empty where there was none. */
  form: string;
  /** Size of the body in bytes, decompressed. */
  bodyBytes: number;
  caller: Caller;
  /** The query string after the `?`, undecoded. */
  search: string;
  requestId: string;
  /** When the request came, milliseconds since the epoch. */
  now: number;
  ip: string;
  method: string;
  /** The value of a header by its lower-case name. */
  header: (name: string) => string | undefined;
  /**
   * The idempotency record for this reply, or null where no Idempotency-Key was sent. Who takes it writes it in the same
   * transaction as the work; the shell then does not store it again.
   */
  idempotencyRow(reply: Reply): IdempotencyRow | null;
  /** The audit row for this answer. A handler that takes it writes it with the work; the shell then does not. */
  auditRow(reply: Reply): AuditRow;
  /** Calls `listener` once when the client has gone or the service stops: for answers that go on, such as event streams. */
  whenOver(listener: () => void): void;
}

/** An endpoint on its way out (RFC 9745, RFC 8594). */
export interface Deprecation {
  /** Day of the notice, `2026-01-31`. */
  since: string;
  /** Day of the end, at least 12 months after `since`; from then on the endpoint answers 410. */
  sunset: string;
  /** Path of the endpoint to use instead. */
  successor: string;
  /** Where the notice stands. */
  notice: string;
}

export interface ResponseDeclaration {
  description: string;
  /** Schema of the JSON body; absent = no body, unless `types` says otherwise. */
  schema?: z.ZodType;
  /** Media types other than JSON that this endpoint can answer instead. */
  types?: readonly string[];
  /** Headers of its own, with what they say. */
  headers?: Readonly<Record<string, string>>;
  examples?: Readonly<Record<string, { summary: string; value: unknown }>>;
}

export interface Declaration<Params, Query, Body> {
  method: Method;
  /** In OpenAPI notation: `/v1/messages/{id}`. */
  path: string;
  /** camelCase, unique: the method's name in generated clients. */
  operationId: string;
  summary: string;
  description: string;
  /** Its section in the description; by default the part of the path after the version. */
  tag?: string;
  /** Any one of these scopes opens it; null = it answers without a key. */
  scope: readonly [Scope, ...Scope[]] | null;
  /**
   * What it changes. `mail`: messages alone, looked up through `reachOf`, so that a test key has simulated ones only; `nothing`:
   * it only computes. Otherwise what live and test mail share (domains, templates, keys, ...): a test key may not, unless it only reads.
   * `secret`: it reads what gives power over live mail, so a test key may not even read it.
   */
  touches?: 'mail' | 'nothing' | 'secret';
  /** For the endpoint whose scope depends on the body: the scope this one needs, out of those above. */
  scopeFor?: (body: JsonObject) => Scope;
  /** What the audit calls it; absent for what only reads or computes. */
  act?: ActWords;
  params?: z.ZodType<Params>;
  query?: z.ZodType<Query>;
  body?: z.ZodType<Body>;
  /** Members that only the operator may give besides those of `body`: they are in no description of the API. */
  operatorBody?: z.ZodType<Body>;
  /** The handler checks `call.json` itself; `body` then only documents it. */
  bodyByHandler?: boolean;
  /** For send requests: how a large one is to be checked apart from the main loop, given the time; it then comes as `call.checked`. */
  sendRules?: (now: number) => SendRules;
  bodyExamples?: Readonly<Record<string, { summary: string; value: unknown }>>;
  responses: Readonly<Record<number, ResponseDeclaration>>;
  /** Codes of its own, besides those every endpoint can answer. */
  problems?: readonly ProblemCode[];
  deprecated?: Deprecation;
  /** The answer holds a secret: under an Idempotency-Key it is stored encrypted with that key. */
  secretResponse?: boolean;
  /** It is no part of the API but a page for people and their mail programs: whatever stands in the query is passed over, and a body comes as `call.form`. */
  page?: true;
  /** For a page: whether the link is one of ours, which its path alone tells. The body of any other is not read. */
  knows?: (params: Readonly<Record<string, string>>) => boolean;
  /** A read that may last for long on purpose: it does not wait for other reads, nor they for it. */
  lasts?: true;
  /** False for health checks: their calls are not counted against any rate limit. */
  counted?: boolean;
}

/** Declares the only example of an answer. */
export const exampleOf = (summary: string, value: unknown): { example: { summary: string; value: unknown } } => ({
  example: { summary, value },
});

/** Declares an answer with a JSON body and one example. */
export const jsonResponse = (
  description: string,
  schema: z.ZodType,
  summary: string,
  value: unknown,
): ResponseDeclaration => ({ description, schema, examples: exampleOf(summary, value) });

/** Whether an operation only reads, by its id: a test holds every endpoint to these verbs. */
export const isReading = (operationId: string): boolean => /^(?:get|list|explain)[A-Z]/.test(operationId);

/** What the shell hands to a route: the checked parts are made from the raw ones. */
export interface Incoming extends Omit<Call<unknown, unknown, unknown>, 'params' | 'query' | 'body' | 'caller'> {
  params: Readonly<Record<string, string>>;
  search: string;
  caller: Caller | null;
}

export interface Route extends Declaration<unknown, unknown, unknown> {
  tag: string;
  run(incoming: Incoming): Promise<Reply> | Reply;
}

const nothing = z.strictObject({});

/** The object with the `id` of the path, in the caller's account. */
export const refOf = ({
  params: { id },
  caller,
}: Pick<Call<{ id: string }, unknown, unknown>, 'params' | 'caller'>) => ({
  accountId: caller.accountId,
  id,
});

/** Declares an endpoint that needs a key. */
export function route<Params = object, Query = object, Body = undefined>(
  declaration: Declaration<Params, Query, Body> & { scope: readonly [Scope, ...Scope[]] },
  handler: (call: Call<Params, Query, Body>) => Promise<Reply> | Reply,
): Route {
  return declare(declaration, async (incoming) => {
    const { caller } = incoming;
    if (caller === null) throw new Error(`${declaration.operationId} was reached without a key`);
    try {
      return await handler(Object.assign(incoming, checked(declaration, incoming), { caller }));
    } catch (error) {
      throw namedByPath(error, incoming.params);
    }
  });
}

/**
 * What the path names and is not there has the path's parameter as its field; of several the first, as who throws for what is
 * below it names that himself. Stores, which the command line asks as well, do not know what a path calls it.
 */
function namedByPath(error: unknown, params: Incoming['params']): unknown {
  const [name] = Object.keys(params);
  if (!(error instanceof Problem) || error.code !== 'not_found' || error.field !== null || name === undefined)
    return error;
  return new Problem('not_found', error.message, { field: name, cause: error });
}

/** Declares an endpoint that answers without a key. */
export function openRoute<Params = object, Query = object>(
  declaration: Declaration<Params, Query, undefined> & { scope: null },
  handler: (call: Omit<Call<Params, Query, undefined>, 'caller'>) => Promise<Reply> | Reply,
): Route {
  return declare(declaration, (incoming) => handler(Object.assign(incoming, checked(declaration, incoming))));
}

function declare<Params, Query, Body>(
  declaration: Declaration<Params, Query, Body>,
  run: (incoming: Incoming) => Promise<Reply> | Reply,
): Route {
  if (declaration.deprecated !== undefined) checkDeprecation(declaration.operationId, declaration.deprecated);
  return { tag: declaration.path.split('/')[2] ?? '', ...declaration, run };
}

/** Path, then query, then body: the order in which faults are told. */
function checked<Params, Query, Body>(
  declaration: Declaration<Params, Query, Body>,
  incoming: Incoming,
): { params: Params; query: Query; body: Body } {
  return {
    params: checkedParams(declaration.params, incoming.params),
    query: checkedQuery(declaration.query, declaration.page === true ? '' : incoming.search),
    body: checkedBody(declaration, incoming),
  };
}

/** No object can have an id that breaks the pattern of ids: it is not found. */
function checkedParams<Params>(
  schema: z.ZodType<Params> | undefined,
  params: Readonly<Record<string, string>>,
): Params {
  // Without a schema Params is `object`, its default.
  if (schema === undefined) return params as Params;
  const result = schema.safeParse(params);
  if (!result.success)
    throw new Problem('not_found', 'There is no such object.', {
      field: fieldName('', result.error.issues[0]?.path ?? []),
    });
  return result.data;
}

function checkedQuery<Query>(schema: z.ZodType<Query> | undefined, search: string): Query {
  // Without a schema Query is `object`, its default.
  if (search === '' && schema === undefined) return {} as Query;
  return check((schema ?? nothing) as z.ZodType<Query>, parseQuery(search), {
    code: 'invalid_parameter',
    isQuery: true,
  });
}

function checkedBody<Body>(
  declaration: Pick<Declaration<unknown, unknown, Body>, 'body' | 'operatorBody' | 'bodyByHandler'>,
  { json, caller, rounded: [rounded] }: Pick<Incoming, 'json' | 'caller' | 'rounded'>,
): Body {
  const { operatorBody, bodyByHandler } = declaration;
  const body = caller?.isOperator === true ? (operatorBody ?? declaration.body) : declaration.body;
  // Without a schema, or where the handler checks it, Body is `undefined`, its default.
  if (bodyByHandler === true || (body === undefined && Object.keys(json).length === 0)) return undefined as Body;
  const value = check((body ?? nothing) as z.ZodType<Body>, json);
  if (rounded !== undefined) throw roundedProblem(rounded);
  return value;
}

/** A promise of the contract: nobody gets less than a year. */
function checkDeprecation(operationId: string, { since, sunset }: Deprecation): void {
  const earliest = new Date(since);
  earliest.setUTCFullYear(earliest.getUTCFullYear() + 1);
  if (!(Date.parse(sunset) >= earliest.getTime())) {
    throw new Error(`${operationId}: the sunset must be a day at least 12 months after the notice`);
  }
}
