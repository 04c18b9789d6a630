/** All endpoints of the API, in the order of its description. */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Resolver } from '../net/resolver.ts';
import type { Config } from '../config/schema.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import type { SendLimits } from '../messages/request/send-limits.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import type { Database } from '../storage/database.ts';
import type { Renderer } from '../templates/renderer.ts';
import { auditRoutes } from './audit-list.ts';
import { clientPackageRoutes } from './client-package.ts';
import { createCursors } from './cursor.ts';
import { domainRoutes, type DomainsDeps } from './domains.ts';
import { eraseRoutes, type EraseRoutesDeps } from './erase.ts';
import { eventRoutes } from './events.ts';
import { keyRoutes } from './keys.ts';
import { messageActionRoutes, type MessageActionsDeps } from './message-actions.ts';
import { messageReportRoutes } from './message-reports.ts';
import { messageRoutes } from './messages.ts';
import type { Route } from './route.ts';
import { settingsRoutes, type SettingsRoutesDeps } from './settings.ts';
import { statsRoutes } from './stats.ts';
import { streamRoutes } from './streams.ts';
import { suppressionRoutes } from './suppressions.ts';
import { templateRoutes } from './templates.ts';
import { trackRoutes, type TrackDeps } from './track.ts';
import { webhookDeliveryRoutes, type WebhookDeliveriesDeps } from './webhook-deliveries.ts';
import { webhookRoutes, type WebhooksDeps } from './webhooks.ts';

export interface RoutesDeps {
  db: Database;
  clock: Clock;
  notifiers: { events: Notifier };
  keyring: Keyring;
  renderer: Renderer;
  mailViewer: MailViewer;
  change: MessageActionsDeps['change'];
  holdOf: MessageActionsDeps['holdOf'];
  wireBytes: EraseRoutesDeps['wireBytes'];
  laneFacts: MessageActionsDeps['laneFacts'];
  accept: AcceptDeps;
  resolver: Resolver;
  limits: SendLimits & Config['limits'];
  retention: Config['retention'];
  planOf: SettingsRoutesDeps['planOf'];
  usedBy: SettingsRoutesDeps['usedBy'];
  forgetSettings: SettingsRoutesDeps['forgetSettings'];
  track: TrackDeps;
  /** Tell whoever keeps answers about a domain, a key (by its public id), a stream. */
  forgetDomain: (name: string) => void;
  forgetKey: (publicId: string) => void;
  forgetStream: (accountId: string, slug: string) => void;
  vetUrl: WebhooksDeps['vetUrl'];
  webhookChanged: WebhooksDeps['webhookChanged'];
  testWebhook: WebhookDeliveriesDeps['testWebhook'];
  smtputf8: boolean;
  /** Files one of which is the packed client. */
  clientPackage: readonly string[];
  /** Our name in the mail world. */
  hostname: string;
  trackingTarget: DomainsDeps['trackingTarget'];
  domainGraceMs: DomainsDeps['domainGraceMs'];
  log: DomainsDeps['log'];
}

export function apiRoutes(deps: RoutesDeps): Route[] {
  const { db, clock, notifiers, keyring, renderer, accept, limits, smtputf8 } = deps;
  const cursors = createCursors(keyring.derive('cursors'));
  return [
    ...messageRoutes({ db, renderer, accept, cursors, limits, smtputf8 }),
    ...messageActionRoutes({ ...deps, cursors }),
    ...messageReportRoutes(deps),
    ...eraseRoutes({ db, recorder: deps.change.recorder, wireBytes: deps.wireBytes }),
    ...templateRoutes({ db, clock, renderer, cursors }),
    ...webhookRoutes({ ...deps, cursors, findStream: accept.findStream }),
    ...webhookDeliveryRoutes({ ...deps, cursors }),
    ...eventRoutes({ db, clock, notifiers, cursors }),
    ...suppressionRoutes({ db, clock, cursors, findStream: accept.findStream }),
    ...domainRoutes({ ...deps, cursors }),
    ...keyRoutes({ ...deps, cursors }),
    ...streamRoutes({ ...deps, cursors }),
    ...settingsRoutes(deps),
    ...statsRoutes({ db }),
    ...auditRoutes({ db, cursors }),
    ...clientPackageRoutes(deps),
    ...trackRoutes(deps.track),
  ];
}
