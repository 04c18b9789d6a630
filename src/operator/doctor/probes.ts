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
  refusal?: 'moved' | 'unsuitable';
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

export interface Relay {
  ip: string;
  /** For TLS. */
  host: string;
  port: number;
  tls: 'opportunistic' | 'required' | 'none' | 'implicit';
  auth: { user: string; password: string } | null;
  /** The name of ours for EHLO. */
  hostname: string;
}

export type RelayAnswer =
  /** It answers, and takes the login if there is one. */
  | { kind: 'ready' }
  /** `refused`: the login. `unreachable`: it takes no connection. */
  | { kind: 'refused' | 'unreachable' | 'failed'; why: string };

/** Facts that only the running server has. */
interface Server extends Pick<OperatorDeps, 'listeners' | 'selfTest' | 'settings' | 'unknownProxies'> {
  kind: 'server';
  nodes: Pick<OperatorDeps['nodes'], 'list'>;
  /** Why the database did not take the last write, or null. */
  writeTrouble: () => string | null;
}
