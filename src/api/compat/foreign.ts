/** The requests of other services, as values: each adapter declares them, and routes.ts makes routes. Bodies are read by name, in a thread. */
import type { Problem } from '../../base/problem.ts';
import type { ApiOperation } from '../../operations/summaries.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Method, Reply } from '../route.ts';

/** A body of another service, as plain data for a thread. */
export interface ForeignBody {
  /** The service and the form, such as `resend.batch`. */
  form: string;
  contentType: string;
  headers: Readonly<Record<string, string>>;
  now: number;
}

/** The form of a body that is a complete mail, in `message` in base64, with members of a send. */
export const MIME = 'mime';

/** Returns the body of the operation that stands for this one. Throws a Problem. Pure. */
export type ReadBody = (value: JsonObject, body: ForeignBody) => JsonObject;

export type Params = Readonly<Record<string, string>>;
export type Query = Record<string, string | undefined>;

/** Performs an operation of ours within the request, and returns the body of its answer. Throws its Problem. */
export type Ask = (
  operation: ApiOperation,
  asked: { params?: Params; query?: Query; body?: JsonObject },
) => Promise<Told>;

export interface ForeignCall {
  /** Address of the adapter, without a slash at its end. */
  base: string;
  params: Params;
  query: Readonly<Record<string, string>>;
  body: JsonObject;
  now: number;
  ask: Ask;
}

/** One request of another service. */
export interface ForeignRequest {
  method: Method;
  /** Below the address of the adapter. */
  path: string;
  /** The operation of ours whose scope and audit it has. */
  operation: ApiOperation;
  /** The form of its body, if it has one. */
  form?: string;
  /** Status of the answer that `run` gives, for the audit. */
  status?: number;
  /** Performs it; by default the operation is performed with the params and the body, and its answer is given to `reply`. */
  run?: (call: ForeignCall) => Promise<Reply>;
  /** Returns the answer that the service gives if ours is this record. */
  reply?: (record: Told, call: Pick<ForeignCall, 'params' | 'body' | 'now'>) => Reply;
}

export interface Service {
  /** First part of its paths. */
  name: string;
  /** The value of the Authorization header that the request stands for. */
  authorization: (header: (name: string) => string | undefined) => string | undefined;
  requests: readonly ForeignRequest[];
  forms: Readonly<Record<string, ReadBody>>;
  /** Reads bodies that are not JSON. */
  readForm?: (bytes: Buffer, contentType: string) => JsonObject;
  /** The answer there to another body with the same Idempotency-Key; by default that of the settings. */
  onMismatch?: 'error';
  problem: (problem: Problem) => { status: number; body: object };
}

/** A record of ours in an answer. */
export type Told = Readonly<Record<string, unknown>>;

/** The place of a member: our name for it, what is done with its value, or `ignored`. `x:*` stands for all that begin with `x:`. */
export type Members = Readonly<Record<string, string | ((value: JsonValue, out: JsonObject, field: string) => void)>>;
