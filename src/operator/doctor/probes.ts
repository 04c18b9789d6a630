/** What the doctor can look at. Checks get these handed in and judge; machine.ts, network.ts and store.ts look for real. */
import type { Clock } from '../../base/clock.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import type { OperatorDeps } from '../operation.ts';
import type { createMachine } from './machine.ts';
import type { createNetwork } from './network.ts';
import type { storeProbes } from './store.ts';

export interface Probes {
  config: Config;
  clock: Clock;
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'mx' | 'txt' | 'ptr'>;
  machine: ReturnType<typeof createMachine>;
  network: ReturnType<typeof createNetwork>;
  store: ReturnType<typeof storeProbes> | Missing;
  server: Server | Missing;
  /** Whether the DNS servers are to be tried for DNSSEC though no setting counts on it. */
  wantsDnssec: boolean;
}

/** What cannot be looked at, and why. */
export interface Missing {
  kind: 'missing';
  why: string;
  cure: string;
}

export type CertificateFacts =
  | {
      kind: 'read';
      /** Where it stands. */
      file: string;
      isSelfSigned: boolean;
      isOwn: boolean;
      /** Milliseconds since the epoch. */
      from: number;
      until: number;
      /** Whether it is good for this host name. */
      isFor(host: string): boolean;
    }
  /** Made at the first start. */
  | { kind: 'none' }
  | { kind: 'bad'; why: string };

export type Greeting =
  /** The first line, and how long it took to come. */
  | { kind: 'greeted'; line: string; ms: number }
  /** `silent`: no answer in time, as of a firewall that drops. */
  | { kind: 'refused' | 'silent' | 'unreachable'; why: string };

export interface SmarthostAccess {
  ip: string;
  /** For TLS. */
  host: string;
  port: number;
  tls: 'opportunistic' | 'required' | 'none' | 'implicit';
  auth: { user: string; password: string };
}

export type SignIn =
  | { kind: 'signed_in' }
  /** It says no to the password. */
  | { kind: 'refused'; why: string }
  | { kind: 'failed'; why: string };

/** What only the running server can show. */
interface Server {
  kind: 'server';
  /** The ports that are listened on; null for one that could not be had. */
  ports: OperatorDeps['listening'];
  /** Sends a bounce to itself through the listener, and tells whether it was recognised. */
  selfTest: OperatorDeps['selfTest'];
}
