/** One declaration per endpoint: the router, the checks, the handler's types and the OpenAPI document are all made from it. */
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { check, fieldName, schemaAt } from '../base/check.ts';
import { Problem, type ProblemCode, notFound } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import type { Scope } from '../keys/scopes.ts';
import type { Act } from '../operations/act.ts';
import type { ActWords, Deed } from '../operations/audit-row.ts';
import { apiSummaries, type ApiOperation } from '../operations/summaries.ts';
import type { AuditRow, IdempotencyRow } from '../storage/tables.ts';
import type { JsonObject } from './json.ts';
import type { CheckedSend } from './send-check.ts';
import type { SendRules } from '../messages/request/send-request.ts';
import { parseQuery } from './query.ts';
import { sampleOf } from './record-schema.ts';
import type { Rows, RowsFor } from '../storage/rows.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The answer of a handler: a JSON value (null: no body), bytes of another type, or a stream. */
export type Reply =
  | {
      status: number;
      body: unknown;
      headers?: Readonly<Record<string, string>>;
      /** The record before a change or removal: for the audit, and for callers that show the removed object. */
      before?: object;
      /** The words of the audit, if the answer is not a record of one object. */
      deed?: Deed;
    }
  | { status: number; bytes: Buffer; type: string; headers?: Readonly<Record<string, string>> }
  | { status: number; stream: Readable; type: string; headers?: Readonly<Record<string, string>> };

/** A checked request, with everything that a handler may need. */
export interface Call<Params, Query, Body> {
  params: Params;
  query: Query;
  body: Body;
  /** The body before any check, for handlers that check it themselves (`bodyByHandler`); `{}` if there was none. */
  json: JsonObject;
  /** The body checked in a thread (see `sendRules`), or null; `json` then has only the members that decide its form. */
  checked: CheckedSend | null;
  /** The body of a form of one of our pages, undecoded (`page`); empty if there was none. */
  form: string;
  /** Size of the body in bytes, decompressed. */
  bodyBytes: number;
  caller: Caller;
  /** The query string after the `?`, undecoded. */
  search: string;
  requestId: string;
  /** Arrival of the request, milliseconds since the epoch. */
  now: number;
  ip: string;
  method: string;
  /** The value of a header by its lower-case name. */
  header: (name: string) => string | undefined;
  /** The idempotency record, null without an Idempotency-Key. A handler that takes it writes it with its work; else the middleware does. */
  idempotencyRow(reply: Reply): IdempotencyRow | null;
  /** The audit row for this answer. A handler that takes it writes it with the work; the middleware then does not. */
  auditRow(reply: Reply): AuditRow;
  /** True from the moment when the service stops: work that has not begun then had better be refused. */
  isStopping: () => boolean;
  /** Calls `listener` once when the client has gone or the service stops: for long answers, such as event streams. */
  whenOver(listener: () => void): void;
  /** Calls `listener` once when the key of the call is revoked, changed or expired: for long answers that a stop of the service waits for. */
  whenKeyEnds(listener: () => void): void;
}

/** The announced end of an endpoint (RFC 9745, RFC 8594). */
export interface Deprecation {
  /** Day of the notice, `2026-01-31`. */
  since: string;
  /** Day of the end, at least 12 months after `since`; from then on the endpoint answers 410. */
  sunset: string;
  /** Path of the endpoint to use instead. */
  successor: string;
  /** Address of the notice. */
  notice: string;
}

export interface ResponseDeclaration {
  description: string;
  /** Schema of the JSON body; absent = no body, unless `types` says otherwise. */
  schema?: z.ZodType;
  /** Media types other than JSON that this endpoint can answer instead. */
  types?: readonly string[];
  /** Further headers, with their descriptions. */
  headers?: Readonly<Record<string, string>>;
  examples?: Readonly<Record<string, { summary: string; value: unknown }>>;
}

