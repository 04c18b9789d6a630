/** All endpoints of the API, in the order of its description. */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Config } from '../config/schema.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import type { SendLimits } from '../messages/request/send-limits.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import type { Database } from '../storage/database.ts';
import type { Renderer } from '../templates/renderer.ts';
import { auditRoutes } from './audit-list.ts';
import { batchRoutes } from './batches.ts';
import type { ChangeNotices } from './change-notices.ts';
import { clientPackageRoutes, type ClientPackage } from './client-package.ts';
import { createCursors, type Cursors } from './cursor.ts';
import { domainRoutes, type DomainsDeps } from './domains.ts';
import { eraseRoutes, type EraseRoutesDeps } from './erase.ts';
import { eventRoutes } from './events.ts';
import { keyRoutes } from './keys.ts';
import { messageActionRoutes, type MessageActionsDeps } from './message-actions.ts';
import { messageReportRoutes } from './message-reports.ts';
import { messageWebhookRoutes } from './message-webhooks.ts';
import { messageReadRoutes } from './messages.ts';
import { ListStreams } from './list-stream.ts';
import { receivedFileRoute, receivedReadRoutes } from './received.ts';
import type { Route } from './route.ts';
import { sendRoutes, type SendDeps } from './send.ts';
import { settingsRoutes, type SettingsRoutesDeps } from './settings.ts';
import { statsRoutes } from './stats.ts';
import { streamRoutes } from './streams.ts';
import { suppressionRoutes, type SuppressionsDeps } from './suppressions.ts';
import { templateRoutes } from './templates.ts';
import { trackRoutes, type TrackDeps } from './track.ts';
import { webhookDeliveryRoutes, type WebhookDeliveriesDeps } from './webhook-deliveries.ts';
import { webhookReadRoutes, webhookRoutes, type WebhooksDeps } from './webhooks.ts';

/** Dependencies of operations on the store: they can be performed with or without a server. */
export interface StoreRoutesDeps extends Omit<DomainsDeps, 'cursors'> {
  db: Database;
  clock: Clock;
  keyring: Keyring;
  cursors: Cursors;
  streams: ListStreams;
  findStream: SuppressionsDeps['findStream'];
  laneFacts?: MessageActionsDeps['laneFacts'];
  changes: Pick<ChangeNotices, 'domainChanged' | 'keyChanged'>;
}

export interface RoutesDeps extends Omit<StoreRoutesDeps, 'cursors' | 'streams' | 'findStream' | 'laneFacts'> {
  changes: ChangeNotices;
  notifiers: { events: Notifier };
  renderer: Renderer;
  mailViewer: MailViewer;
  change: MessageActionsDeps['change'];
  holdOf: MessageActionsDeps['holdOf'];
  wireBytes: EraseRoutesDeps['wireBytes'];
  requestsWritten: EraseRoutesDeps['requestsWritten'];
  laneFacts: MessageActionsDeps['laneFacts'];
  accept: AcceptDeps;
  mailDraft: SendDeps['mailDraft'];
  limits: SendLimits & Config['limits'];
  retention: Config['retention'];
  planOf: SettingsRoutesDeps['planOf'];
  usedBy: SettingsRoutesDeps['usedBy'];
  track: TrackDeps;
  vetUrl: WebhooksDeps['vetUrl'];
  testWebhook: WebhookDeliveriesDeps['testWebhook'];
  smtputf8: boolean;
  clientPackage: ClientPackage;
}

/** Operations on the store alone. */
export function storeRoutes(deps: StoreRoutesDeps): Route[] {
  return [
    ...messageReadRoutes(deps),
    ...receivedReadRoutes(deps),
    ...webhookReadRoutes(deps),
    ...suppressionRoutes(deps),
    ...domainRoutes(deps),
    ...keyRoutes(deps),
    ...statsRoutes(deps),
  ];
}

/** The order of the API's description. */
const order =
  'messages received batches templates webhooks events suppressions domains keys streams settings stats audit'.split(
    ' ',
  );

export function apiRoutes(deps: RoutesDeps): Route[] {
  const { db, clock, log, notifiers, keyring, renderer, accept } = deps;
  const cursors = createCursors(keyring.derive('cursors'));
  const streams = new ListStreams();
  const routes = [
    ...sendRoutes(deps),
    ...storeRoutes({ ...deps, cursors, streams, findStream: accept.findStream }),
    ...messageActionRoutes(deps),
    ...batchRoutes({ ...deps, cursors }),
    ...messageReportRoutes(deps),
    receivedFileRoute(deps),
    ...messageWebhookRoutes(deps),
    ...eraseRoutes({ ...deps, recorder: deps.change.recorder }),
    ...templateRoutes({ db, clock, renderer, cursors }),
    ...webhookRoutes({ ...deps, findStream: accept.findStream }),
    ...webhookDeliveryRoutes({ ...deps, cursors }),
    ...eventRoutes({ db, clock, log, notifiers, cursors, streams }),
    ...streamRoutes({ ...deps, cursors }),
    ...settingsRoutes(deps),
    ...auditRoutes({ db, cursors, streams }),
    ...clientPackageRoutes(deps),
    ...trackRoutes(deps.track),
  ];
  const placeOf = ({ tag }: Route): number => (order.includes(tag) ? order.indexOf(tag) : order.length);
  return routes.sort((a, b) => placeOf(a) - placeOf(b));
}
