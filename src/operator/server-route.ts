/** Declares an operation on the server: a route of the API with the scope `server` (routes.ts), for control socket and dashboard, and no port. */
import { z } from 'zod';
import { text } from '../api/record-schema.ts';
import type { Scope } from '../keys/scopes.ts';
import type { Act } from '../operations/act.ts';
import type { ActWords } from '../operations/audit-row.ts';
import type { Inside } from '../api/inside.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import type { Resolver } from '../net/resolver.ts';
import type { CertificateWatch } from '../config/certificate.ts';
import type { Config } from '../config/schema.ts';
import type { SettingsState } from '../config/settings-state.ts';
import type { MailPortState } from '../inbound/mail-port.ts';
import type { Detour, SelfTestResult } from '../inbound/self-test.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { LimitBook } from '../messages/limits/book.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { Mta } from '../mta/mta.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import type { Owners } from '../storage/owners.ts';
import type { Rows } from '../storage/rows.ts';

export interface StoreDeps {
  db: Database;
  clock: Clock;
  keyring: Keyring;
  resolver: Resolver;
  config: Config;
  /** The servers of this database; null for a command on a file of SQLite, while no server runs. */
  nodes: Nodes | null;
  /** Only the running server has one. */
  log?: Log;
  /** Only the running server can send mail. */
  invitations?: Invitations;
  /** Tells how many requests with unknown keys the running server has not kept. */
  strangerLines?: { readonly notKept: number };
}

export interface Invitations {
  /** Returns how to mail an invitation to these accounts, or why none can be mailed now. */
  prepare(accountIds: readonly string[]): Promise<{ kind: 'no'; why: string } | { kind: 'yes'; mail: MakeInvitation }>;
}

/** Makes the mail as rows; `written` is called once they are committed. */
type MakeInvitation = (invitation: { to: string; url: string; expiresAt: number; by: string }) => {
  rows: readonly Rows[];
  messageId: string;
  written(): void;
};

/** The dependencies that only the running server has. */
export interface OperatorDeps extends StoreDeps {
  log: Log;
  /** The operations of the API. */
  inside: Inside;
  nodes: Nodes;
  recorder: Recorder;
  /** `tries` has the engines of all nodes try mail for domains now; `*` is all mail. */
  notifiers: { deliveries: Notifier<readonly DueHint[]>; holds: Notifier; tries: Notifier<readonly string[]> };
  mta: Pick<Mta, 'unblock' | 'transcripts'> & {
    reports: Pick<Mta['reports'], 'resolve' | 'lanes' | 'lanesOfSite' | 'lane' | 'laneOf' | 'laneFacts'>;
    sources: Pick<Mta['sources'], 'list'>;
  };
  /** Tells which node delivers to a domain. */
  owners: Pick<Owners, 'ownerOf'>;
  laneFacts: LaneFactsOf;
  holds: Pick<Holds, 'of'>;
  limits: Pick<LimitBook, 'add' | 'endByHand' | 'listByHand' | 'limitOf' | 'ofLane' | 'reread'>;
  /** Sends a bounce to ourselves and returns whether it was recognised. `through`: another door, and the return-path domain to address it to. */
  selfTest: (through?: Detour) => Promise<SelfTestResult>;
  /** Hands a mail to our own MX listener, as a stranger would; `reply` is what it said. */
  handIn: (mail: { from: string; to: string; mail: Buffer }) => Promise<{ taken: boolean; reply: string }>;
  /** The certificate in force; `look` has its files read now. */
  certificate: Pick<CertificateWatch, 'look' | 'state'>;
  /** Compares the settings in force with the written ones. */
  settings: () => SettingsState;
  /** Addresses that have sent X-Forwarded-For without being trusted. */
  unknownProxies: () => readonly string[];
  /** The ports for mail, in the order mx, submission, submissions. */
  listeners: () => readonly MailPortState[];
}

interface Declaration<Deps, Body, Result> {
  body?: z.ZodType<Body>;
  /** Schema of the answer, without members that it does not name. */
  answer: z.ZodType<Result>;
  /** Its words in the audit log, which includes refused tries; absent if it changes nothing. */
  act?: ActWords;
  /** Members with this scope may perform it in their account. Without one it is for administrators and the command line. */
  scope?: Scope;
  /** Input that a member who is not an administrator cannot choose. It replaces what was given. */
  forMembers?: Partial<Body>;
  run(deps: Deps, body: Body, act: Act): Promise<NoInfer<Result>>;
  /** Tells what it would do, if the input has `dry_run`. */
  dryRun?(deps: Deps, body: Body): Promise<DryRun>;
}

/** The effect that an operation would have, with counts of what it would change. */
export const dryRunAnswer = z
  .object({ would: text('Without its subject, such as `cancel 3 waiting deliveries of the domain example.net`.') })
  .catchall(z.union([z.string(), z.number(), z.null()]));
type DryRun = z.infer<typeof dryRunAnswer>;

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

/** An operation for a running server, the one that is asked; what other nodes have in memory is read from `node_figures` (node-figures.ts). */
export const serverRoute = <Result, Body = object>(
  declaration: Declaration<OperatorDeps, Body, Result>,
): ServerRoute<Body, Result> => ({ body: nothing, ...declaration, needs: 'server' });
