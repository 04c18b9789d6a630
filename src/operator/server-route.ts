/**
 * Declares an operation on the server itself. It becomes a route of the API with the scope `server` (routes.ts), which the control socket and
 * the dashboard serve, and no port.
 */
import { z } from 'zod';
import type { Scope } from '../keys/scopes.ts';
import type { Act } from '../operations/act.ts';
import type { ActWords } from '../operations/audit-row.ts';
import type { OperatorDeps, StoreDeps } from './deps.ts';

interface Declaration<Deps, Body, Result> {
  /** Schema of the input; absent if it has none. */
  body?: z.ZodType<Body>;
  /** Schema of the answer; by default any JSON. */
  answer?: z.ZodType<Result>;
  /** Its words in the audit log, which includes refused tries; absent if it changes nothing. */
  act?: ActWords;
  /** Members with this scope may perform it in their account. Without one it is for administrators and the command line. */
  scope?: Scope;
  /** Input that a member who is not an administrator cannot choose. It replaces what was given. */
  forMembers?: Partial<Body>;
  run(deps: Deps, body: Body, act: Act): Promise<Result>;
  /** Tells what it would do, if the input has `dry_run`. */
  dryRun?(deps: Deps, body: Body): Promise<DryRun>;
}

/** The effect that an operation would have. */
export interface DryRun {
  /** Without its subject, such as `cancel 3 waiting deliveries of the domain example.net`. */
  would: string;
  /** Counts of what it would change. */
  [count: string]: string | number | null;
}

export interface ServerRoute<Body = object, Result = unknown> extends Declaration<OperatorDeps, Body, Result> {
  body: z.ZodType<Body>;
  /** `server`: it needs the running server. Others work on the database alone as well. */
  needs: 'store' | 'server';
}

// Without a schema Body is `object`, its default.
const nothing = z.strictObject({}) as z.ZodType<object> as z.ZodType<never>;

/** An operation that works on the database, with or without a server; in the running server `deps` are the server's. */
export const storeRoute = <Result, Body = object>(
  declaration: Declaration<StoreDeps | OperatorDeps, Body, Result>,
): ServerRoute<Body, Result> => ({ body: nothing, ...declaration, needs: 'store' });

/**
 * An operation that needs a running server. It is performed by the one that is asked; what other nodes have in memory, it reads in the table
 * `node_figures` (node-figures.ts).
 */
export const serverRoute = <Result, Body = object>(
  declaration: Declaration<OperatorDeps, Body, Result>,
): ServerRoute<Body, Result> => ({ body: nothing, ...declaration, needs: 'server' });
