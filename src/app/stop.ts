/** The end, in the opposite order of the beginning: intake first, then what is in flight, then what has to be written, then the database. */
import type { CertificateWatch } from '../config/certificate-watch.ts';
import type { OwnPort } from '../dashboard/listen.ts';
import type { Dashboard } from '../dashboard/dashboard.ts';
import type { Inbound } from '../inbound/inbound.ts';
import type { Api } from '../api/server.ts';
import type { Mta } from '../mta/mta.ts';
import type { TlsTally } from '../mta/tls/tls-tally.ts';
import type { Control } from '../operator/control-server.ts';
import type { MetricsServer } from '../operator/metrics.ts';
import type { AppContext } from './context.ts';

/** What was started; what is null was not, or not yet. */
export interface Running {
  api: Api;
  dashboard: Dashboard;
  apart: OwnPort | null;
  control: Control | null;
  metrics: MetricsServer | null;
  mta: Mta;
  tlsTally: TlsTally | null;
  inbound: Inbound;
  webhooks: { stop(): Promise<void> };
  housekeeping: { stop(): Promise<void> };
  certificateWatch: CertificateWatch;
}

export async function stopAll(ground: AppContext, running: Running): Promise<void> {
  running.certificateWatch.stop();
  ground.disk.stop();
  running.dashboard.stop();
  ground.meters?.stop();
  try {
    await stopWork(ground, running);
  } finally {
    // Whatever broke before: what was promised is to be found in one file by the next start.
    await ground.db.close();
  }
}

async function stopWork(ground: AppContext, running: Running): Promise<void> {
  await Promise.all([
    running.metrics?.close(),
    running.api.close(),
    running.apart?.close(),
    running.inbound.stop(),
    running.control?.close(),
    running.housekeeping.stop(),
    running.mta.stop(),
    running.webhooks.stop(),
  ]);
  const { callers, hits, auditLog, renderer } = ground;
  await Promise.all([running.tlsTally?.stop(), callers.close(), hits.close(), auditLog.close(), renderer.close()]);
  if (ground.overrides.resolver === undefined) await ground.resolver.close();
}
