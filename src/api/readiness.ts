/** Decides the answer of `/readyz`. */
import type { Database } from '../storage/database.ts';
import type { DiskGuard } from '../storage/disk-guard.ts';
import { isDraining, type Nodes } from '../storage/nodes.ts';
import type { Readiness } from './request-state.ts';

/** Ports for mail that another program has make the server degraded but not unready: the API takes mail and delivery goes on. */
export async function readiness(
  {
    db,
    disk,
    nodes,
  }: {
    db: Pick<Database, 'prepared'> & { commit: Pick<Database['commit'], 'trouble'> };
    disk: Pick<DiskGuard, 'hasRoom'>;
    nodes: Pick<Nodes, 'epoch' | 'list' | 'holdsLease'>;
  },
  mailPorts: readonly { name: string; open: number | null; fault: object | null }[],
): Promise<Readiness> {
  // Without a sign of life for ten seconds this node writes nothing any more; a query could wait for the database for long.
  const database =
    nodes.holdsLease &&
    db.commit.trouble === null &&
    (await db.prepared.all('SELECT 1').then(
      () => true,
      () => false,
    ));
  const hasStarted = mailPorts.every(({ open, fault }) => open !== null || fault !== null);
  const degraded = mailPorts.filter(({ fault }) => fault !== null).map(({ name }) => name);
  const checks = { database, disk: disk.hasRoom(), listeners: hasStarted && degraded.length === 0 };
  if (!checks.database || !checks.disk) return { status: 'unavailable', checks };
  if (isDraining(nodes)) return { status: 'draining', checks };
  if (!hasStarted) return { status: 'starting', checks };
  return degraded.length === 0 ? { status: 'ok', checks } : { status: 'degraded', checks, degraded };
}
