/** The facts that the doctor's checks use. Tests pass others than those of machine.ts, network.ts and store.ts. */
import type { Clock } from '../../base/clock.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import type { OperatorDeps } from '../deps.ts';
import type { createMachine } from './machine.ts';
import type { createNetwork } from './network.ts';
import type { storeProbes } from './store.ts';

export interface Probes {
  config: Config;
  clock: Clock;
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'mx' | 'txt' | 'ptr' | 'cname'>;
  machine: ReturnType<typeof createMachine>;
  network: ReturnType<typeof createNetwork>;
  store: ReturnType<typeof storeProbes> | Missing;
  server: Server | Missing;
  /** True if the DNS servers are to be tried for DNSSEC although no setting needs it. */
  wantsDnssec: boolean;
}

/** A probe that cannot be had, and why. */
export interface Missing {
  kind: 'missing';
  why: string;
  cure: string;
  /** Set if the database is there and must not be used. */
  refusal?: 'moved' | 'unfinished' | 'unsuitable';
}

export type CertificateFacts =
  | {
      kind: 'read';
      file: string;
      isSelfSigned: boolean;
      isOwn: boolean;
      /** Milliseconds since the epoch. */
      from: number;
      until: number;
      /** Returns whether it is valid for this host name. */
      isFor(host: string): boolean;
    }
  /** Made at the first start. */
  | { kind: 'none' }
  | { kind: 'bad'; why: string };

export type Greeting =
  /** The first line, and how long it took. */
  | { kind: 'greeted'; line: string; ms: number }
  /** `silent`: no answer in time, as of a firewall that drops. */
  | { kind: 'refused' | 'silent' | 'unreachable'; why: string };

export interface SmarthostPlace {
  /** In the order to try; at least one. */
  ips: readonly string[];
  /** For TLS. */
  host: string;
  port: number;
  tls: 'opportunistic' | 'required' | 'none' | 'implicit';
  /** The name of ours for EHLO and for the addresses of the mail that is offered. */
  hostname: string;
}

export type RelayAnswer =
  /** It accepts our sender and recipient. */
  | { kind: 'taken' }
  /** It does not relay for us, now or ever; `refused` is for another reason. */
  | { kind: 'login_wanted' | 'refused'; why: string }
  | { kind: 'unreachable' | 'failed'; why: string };

export interface SmarthostAccess extends SmarthostPlace {
  auth: { user: string; password: string };
}

export type SignIn =
  | { kind: 'signed_in' }
  /** It refuses the password. */
  | { kind: 'refused'; why: string }
  /** `unreachable`: it takes no connection. */
  | { kind: 'unreachable' | 'failed'; why: string };

/** Facts that only the running server has. */
interface Server {
  kind: 'server';
  /** The state of the ports for mail. */
  listeners: OperatorDeps['listeners'];
  /** Sends a bounce to itself through the listener, and tells whether it was recognised. */
  selfTest: OperatorDeps['selfTest'];
  /** Compares the settings in force with the written ones. */
  settings: OperatorDeps['settings'];
  nodes: Pick<OperatorDeps['nodes'], 'list'>;
  unknownProxies: OperatorDeps['unknownProxies'];
  /** Why the database did not take the last write, or null. */
  writeTrouble: () => string | null;
}
