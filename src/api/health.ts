/** For load balancers and process managers; not part of the versioned API. */
import { z } from 'zod';
import { openRoute, type Route } from './route.ts';
import type { ApiDeps, Readiness } from './exchange.ts';
import type { Database } from '../storage/database.ts';
import type { DiskGuard } from '../storage/disk-guard.ts';
import { isDraining, type Nodes } from '../storage/nodes.ts';

const Health = z.strictObject({
  status: z.enum(['ok', 'degraded', 'starting', 'draining', 'unavailable']),
  checks: z.record(z.string(), z.boolean()).optional(),
  degraded: z.array(z.string()).optional(),
});
const common = { method: 'GET', description: '-', tag: 'health', scope: null, counted: false } as const;
const answer = { description: '-', schema: Health };

/** `/healthz` answers as long as the process can answer at all; `/readyz` says whether it can work (`readiness`). */
export const healthRoutes = (deps: Pick<ApiDeps, 'ready'>): Route[] => [
  openRoute({ ...common, path: '/healthz', operationId: 'getHealth', responses: { 200: answer } }, () => ({
    status: 200,
    body: { status: 'ok' },
  })),
  openRoute(
    { ...common, path: '/readyz', operationId: 'getReadiness', responses: { 200: answer, 503: answer } },
    async () => {
      const body = await deps.ready();
      if (body.status === 'ok' || body.status === 'degraded') return { status: 200, body };
      return { status: 503, body, headers: { 'Retry-After': body.status === 'starting' ? '1' : '5' } };
    },
  ),
];

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