export interface Declaration<Params, Query, Body> {
  method: Method;
  /** In OpenAPI notation: `/v1/messages/{id}`. */
  path: string;
  /** camelCase, unique: the method's name in generated clients. */
  operationId: ApiOperation;
  description: string;
  /** Its section in the description; by default the part of the path after the version. */
  tag?: string;
  /** Any one of these scopes opens it; null = it answers without a key. */
  scope: readonly [Scope, ...Scope[]] | null;
  /**
   * The data that it changes. `mail`: only messages, by `reachOf`, so that a test key has simulated ones. `nothing`: it only computes. Absent: what
   * live and test mail share, which a test key may only read. `secret`: it reads what gives power over live mail, so a test key may not even read it.
   */
  touches?: 'mail' | 'nothing' | 'secret';
  /** For the endpoint whose scope depends on the body: the scope this one needs, out of those above. */
  scopeFor?: (body: JsonObject) => Scope;
  /** Its words for the audit; absent for operations that only read or compute. */
  act?: ActWords;
  params?: z.ZodType<Params>;
  query?: z.ZodType<Query>;
  body?: z.ZodType<Body>;
  /** The body that the operator may send, with members besides those of `body` that the description of the API does not show. */
  operatorBody?: z.ZodType<Body>;
  /** The handler checks `call.json` itself; `body` then only documents it. */
  bodyByHandler?: boolean;
  /** For send requests: the rules by which a thread checks a large one, given the time; the result is `call.checked`. */
  sendRules?: (now: number) => SendRules;
  bodyExamples?: Readonly<Record<string, { summary: string; value: unknown }>>;
  /** A request without a body is one with an empty object. */
  isBodyOptional?: true;
  /** The form of another service in which the body comes (compat/services.ts); what the other layers get is the body of the operation. */
  foreignBody?: string;
  responses: Readonly<Record<number, ResponseDeclaration>>;
  /** Codes besides those that every endpoint can answer and those that follow from `query` and `body` (`problemCodes`). */
  problems?: readonly ProblemCode[];
  deprecated?: Deprecation;
  /** The answer holds a secret: under an Idempotency-Key it is stored encrypted with that key. */
  secretResponse?: boolean;
  /** A page for people and their mail programs, outside of the API: its query is ignored, and its body is `call.form`. */
  page?: true;
  /** For a page: returns whether we made this link, judged by its path alone. The body of any other is not read. */
  knows?: (params: Readonly<Record<string, string>>) => boolean;
  /** A read that lasts long by design: it does not wait for other reads, nor they for it. */
  lasts?: true;
  /** False for health checks: their calls are not counted against any rate limit. */
  counted?: boolean;
}

/** Declares the only example of an answer. */
export const exampleOf = (summary: string, value: unknown) => ({ example: { summary, value } });

/** Declares an answer with a JSON body and one example, by default the schema's own. */
export const jsonResponse = (
  description: string,
  schema: z.ZodType,
  summary: string,
  value: unknown = sampleOf(schema),
): ResponseDeclaration => ({ description, schema, examples: exampleOf(summary, value) });

export const pathWith = (path: string, params: object): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent((params as Readonly<Record<string, string | undefined>>)[name] ?? ''),
  );

/** Declares an answer with a mail as it is; `begins` shows the beginning of one. */
export const mailResponse = (description: string, summary: string, begins: string) => ({
  200: { description, types: ['message/rfc822'], examples: exampleOf(summary, `${begins}\r\n\r\n...`) },
});

export const mailReply = (bytes: Buffer): Reply => ({ status: 200, bytes, type: 'message/rfc822' });

/** Returns whether an operation only reads, by its id: a test checks the verbs of every endpoint. */
export const isReading = (operationId: string): boolean => /^(?:get|list|explain)[A-Z]/.test(operationId);

/** The raw request that a route gets; the checked parts are made from it. */
export interface Incoming extends Omit<Call<unknown, unknown, unknown>, 'params' | 'query' | 'body' | 'caller'> {
  params: Readonly<Record<string, string>>;
  search: string;
  caller: Caller | null;
  /** The act, for the audit; only of calls from within the process and of those on the control socket. */
  act?: Act;
}

export interface Route extends Omit<Declaration<unknown, unknown, unknown>, 'operationId' | 'scope'> {
  operationId: string;
  /** `server`: for those who may perform the operations of the server. No key opens it, and no port serves it. */
  scope: Declaration<unknown, unknown, unknown>['scope'] | 'server';
  /** Members with this scope may perform an operation of the server in their account, with these members of the body. */
  members?: { scope: Scope; body: object };
  /** An operation of the server that works only while it runs. */
  needs?: 'store' | 'server';
  tag: string;
  summary: string;
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
  return declare(declaration, (incoming, parts) => {
    const { caller } = incoming;
    if (caller === null) throw new Error(`${declaration.operationId} was reached without a key`);
    return handler(Object.assign(incoming, parts, { caller }));
  });
}

/** Declares an endpoint that answers without a key. */
export function openRoute<Params = object, Query = object>(
  declaration: Declaration<Params, Query, undefined> & { scope: null },
  handler: (call: Omit<Call<Params, Query, undefined>, 'caller'>) => Promise<Reply> | Reply,
): Route {
  return declare(declaration, (incoming, parts) => handler(Object.assign(incoming, parts)));
}

interface Checked<Params, Query, Body> {
  params: Params;
  query: Query;
  body: Body;
}

function declare<Params, Query, Body>(
  declaration: Declaration<Params, Query, Body>,
  handle: (incoming: Incoming, parts: Checked<Params, Query, Body>) => Promise<Reply> | Reply,
): Route {
  if (declaration.deprecated !== undefined) checkDeprecation(declaration.operationId, declaration.deprecated);
  const { path, operationId } = declaration;
  const run = async (incoming: Incoming): Promise<Reply> => {
    const { params } = incoming;
    try {
      return await handle(incoming, checked(declaration, incoming));
    } catch (error) {
      throw namedByPath(error, params);
    }
  };
  return { tag: path.split('/')[2] ?? '', summary: apiSummaries[operationId], ...declaration, run };
}

