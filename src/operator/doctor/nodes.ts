/** Checks that the nodes of a database are alike, and that one can take over from another. */
import { pluralize } from '../../base/pluralize.ts';
import type { Config } from '../../config/schema.ts';
import { differingSettings } from '../../config/shared-settings.ts';
import { poolsElsewhere } from '../../config/sources.ts';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import { nodeState } from '../nodes.ts';
import { clockOffIn, type NodeRecord } from '../../storage/nodes.ts';
import { ok, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

export function nodes({ config, server }: Probes): Promise<readonly Verdict[]> {
  return Promise.resolve(verdicts(config, server));
}

function verdicts(config: Config, server: Probes['server']): readonly Verdict[] {
  if (!isPostgresUrl(config.storage.url)) return [ok('a database of SQLite has one server')];
  if (server.kind === 'missing') return [warning(`the nodes are unknown: ${server.why}`, server.cure)];
  return verdictsOnNodes(server.nodes.list(), config.delivery.sources);
}

type SourceSettings = Config['delivery']['sources'];

/** Returns what is wrong with the nodes as the database knows them, and with the sources that are bound to them. Pure. */
export function verdictsOnNodes(all: readonly NodeRecord[], sources: SourceSettings = []): readonly Verdict[] {
  const servers = all.filter(({ isCommand }) => !isCommand);
  const faults: Verdict[] = [];
  // The node that is asked is among them: it has given no sign of life either if the database does not take one.
  const isAway = servers.length > 0 && servers.every((one) => nodeState(one) === 'silent');
  if (isAway) {
    const seconds = Math.round(Math.min(...servers.map(({ quietMs }) => quietMs)) / 1000);
    faults.push(
      warning(
        `the database has not answered for ${String(seconds)} s, so nothing is known of the nodes`,
        'See the line of `database`. No node is removed because of it, and all go on when the database is back.',
      ),
    );
  }
  for (const one of servers) {
    const { name, quietMs } = one;
    if (!isAway && nodeState(one) === 'silent')
      faults.push(
        warning(
          `the node ${name} has given no sign of life for ${String(Math.round(quietMs / 1000))} s`,
          `Look at its machine. The others remove it by themselves soon; at once: posthorn nodes remove ${name}`,
          { copy: [`posthorn nodes remove ${name}`] },
        ),
      );
    if (one.isDraining)
      faults.push(
        warning(
          `the node ${name} is drained: balancers send it nothing`,
          `Stop it, or run: posthorn nodes resume ${name}`,
          {
            copy: [`posthorn nodes resume ${name}`],
          },
        ),
      );
  }
  if (servers.length > 0 && servers.every(({ isDelivering }) => !isDelivering))
    faults.push(
      warning(
        'no node delivers: mail waits and webhooks are not called',
        'Give one of them the role delivery in node.roles, and restart it.',
      ),
    );
  const versions = new Set(servers.map(({ version }) => version));
  if (versions.size > 1)
    faults.push(
      warning(
        `the nodes have different versions: ${servers.map(({ name, version }) => `${name} ${version}`).join(', ')}`,
        'End the upgrade: install the same version on all of them, one after another.',
      ),
    );
  const differing = differingSettings(servers.map(({ facts }) => facts));
  if (differing.length > 0)
    faults.push(
      warning(
        `the nodes have different settings: ${differing.join(', ')}`,
        'Make them the same in the settings of all nodes, and restart those that have others.',
      ),
    );
  const [first] = servers;
  return orWell(
    [...faults, ...faultsOfClocks(servers), ...faultsOfSources(servers, sources)],
    servers.length === 1 && first !== undefined
      ? `${first.name} is the only node: none takes over while it is down`
      : `${pluralize(servers.length, 'node')}, of the same version and with the same settings`,
  );
}

/** Nodes say themselves how far their clocks are from that of the database. */
function faultsOfClocks(servers: readonly NodeRecord[]): Verdict[] {
  return servers.flatMap(({ name, facts }) => {
    const off = clockOffIn(facts);
    if (off === 0) return [];
    return [
      warning(
        `the clock of the node ${name} is ${String(Math.abs(off))} ms ${off > 0 ? 'ahead of' : 'behind'} that of the database: mail that a node accepts for one with an earlier clock waits by the difference`,
        'Let a time service keep the clocks of all machines: systemctl enable --now systemd-timesyncd (or chrony).',
      ),
    ];
  });
}

/** A node refuses to start without a source of each pool, so that one that runs without was started with other settings. */
function faultsOfSources(servers: readonly NodeRecord[], sources: SourceSettings): Verdict[] {
  const names = new Set(servers.map(({ name }) => name));
  const away = sources.filter(({ node }) => node !== null && !names.has(node));
  const lacking = servers
    .filter(({ isDelivering }) => isDelivering)
    .flatMap(({ name }) => poolsElsewhere(sources, name).map((pool) => ({ name, pool })));
  return [
    ...lacking.map(({ name, pool }) =>
      warning(
        `the node ${name} has no source of the pool ${pool} in delivery.sources`,
        `Name a source of the pool with the node ${name}, or one without a node, in the settings of all nodes, and restart them.`,
      ),
    ),
    ...away.map(({ name, node }) =>
      warning(
        `the source ${name} belongs to the node ${node ?? ''}, which is not there: nothing is sent from it`,
        'Start that node, or correct `node` of the source in delivery.sources.',
      ),
    ),
  ];
}
