/** For load balancers and process managers; not part of the versioned API. */
import { z } from 'zod';
import { openRoute, type Route } from './route.ts';
import type { ApiDeps, Readiness } from './request-state.ts';
import type { Database } from '../storage/database.ts';
import type { DiskGuard } from '../storage/disk-guard.ts';
import { isDraining, type Nodes } from '../storage/nodes.ts';

const Health = z.strictObject({
  status: z
    .enum(['ok', 'degraded', 'starting', 'draining', 'unavailable'])
    .describe(
      '`starting`: the ports for mail are not open yet; ask again in a second. `draining`: an operator takes this server out of service (`posthorn nodes drain`).',
    ),
  checks: z.record(z.string(), z.boolean()).optional(),
  degraded: z
    .array(z.string())
    .optional()
    .describe('The listeners whose port another program has: mx, submission, submissions.'),
});

export function healthRoutes(deps: Pick<ApiDeps, 'ready'>): Route[] {
  const common = { method: 'GET', tag: 'health', scope: null, counted: false } as const;
  return [
    openRoute(
      {
        ...common,
        path: '/healthz',
        operationId: 'getHealth',
        description: 'Answers as long as the process can answer at all.',
        responses: { 200: { description: 'Alive.', schema: Health } },
      },
      () => ({ status: 200, body: { status: 'ok' } }),
    ),
    openRoute(
      {
        ...common,
        path: '/readyz',
        operationId: 'getReadiness',
        description:
          'Looks at the database, at the room on the disk, and whether mail is taken by SMTP yet. For a moment of the start, before the ports for mail are open, the status is `starting` and the answer is 503. While an operator drains the server, one of several, the status is `draining` and the answer is 503, though requests are still answered. It answers at all only while the listener of the API is there. Where another program has a port for mail, the status is `degraded` and the answer is 200: the API takes mail and delivery goes on, but bounces or submissions cannot arrive at that port.',
        responses: {
          200: { description: 'Ready, or degraded: a port for mail is in use by another program.', schema: Health },
          503: { description: 'Not ready, starting or draining: the failed checks are false.', schema: Health },
        },
      },
      async () => {
        const body = await deps.ready();
        if (body.status === 'ok' || body.status === 'degraded') return { status: 200, body };
        return { status: 503, body, headers: { 'Retry-After': body.status === 'starting' ? '1' : '5' } };
      },
    ),
  ];
}

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
