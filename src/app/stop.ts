/** Stops the program in the opposite order of its start: intake, work in flight, writes that wait, the database. */
import { isStorageTrouble } from '../storage/commit.ts';
import type { AppContext } from './context.ts';
import { writeLateOutcomes } from './late-outcomes.ts';
import type { Running } from './running.ts';

export async function stopAll(context: AppContext, running: Running): Promise<void> {
  running.isStopping = true;
  const { nodes, report } = context;
  // The others take over at once what this one has not begun. If they cannot be told, they find its row gone.
  if (nodes.hasOthers) void nodes.setDraining(nodes.epoch, true).catch(report);
  running.certificateWatch.stop();
  running.shared.stop();
  context.disk.stop();
  running.dashboard.stop();
  context.meters?.stop();
  try {
    await stopWork(context, running);
  } finally {
    // Until here its figures are written: what it still has on the wire is part of the lists of other nodes.
    running.figures.stop();
    // Whatever failed before: a close leaves all that was committed in one file for the next start.
    await context.db.close();
    const { config, clock, log, fatal } = context;
    if (fatal.error !== null) await writeLateOutcomes({ storage: config.storage, clock, log }, running.mta.unwritten);
  }
}

/** Ends all parts, also if one fails: the database is closed after this, and mail on the wire needs it until its outcome is written. */
async function stopWork(context: AppContext, running: Running): Promise<void> {
  const failures: unknown[] = [];
  async function end(...parts: readonly (Promise<unknown> | undefined)[]): Promise<void> {
    const ends = await Promise.allSettled(parts.filter((part) => part !== undefined));
    for (const one of ends) if (one.status === 'rejected') failures.push(one.reason);
  }
  await end(
    running.metricsServer?.close(),
    running.api.close(),
    running.apart?.close(),
    running.inbound.stop(),
    running.control?.close(),
    running.housekeeping.stop(),
    running.mta.stop(),
    running.webhooks.stop(),
  );
  const { callers, hits, renderer, mailViewer } = context;
  await end(callers.close(), hits.close(), closeAuditLog(context));
  await end(renderer.close(), mailViewer.close());
  if (context.overrides.resolver === undefined) await end(context.resolver.close());
  if (failures.length > 1) throw new AggregateError(failures, 'several parts did not end as they should');
  if (failures.length > 0) throw failures[0];
}

/** A node that was removed can write nothing, which is why it stops: lines of reads and of 503 that still wait then are lost. */
async function closeAuditLog({ auditLog, fatal }: AppContext): Promise<void> {
  await auditLog.close().catch((error: unknown) => {
    if (fatal.error === null || !isStorageTrouble(error)) throw error;
  });
}
