/** The context that the operations of the API share. Its types are here once: an operation names the context, and takes of it what it needs. */
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/schema.ts';
import type { SendingDomain } from '../domains/domain-directory.ts';
import type { EventTail } from '../events/tail.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import type { ChangeDeps } from '../messages/delivery/change-message.ts';
import type { HoldOf } from '../messages/delivery/holds.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { SendLimits } from '../messages/request/send-limits.ts';
import type { MessageDraft } from '../messages/request/send-request.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import type { Resolver } from '../net/resolver.ts';
import type { SafeFetch } from '../net/safe-fetch.ts';
import type { Database } from '../storage/database.ts';
import type { Rows } from '../storage/rows.ts';
import type { WebhookDeliveryRow, WebhookRow } from '../storage/tables.ts';
import type { RefuseFullList } from '../suppressions/suppression-store.ts';
import type { Renderer } from '../templates/renderer.ts';
import type { Hits } from '../tracking/hit.ts';
import type { TrackingKey } from '../tracking/token.ts';
import type { SampleEvent } from '../webhooks/dispatcher.ts';
import type { ClientPackage } from './client-package.ts';
import type { Cursors } from './page.ts';
import type { ListStreams } from './list-stream.ts';
import type { Call } from './route.ts';

/** Notifies all nodes that a row was changed, after the commit: they may have a copy of it in memory, or work to do for it. */
export interface ChangeNotices {
  /** A key, by its public id. Resolves when every node knows of it, also if a message to it was lost. */
  keyChanged: (publicId: string) => Promise<void>;
  /** A domain, by its name. */
  domainChanged: (name: string) => void;
  streamChanged: (accountId: string, slug: string) => void;
  settingsChanged: (accountId: string) => void;
  /** A webhook endpoint, or the calls that wait for it. */
  webhookChanged: (webhookId: string) => void;
}

/** The part for operations on the store alone: they can be performed without a server. */
export interface StoreContext {
  db: Database;
  clock: Clock;
  keyring: Keyring;
  log: Pick<Log, 'info' | 'warn'>;
  cursors: Cursors;
  tail: EventTail;
  streams: ListStreams;
  resolver: Pick<Resolver, 'txt' | 'mx' | 'a' | 'aaaa' | 'cname'>;
  /** Name of this mail server: the DNS records point to it. */
  hostname: string;
  /** Host that tracking hosts of domains point to; null if tracking hosts are off. */
  trackingTarget: string | null;
  /** How long a domain keeps sending after it lost a record. */
  domainGraceMs: number;
  /** Returns the stream with this slug, or null. */
  findStream: (accountId: string, slug: string) => Promise<{ name: string } | null>;
  /** Returns what the lane of a recipient's domain waits for; only a running server knows it. */
  laneFacts?: LaneFactsOf;
  changes: Pick<ChangeNotices, 'domainChanged' | 'keyChanged'>;
  refuseFullList: RefuseFullList;
}

/** A plan's limits, null meaning none. */
export type PlanLimits = Config['plans'][string];

/** The mail as it is sent, or the reason why it cannot be shown. */
export type WireBytes = { kind: 'bytes'; data: readonly Buffer[] } | { kind: 'none'; why: string };

export interface ApiContext extends StoreContext {
  changes: ChangeNotices;
  renderer: Renderer;
  mailViewer: MailViewer;
  recorder: ChangeDeps['recorder'];
  notifiers: ChangeDeps['notifiers'];
  retry: ChangeDeps['retry'];
  holdOf: HoldOf;
  laneFacts: LaneFactsOf;
  /** The bytes of a delivery as every attempt sends them. */
  wireBytes: (deliveryId: string) => Promise<WireBytes>;
  /** Resolves when the request log holds what requests before this one have said. */
  requestsWritten: () => Promise<void>;
  accept: AcceptDeps;
  /** Makes the draft of a complete mail; `given` has its recipients and the options of the send. Throws a Problem. */
  mailDraft: (
    bytes: Buffer,
    given: MessageDraft,
    by: Pick<Call<object, object, unknown>, 'caller' | 'ip'>,
  ) => Promise<MessageDraft>;
  limits: SendLimits & Config['limits'];
  /** How long the server keeps things, in milliseconds: the most an account can ask for. */
  retention: Config['retention'];
  /** The limits of a plan, or null for one that no longer exists. */
  planOf: (name: string) => PlanLimits | null;
  /** Mails accepted for the account today and this month. */
  usedBy: (accountId: string) => Promise<{ today: number; thisMonth: number }>;
  /** Sign the links in mail. */
  keys: readonly TrackingKey[];
  hits: Hits;
  /** Host of the whole installation. */
  publicHost: string;
  findDomain: (name: string) => Promise<SendingDomain | null>;
  /** Checks whether a URL may be called. */
  vetUrl: SafeFetch['vet'];
  /** Calls the endpoint once with a sample, waits for its answer and writes its line of the log with the rows made of it. */
  testWebhook: (
    row: WebhookRow,
    sample: SampleEvent,
    alsoCommit: (line: WebhookDeliveryRow) => Rows,
  ) => Promise<WebhookDeliveryRow>;
  /** True if local parts of new addresses may have non-ASCII characters. */
  smtputf8: boolean;
  clientPackage: ClientPackage;
}
