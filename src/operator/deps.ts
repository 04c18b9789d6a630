/** The dependencies of the operations on the server: the store, and in the running server its parts. */
import type { Inside } from '../api/inside.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import type { Resolver, TlsaRecord } from '../net/resolver.ts';
import type { CertificateWatch } from '../config/certificate-watch.ts';
import type { Config } from '../config/schema.ts';
import type { SettingsState } from '../config/settings-state.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { LimitBook } from '../messages/limits/book.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { LaneChange, LaneReport, SourceReport, TranscriptPage } from '../messages/delivery/lane-report.ts';
import type { LaneFacts, LaneFactsOf, MailOfLane } from '../messages/delivery/why.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import type { Owners } from '../storage/owners.ts';
import type { Rows } from '../storage/rows.ts';
import type { OpenReportParser } from './reports/report-parser.ts';

/** The dependencies of every operation. */
export interface StoreDeps {
  db: Database;
  clock: Clock;
  keyring: Keyring;
  resolver: Resolver;
  config: Config;
  /** Opens a reader of mails that came back. */
  openReportParser: OpenReportParser;
  /** The servers of this database; null for a command on a file of SQLite, while no server runs. */
  nodes: Nodes | null;
  /** Only the running server has one. */
  log?: Log;
  /** Only the running server can send mail. */
  invitations?: Invitations;
  /** Tells how many requests with unknown keys the running server has not kept. */
  strangerLines?: { readonly notKept: number };
}

/** The mails that invite people to the team. */
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
  mta: {
    resolve(domain: string): Promise<ResolvedDomain>;
    /** Returns at most `most` of the lanes that have work or a limit: those with the most jobs in memory, or the most workers, first. */
    lanes(most: number, first: 'fullest' | 'busiest'): Promise<readonly LaneReport[]>;
    /** Returns the lanes of a site, busy or not: one for each source. */
    lanesOfSite(site: string): readonly LaneReport[];
    lane(name: string): { now: LaneReport; changes: readonly LaneChange[] } | null;
    /** Returns the lane of mail to this domain. */
    laneOf(domain: string): string;
    laneFacts: (mail: MailOfLane) => Promise<LaneFacts>;
    sources: { list(): readonly SourceReport[] };
    /** Ends the block lists of a source; null is the system's address of every node. */
    unblock(source: string | null): Promise<void>;
    transcripts: {
      watch(watch: number, what: { lane: string } | { messageId: string }): boolean;
      subjectOf(watch: number): { lane: string } | { messageId: string } | null;
      list(): readonly (readonly [watch: number, page: TranscriptPage])[];
      read(watch: number, after: number): TranscriptPage | null;
    };
  };
  /** Tells which node delivers to a domain. */
  owners: Pick<Owners, 'ownerOf'>;
  /** Returns the facts of the lanes of mails. */
  laneFacts: LaneFactsOf;
  holds: Pick<Holds, 'of'>;
  limits: Pick<LimitBook, 'add' | 'endByHand' | 'listByHand' | 'limitOf' | 'ofLane' | 'ofDomain' | 'reread'>;
  /**
   * Sends a bounce to ourselves and returns whether it was recognised. `through` is another door than our own listener, and the
   * return-path domain that the bounce is addressed to.
   */
  selfTest: (through?: {
    host: string;
    port: number;
    domain: string;
  }) => Promise<{ ok: boolean; why: string | null; ms: number }>;
  /** Hands a mail to our own MX listener, as a stranger would; `reply` is what it said. */
  handIn: (mail: { from: string; to: string; mail: Buffer }) => Promise<{ taken: boolean; reply: string }>;
  /** The certificate in force; `look` has its files read now. */
  certificate: Pick<CertificateWatch, 'look' | 'state'>;
  /** Compares the settings in force with the written ones. */
  settings: () => SettingsState;
  /** Addresses that have sent X-Forwarded-For without being trusted. */
  unknownProxies: () => readonly string[];
  /** The ports for mail, in the order mx, submission, submissions. */
  listeners(): readonly ListenerState[];
}

/** A port for mail, as the listeners know it. */
export interface ListenerState {
  name: 'mx' | 'submission' | 'submissions';
  /** The address and port of the settings. */
  host: string;
  port: number;
  /** The port that is listened on; null while it cannot be had. */
  open: number | null;
  /** The reason; `since` in milliseconds since the epoch, `holder` names the program that has the port, if that is known. */
  fault: { code: string; since: number; holder: string | null } | null;
}

/** The destination of a domain's mail, as the delivery engine resolves it. */
export interface ResolvedDomain {
  destination:
    | { kind: 'simulator' | 'discard' | 'hold' }
    | { kind: 'nowhere' | 'unresolved'; route: { kind: string; text?: string; enhanced?: string } }
    | {
        kind: 'site';
        name: string;
        hosts: readonly { name: string; port: number; preference?: number; addresses: readonly { ip: string }[] }[];
        operator?: {
          name: string;
          maxConnections?: number | undefined;
          messagesPerConnection?: number | undefined;
        } | null;
        sts?: { mode: string; mx: readonly string[]; maxAge: number } | null;
        relay: { tls: string } | null;
      };
  needs: readonly (
    | { kind: 'need'; need: { mode: string; verify: string; policy: string; tlsa: readonly TlsaRecord[] } }
    | { kind: 'refused'; text: string }
  )[];
  lane: LaneReport | null;
}
