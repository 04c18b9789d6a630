/** All endpoints of the API, in the order of its description. */
import { createFullListCheck } from '../suppressions/suppression-store.ts';
import { auditOperations } from './audit-list.ts';
import { batchOperations } from './batches.ts';
import { clientPackageRoutes } from './client-package.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { createCursors } from './page.ts';
import { domainOperations } from './domains.ts';
import { eventRoute } from './events.ts';
import { keyOperations } from './keys.ts';
import { ListStreams } from './list-stream.ts';
import { messageActions } from './message-actions.ts';
import { messageReads } from './messages.ts';
import { receivedFiles, receivedReads } from './received.ts';
import type { Route } from './route.ts';
import { sendRoute } from './send.ts';
import { settingsOperations } from './settings.ts';
import { statsRoute } from './stats.ts';
import { streamOperations } from './streams.ts';
import { suppressionOperations } from './suppressions.ts';
import { templateOperations } from './templates.ts';
import { trackRoutes } from './track.ts';
import { webhookDeliveryOperations } from './webhook-deliveries.ts';
import { webhookOperations, webhookReads } from './webhooks.ts';

/** The operations on the store alone. */
const onStore = [
  ...[...messageReads, ...webhookReads, ...domainOperations, ...keyOperations, ...receivedReads],
  ...[...suppressionOperations, eventRoute, statsRoute],
];

const onServer = [
  ...[...messageActions, ...batchOperations, ...templateOperations, ...webhookOperations],
  ...[...webhookDeliveryOperations, ...streamOperations, ...auditOperations, ...receivedFiles],
  ...settingsOperations,
];

type Made = 'cursors' | 'streams' | 'refuseFullList';

const withMade = <Parts extends Omit<StoreContext, Made>>(parts: Parts) => ({
  ...parts,
  cursors: createCursors(parts.keyring.derive('cursors')),
  streams: new ListStreams(),
  refuseFullList: createFullListCheck(parts),
});

/** Returns the operations that a program without a server can perform. */
export function storeRoutes(parts: Omit<StoreContext, Made>): Route[] {
  const context = withMade(parts);
  return onStore.map((operation) => operation(context));
}

/** The order of the API's description. */
const order =
  'messages received batches templates webhooks events suppressions domains keys streams settings stats audit'.split(
    ' ',
  );

export function apiRoutes(parts: Omit<ApiContext, Made>): Route[] {
  const context: ApiContext = withMade(parts);
  const routes = [
    sendRoute(context),
    ...onStore.map((operation) => operation(context)),
    ...onServer.map((operation) => operation(context)),
    ...clientPackageRoutes(context),
    ...trackRoutes(context),
  ];
  const placeOf = ({ tag }: Route): number => (order.includes(tag) ? order.indexOf(tag) : order.length);
  return routes.sort((a, b) => placeOf(a) - placeOf(b));
}