/** Adds the path's first parameter as the field of a `not_found`: stores know no paths, and handlers name the others. */
function namedByPath(error: unknown, params: Incoming['params']): unknown {
  const [name] = Object.keys(params);
  if (!(error instanceof Problem) || error.code !== 'not_found' || error.field !== null || name === undefined)
    return error;
  return new Problem('not_found', error.message, { field: name, cause: error });
}

/** Checks the path, then the query, then the body: the order in which faults are reported. */
function checked<Params, Query, Body>(
  declaration: Declaration<Params, Query, Body>,
  incoming: Incoming,
): Checked<Params, Query, Body> {
  return {
    params: checkedParams(declaration.params, incoming.params),
    query: checkedQuery(declaration.query, declaration.page === true ? '' : incoming.search),
    body: checkedBody(declaration, incoming),
  };
}

/** Checks the parameters of the path. An id that breaks the pattern of ids is answered with 404: no object can have it. */
function checkedParams<Params>(
  schema: z.ZodType<Params> | undefined,
  params: Readonly<Record<string, string>>,
): Params {
  // Without a schema Params is `object`, its default.
  if (schema === undefined) return params as Params;
  const result = schema.safeParse(params);
  if (!result.success) throw notFound(fieldName('', result.error.issues[0]?.path ?? []), 'There is no such object.');
  return result.data;
}

function checkedQuery<Query>(schema: z.ZodType<Query> | undefined, search: string): Query {
  // Without a schema Query is `object`, its default.
  if (search === '' && schema === undefined) return {} as Query;
  const query = (schema ?? nothing) as z.ZodType<Query>;
  const isRecord = (name: string): boolean => schemaAt(query, {}, [name]).schema._zod.def.type === 'record';
  return check(query, parseQuery(search, isRecord), { code: 'invalid_parameter', isQuery: true });
}

function checkedBody<Body>(
  declaration: Pick<Declaration<unknown, unknown, Body>, 'body' | 'operatorBody' | 'bodyByHandler'>,
  { json, caller }: Pick<Incoming, 'json' | 'caller'>,
): Body {
  const { operatorBody, bodyByHandler } = declaration;
  const body = caller?.isOperator === true ? (operatorBody ?? declaration.body) : declaration.body;
  // Without a schema, or if the handler checks it, Body is `undefined`, its default.
  if (bodyByHandler === true || (body === undefined && Object.keys(json).length === 0)) return undefined as Body;
  return check((body ?? nothing) as z.ZodType<Body>, json);
}

/** Checks a promise of the contract: a deprecated endpoint works for at least a year. */
function checkDeprecation(operationId: string, { since, sunset }: Deprecation): void {
  const earliest = new Date(since);
  earliest.setUTCFullYear(earliest.getUTCFullYear() + 1);
  if (!(Date.parse(sunset) >= earliest.getTime())) {
    throw new Error(`${operationId}: the sunset must be a day at least 12 months after the notice`);
  }
}

type CallWithRows = Pick<Call<unknown, unknown, unknown>, 'idempotencyRow' | 'auditRow'>;

/** Returns the rows for this answer. The caller writes them with its work: the middleware then does not write them again. */
export function rowsOfAnswer(call: CallWithRows, reply: Reply): Rows {
  const idempotency = call.idempotencyRow(reply);
  return { audit: [call.auditRow(reply)], ...(idempotency === null ? {} : { idempotency: [idempotency] }) };
}

/** Performs a change and returns its answer. `change` writes the rows of `rowsFor` in its transaction, and throws if nothing was changed. */
export async function answerChange<Changed>(
  call: CallWithRows,
  replyOf: (changed: Changed) => Reply,
  change: (rowsFor: RowsFor<Changed>) => Promise<unknown>,
): Promise<Reply> {
  const made: { reply: Reply | null } = { reply: null };
  await change((changed) => {
    made.reply = replyOf(changed);
    return rowsOfAnswer(call, made.reply);
  });
  if (made.reply === null) throw new Error('a change was committed without its answer');
  return made.reply;
}

/** Makes the answer to the creation of an object below `path`. */
export const created =
  <Made>(path: string, record: (made: Made) => { id: string }) =>
  (made: Made): Reply => {
    const body = record(made);
    return { status: 201, body, headers: { Location: `${path}/${body.id}` } };
  };

export const updated =
  <Changed>(record: (changed: Changed) => object, before?: object) =>
  (changed: Changed): Reply => ({ status: 200, body: record(changed), ...(before === undefined ? {} : { before }) });

export const removed =
  <Removed>(record: (row: Removed) => object) =>
  (row: Removed): Reply => ({ status: 204, body: null, before: record(row) });
