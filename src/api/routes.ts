/** All endpoints of the API, in the order of its description. */
import { auditOperations } from './audit-list.ts';
import { batchOperations } from './batches.ts';
import { clientPackageRoutes } from './client-package.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { createCursors } from './cursor.ts';
import { domainOperations } from './domains.ts';
import { eraseOperations } from './erase.ts';
import { eventRoutes } from './events.ts';
import { keyOperations } from './keys.ts';
import { ListStreams } from './list-stream.ts';
import { messageActions } from './message-actions.ts';
import { messageContent } from './message-content.ts';
import { messageReports } from './message-reports.ts';
import { messageReads } from './messages.ts';
import { receivedFileRoute, receivedReadRoutes } from './received.ts';
import type { Route } from './route.ts';
import { sendRoute } from './send.ts';
import { settingsRoutes } from './settings.ts';
import { statsRoutes } from './stats.ts';
import { streamOperations } from './streams.ts';
import { suppressionRoutes } from './suppressions.ts';
import { templateOperations } from './templates.ts';
import { trackRoutes } from './track.ts';
import { webhookDeliveryOperations } from './webhook-deliveries.ts';
import { webhookOperations, webhookReads } from './webhooks.ts';

/** Operations on the store alone. */
export function storeRoutes(context: StoreContext): Route[] {
  const declared = [...messageReads, ...webhookReads, ...domainOperations, ...keyOperations];
  return [
    ...declared.map((operation) => operation(context)),
    ...receivedReadRoutes(context),
    ...suppressionRoutes(context),
    ...eventRoutes(context),
    ...statsRoutes(context),
  ];
}

/** The order of the API's description. */
const order =
  'messages received batches templates webhooks events suppressions domains keys streams settings stats audit'.split(
    ' ',
  );

export function apiRoutes(parts: Omit<ApiContext, 'cursors' | 'streams' | 'findStream'>): Route[] {
  const context: ApiContext = {
    ...parts,
    cursors: createCursors(parts.keyring.derive('cursors')),
    streams: new ListStreams(),
    findStream: parts.accept.findStream,
  };
  const declared = [
    ...messageActions,
    messageContent,
    ...messageReports,
    ...eraseOperations,
    ...batchOperations,
    ...templateOperations,
    ...webhookOperations,
    ...webhookDeliveryOperations,
    ...streamOperations,
    ...auditOperations,
  ];
  const routes = [
    sendRoute(context),
    ...storeRoutes(context),
    ...declared.map((operation) => operation(context)),
    receivedFileRoute(context),
    ...settingsRoutes(context),
    ...clientPackageRoutes(context),
    ...trackRoutes(context.track),
  ];
  const placeOf = ({ tag }: Route): number => (order.includes(tag) ? order.indexOf(tag) : order.length);
  return routes.sort((a, b) => placeOf(a) - placeOf(b));
}
