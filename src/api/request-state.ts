/** The dependencies of the API's HTTP server, and the types of its middleware. */
import type { Inside } from './inside.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type Koa from 'koa';
import type { Notifier } from '../scheduling/notifier.ts';
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { RateWindows } from '../scheduling/rate-windows.ts';
import type { Authenticate } from '../keys/caller.ts';
import type { AuditSink, KeptBodies } from './audit.ts';
import type { BodyLimits } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { BodyMemory } from './body-memory.ts';
import type { IdempotencySettings } from './idempotency.ts';
import type { Newcomers } from './newcomers.ts';
import type { StrangerLines } from './stranger-lines.ts';

/** The part of a logger the API needs; pino's loggers have it. */
export interface ApiLog {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  debug(fields: object, message: string): void;
}

export interface ApiSettings {
  /** Address under which clients reach the API, without a trailing slash: `servers` of the OpenAPI document. */
  publicUrl: string;
  /** Version of the product, for the OpenAPI document. */
  version: string;
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted. */
  trustedProxies: readonly string[];
  /** PEM certificate and key: the API speaks HTTPS. */
  tls?: { cert: string; key: string };
  /** Requests a minute for one IPv4 address or IPv6 /64 without a valid key. Default 60. */
  anonymousPerMinute?: number;
  body?: Partial<BodyLimits>;
  /** Most milliseconds for a request's head. Default 30 s. */
  headMs?: number;
  /** Most milliseconds for a whole request, its body included. Default 300 s. */
  requestMs?: number;
  /** How long an idle connection is kept. Default 72 s: longer than the usual 60 s of proxies, so that they close first. */
  keepAliveMs?: number;
  /** How long a client may take nothing of its answer. Default 60 s. */
  unreadMs?: number;
  /** How long running requests may take to end when the service stops. Default 10 s. */
  drainMs?: number;
}

/** The answer of `/readyz`. */
export interface Readiness {
  /** `degraded`: it works, but another program has a port for mail. `starting`: the ports for mail are not open yet. `draining`: an
   *  operator takes this node out of service. */
  status: 'ok' | 'degraded' | 'starting' | 'draining' | 'unavailable';
  checks: Record<string, boolean>;
  /** The listeners whose port cannot be had. */
  degraded?: string[];
}

export interface ApiDeps {
  clock: Clock;
  log: ApiLog;
  authenticate: Authenticate;
  /** Is called for every use of a valid key from an allowed address. */
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** Notifies that a key was revoked or changed, so that its open answers end. */
  keyChanges: Notifier;
  /** Counts the requests of accounts; shared with submission by SMTP. */
  accountWindows?: RateWindows;
  /** The memory for bodies; shared with the dashboard. */
  bodyMemory?: BodyMemory;
  /** Is called when a budget for strangers is used up. */
  usedUp?: UsedUp;
  /** Budgets for connections without a key or a session; shared with the dashboard's port. */
  newcomers?: Newcomers;
  /** Returns the requests a minute that a plan allows. */
  planLimit(plan: string): number;
  audit: AuditSink;
  /** The bodies that the request log keeps; none if it is absent. */
  keepBodies?: KeptBodies;
  /** The budget for lines about unknown keys; shared with the operator, who is shown how many were not kept. */
  strangerLines?: StrangerLines;
  /** Addresses that have sent X-Forwarded-For without being trusted; shared with the operator. */
  unknownProxies?: Set<string>;
  idempotency: IdempotencySettings;
  /** Is called for every request that was answered. */
  answered?(request: { operation: string | null; status: number; ms: number }): void;
  /** Answers requests that are not for the API, such as the operator's metrics; returns whether it did. */
  beside?(request: IncomingMessage, response: ServerResponse): boolean;
  /** Calls operations for the tools of the Model Context Protocol, which is not served without it. */
  inside?: Inside;
  /** Returns whether the service can work, with the single checks by name. */
  ready(): Promise<Readiness>;
  settings: ApiSettings;
}

/** State of a stop of the service, and the listeners that are called when it begins. */
export interface Stop {
  begun: boolean;
  readonly listeners: Set<() => void>;
}

export interface ShellState {
  exchange: Exchange;
}

export type Middleware = Koa.Middleware<ShellState>;
export type Context = Koa.ParameterizedContext<ShellState>;
