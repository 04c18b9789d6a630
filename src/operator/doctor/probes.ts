/** What the doctor can look at. Checks get these handed in and judge; machine.ts, network.ts and store.ts look for real. */
import type { BackupState } from '../../backup/newest.ts';
import type { Clock } from '../../base/clock.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import type { DomainWithKeys } from '../../domains/domain-record.ts';
import type { Books } from '../../messages/store/books.ts';
import type { HoldRow, WebhookRow } from '../../storage/tables.ts';

export interface Probes {
  config: Config;
  clock: Clock;
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'mx' | 'txt' | 'ptr'>;
  machine: Machine;
  network: Network;
  store: Store | Missing;
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

export interface Machine {
  nodeVersion: string;
  /** Of the library that this program brings. */
  sqliteVersion(): Promise<string>;
  /** Addresses of this machine's interfaces. */
  addresses(): readonly string[];
  freeBytes(dir: string): Promise<number>;
  /** Null where there is none. */
  file(path: string): Promise<FileFacts | null>;
  /** Ids of the keys in `<dataDir>/secret.key`; null where there is no such file. Throws with a sentence where it cannot be used. */
  keyIds(): readonly string[] | null;
  certificate(): CertificateFacts;
  /** Of the folder `backup.dir`. */
  backups(): Promise<BackupState>;
}

export interface FileFacts {
  /** The nine bits. */
  mode: number;
  uid: number;
  bytes: number;
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

export interface Network {
  /** Connects and reads the greeting of a mail host. */
  greet(place: { ip: string; port: number }): Promise<Greeting>;
  /** Signs in at a smarthost as the delivery does, and sends nothing. */
  signIn(at: SmarthostAccess): Promise<SignIn>;
  /** Asks a time server (RFC 4330); `offsetMs` is how far ahead it is of our clock. */
  askTime(ip: string): Promise<{ kind: 'answered'; offsetMs: number } | { kind: 'silent'; why: string }>;
}

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

export interface Store {
  kind: 'store';
  books(): Promise<Books>;
  /** At most `most`, of all accounts. */
  domains(most: number): Promise<readonly DomainWithKeys[]>;
  /** Endpoints that are disabled or failing. */
  sickEndpoints(): Promise<readonly Pick<WebhookRow, 'id' | 'url' | 'status' | 'disabled_reason' | 'failing_since'>[]>;
  endpointCount(): Promise<number>;
  /** Slugs of broadcast streams that sent mail after this time. */
  broadcastsSince(at: number): Promise<readonly string[]>;
  /** Recipient domains with mail that waits, the most first. */
  waiting(most: number): Promise<readonly WaitingIn[]>;
  /** Holds of the operator that end only when somebody releases them, oldest first. */
  endlessHolds(most: number): Promise<readonly HoldRow[]>;
  /** Ids of the keys under which secrets in the database are sealed. */
  sealKeyIds(): Promise<readonly string[]>;
  /** When the newest thing was written, or null. */
  newestAt(): Promise<number | null>;
}

export interface WaitingIn {
  domain: string;
  waiting: number;
}

export interface Server {
  kind: 'server';
  /** The ports that are listened on; null for one that could not be had. */
  ports(): { mx: number | null; submission: number | null; submissions: number | null };
  /** Sends a bounce to itself through the listener, and tells what became of it. */
  selfTest(): Promise<SelfTest>;
}

export type SelfTest = { kind: 'recognised'; ms: number } | { kind: 'failed'; why: string };
