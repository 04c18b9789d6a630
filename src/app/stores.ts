/** Opens the stores and the look-ups that intake and delivery share, with what they keep in memory. */
import { createAuditLog } from '../accounts/audit-log.ts';
import { createOwnAccount } from '../accounts/account-store.ts';
import { createQuotas } from '../accounts/quota.ts';
import { createAccountTracking } from '../accounts/settings-store.ts';
import { createStreams } from '../accounts/stream-store.ts';
import { StrangerLines } from '../api/audit.ts';
import { createDomainDirectory } from '../domains/domain-directory.ts';
import { createSigningKeys } from '../domains/signing-keys.ts';
import { EventTail } from '../events/tail.ts';
import { createCallers } from '../keys/callers.ts';
import { createRecorder, type Recorder } from '../messages/delivery/record.ts';
import { FreshContents } from '../messages/store/fresh-contents.ts';
import { createMailViewer } from '../messages/store/mail-viewer.ts';
import { createSafeFetch } from '../net/safe-fetch.ts';
import { mailFolder } from '../storage/database.ts';
import { createDiskGuard } from '../storage/disk-guard.ts';
import { createIdempotencyStore } from '../storage/idempotency-store.ts';
import { createRenderer } from '../templates/renderer.ts';
import { createHits } from '../tracking/hit.ts';
import { trackingKeys } from '../tracking/token.ts';
import type { Core } from './core.ts';

export type Stores = Awaited<ReturnType<typeof openStores>>;

export async function openStores(core: Core) {
  const {
    config,
    overrides,
    clock,
    log,
    report,
    botOf,
    keyring,
    db,
    nodes,
    usedUp,
    resolver,
    ownAddresses,
    notifiers,
  } = core;
  const recorder = buildRecorder(core);
  const disk = createDiskGuard(
    { clock, log, commit: db.commit },
    { dir: mailFolder(config), minFreeBytes: config.storage.minFreeBytes },
  );
  await disk.look();
  return {
    recorder,
    disk,
    fresh: new FreshContents(),
    tail: new EventTail({ db, clock, log, notifiers }),
    callers: createCallers({ db, clock, report }),
    directory: createDomainDirectory({ db, clock }),
    signingKeys: createSigningKeys({ db, keyring, clock }),
    streams: createStreams({ db, clock }),
    accountTracking: createAccountTracking({ db, clock }),
    quotas: createQuotas({ db, clock, hasOthers: () => nodes.hasOthers }),
    auditLog: createAuditLog({ db, clock, report }),
    strangerLines: new StrangerLines(usedUp),
    idempotency: createIdempotencyStore({ db, clock }),
    ownAccount: createOwnAccount({ db, clock }),
    trackKeys: trackingKeys(keyring),
    hits: createHits({
      clock,
      recorder,
      botOf,
      privacy: config.tracking,
      failed: (err) => log.error({ event: 'hit_lost', err }, 'an open or a click could not be written'),
    }),
    renderer: createRenderer({ clock }),
    mailViewer: createMailViewer({ clock }),
    fetch: createSafeFetch(
      { resolver, clock },
      { ...config.webhooks, ownAddresses, ...(overrides.ca === undefined ? {} : { ca: overrides.ca }) },
    ),
  };
}

/** Builds the recorder, which notifies of what it has written. */
function buildRecorder({ db, clock, notifiers, notices }: Core): Recorder {
  return createRecorder({
    commit: db.commit,
    clock,
    complained: (deliveryId) => notifiers.complaints.notify(deliveryId),
    written: (recorded) => {
      const due = recorded.flatMap(({ notice }) => notice ?? []);
      if (due.length > 0) notifiers.deliveries.notify(due);
      notifiers.events.notify();
    },
    notices,
  });
}
