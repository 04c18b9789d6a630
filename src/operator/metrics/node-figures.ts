/** Figures of the servers that use one database, as each of them sees them. */
import type { Nodes } from '../../storage/nodes.ts';
import { gauge, type Family } from './exposition.ts';

export function nodeFigures(nodes: Pick<Nodes, 'isLeader' | 'list'>): Family[] {
  const servers = nodes.list().filter(({ isCommand }) => !isCommand);
  return [
    gauge('posthorn_nodes', 'Servers that use the database, as this one sees them.', servers.length),
    gauge(
      'posthorn_node_leads',
      'Whether this server does the chores: 1 on one of several. All of them deliver.',
      Number(nodes.isLeader),
    ),
    gauge(
      'posthorn_node_sign_of_life_age_seconds',
      'Since the last sign of life of a server, by the clock of the database.',
      servers.map(({ name, quietMs }) => ({ labels: { node: name }, value: quietMs / 1000 })),
    ),
  ];
}
