/**
 * Keeps what nodes have of rows in memory in step: an operation that changes a row notifies all nodes, and each of them drops its copy,
 * which is read again when it is needed.
 */
import type { ChangeNotices } from '../api/context.ts';
import { KEY_FRESH_MS } from '../keys/callers.ts';
import type { Core } from './core.ts';
import type { Stores } from './stores.ts';

/** A row that was changed, of which every node may have a copy in memory. */
export type Change =
  { of: 'key' | 'domain' | 'settings'; name: string } | { of: 'stream'; name: string; accountId: string };

export function createChanges(
  { clock, nodes, notifiers }: Pick<Core, 'clock' | 'nodes' | 'notifiers'>,
  {
    callers,
    directory,
    signingKeys,
    streams,
    accountTracking,
  }: Pick<Stores, 'callers' | 'directory' | 'signingKeys' | 'streams' | 'accountTracking'>,
): ChangeNotices {
  notifiers.changes.listen((change) => {
    if (change.of === 'key') {
      callers.forget(change.name);
      notifiers.keys.arrive();
    } else if (change.of === 'domain') {
      directory.forget(change.name);
      signingKeys.forget(change.name);
    } else if (change.of === 'stream') streams.forget(change.accountId, change.name);
    else accountTracking.forget(change.name);
  });
  return {
    async keyChanged(publicId) {
      notifiers.changes.notify({ of: 'key', name: publicId });
      if (nodes.hasOthers) await clock.sleep(KEY_FRESH_MS);
    },
    domainChanged: (name) => notifiers.changes.notify({ of: 'domain', name }),
    streamChanged: (accountId, slug) => notifiers.changes.notify({ of: 'stream', name: slug, accountId }),
    settingsChanged: (accountId) => notifiers.changes.notify({ of: 'settings', name: accountId }),
    // The dispatcher of each node reads the endpoint again.
    webhookChanged: (id) => notifiers.webhooks.notify(id),
  };
}
