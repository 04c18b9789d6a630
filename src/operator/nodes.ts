/** Operations on the nodes, the servers that use one database: what they do, and taking one out of service. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { NodeRecord, Nodes } from '../storage/nodes.ts';
import { takersOf } from '../storage/owners.ts';
import type { StoreDeps } from './deps.ts';
import { storeRoute } from './server-route.ts';

/** Three signs of life are missing. */
const SILENT_AFTER_MS = 6000;

type NodeState = 'leading' | 'running' | 'draining' | 'silent' | 'command';

const nodeArgument = z.string().min(1).max(100);
const kept = ['epoch', 'name', 'state', 'version'];

export const nodeOperations = {
  /** Returns the servers and the commands that write by themselves, the one that leads first. */
  'nodes.list': storeRoute({
    run: ({ nodes, clock }) =>
      Promise.resolve({ data: nodes === null ? [] : nodes.list().map((one) => nodeRecord(one, nodes, clock.now())) }),
  }),
  /** Has a node give its mail and webhooks to the others, refuse new SMTP sessions and answer 503 at /readyz; it still answers requests. */
  'nodes.drain': storeRoute({
    act: { says: 'drained the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument }),
    run: (deps, { node }, act) => setDraining(deps, node, true, (record) => act.on({ object: node, after: record })),
  }),
  'nodes.resume': storeRoute({
    act: { says: 'ended the draining of the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument }),
    run: (deps, { node }, act) => setDraining(deps, node, false, (record) => act.on({ object: node, after: record })),
  }),
  /** Ends a node: what it writes fails from then on, and its process stops when it notices. The others take over its mail. */
  'nodes.remove': storeRoute({
    act: { says: 'removed the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument, force: z.boolean().optional() }),
    async run(deps, { node, force = false }, act) {
      act.on({ object: node });
      const { nodes, found } = findNode(deps, node);
      const record = nodeRecord(found, nodes, deps.clock.now());
      act.on({ before: record });
      if (found.epoch === nodes.epoch)
        throw new Problem('invalid_state', `${found.name} is the node that you ask: stop it instead`, {
          field: 'node',
        });
      if (record.state !== 'silent' && !force)
        throw new Problem(
          'invalid_state',
          `the node ${found.name} lives: stop it there, or remove it by force, which ends what it is doing`,
          { field: 'node' },
        );
      await nodes.remove(found.epoch);
      return record;
    },
  }),
};

async function setDraining(
  deps: StoreDeps,
  node: string,
  isDraining: boolean,
  note: (record: object) => void,
): Promise<ReturnType<typeof nodeRecord>> {
  note({ name: node });
  const { nodes, found } = findNode(deps, node);
  await nodes.setDraining(found.epoch, isDraining);
  const record = nodeRecord({ ...found, isDraining }, nodes, deps.clock.now());
  note(record);
  return record;
}

/** Finds a node by its name or epoch. Throws a `Problem` if there is none, or if there can be only one. */
function findNode({ nodes, db }: StoreDeps, wanted: string): { nodes: Nodes; found: NodeRecord } {
  if (nodes === null || db.engine === 'sqlite')
    throw new Problem(
      'invalid_state',
      'a database of SQLite has one server, so that this is for PostgreSQL: stop the server instead',
    );
  const servers = nodes.list().filter(({ isCommand }) => !isCommand);
  const found = servers.find(({ name, epoch }) => name === wanted || String(epoch) === wanted);
  if (found === undefined)
    throw new Problem('not_found', `there is no node ${JSON.stringify(wanted)}: see \`posthorn nodes list\``, {
      field: 'node',
    });
  return { nodes, found };
}

function nodeRecord(node: NodeRecord, nodes: Pick<Nodes, 'epoch' | 'list'>, now: number) {
  return {
    object: 'node' as const,
    epoch: node.epoch,
    name: node.name,
    state: nodeState(node),
    /** True if it does the chores. One that drains still leads until it is stopped. */
    leads: node.isLeader,
    /** True if it takes mail and webhook calls: it has the role `delivery`, and it is not drained, or all others that deliver are too. */
    delivers: epochsThatDeliver(nodes.list()).has(node.epoch),
    version: node.version,
    since: rfc3339(node.since),
    last_sign_of_life_at: rfc3339(now - node.quietMs),
    /** True for the node that answers. */
    this: node.epoch === nodes.epoch,
  };
}

/** Returns the nodes that take mail and webhook calls now. */
export const epochsThatDeliver = (all: readonly NodeRecord[]): ReadonlySet<number> =>
  new Set(takersOf(all.filter(({ isCommand }) => !isCommand)).map(({ epoch }) => epoch));

export function nodeState({ isCommand, isDraining, isLeader, quietMs }: NodeRecord): NodeState {
  if (isCommand) return 'command';
  if (quietMs >= SILENT_AFTER_MS) return 'silent';
  if (isDraining) return 'draining';
  return isLeader ? 'leading' : 'running';
}
