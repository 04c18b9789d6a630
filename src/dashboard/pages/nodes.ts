/** The nodes, for administrators: the servers that use the database, and taking one out of service. */
import { capital } from '../../domains/lost-records.ts';
import type { DashboardDeps } from '../deps.ts';
import type { Page } from '../page.ts';
import { resource } from '../resource.ts';

export const nodePages = (deps: DashboardDeps): Page[] =>
  resource(deps, {
    path: '/settings/nodes',
    view: 'nodes',
    title: 'Nodes',
    who: 'admin',
    async load(visit) {
      const [{ data }, { data: findings }] = await Promise.all([
        visit.ask('nodes.list'),
        visit.ask('doctor', { body: { checks: ['nodes'] } }),
      ]);
      const rows = data.flatMap((one) => (one.state === 'command' ? [] : [{ ...one, isThis: one.this }]));
      return {
        rows,
        isOne: rows.length < 2,
        commands: data.filter(({ state }) => state === 'command'),
        faults: findings.flatMap(({ status, why, cure }) => (status === 'ok' ? [] : [{ why: capital(why), cure }])),
      };
    },
  });
