/** The faults of `npm run torture:nodes`, and which of them each round gets. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeCluster, TortureNode } from './node-cluster.ts';

/** What a fault does to whom. `database`: all nodes meet it, and may answer 503 meanwhile. `each`: every node is away for a while. */
export interface Fault {
  name: string;
  whom: 'leader' | 'other' | 'database' | 'each';
  run(cluster: NodeCluster, target: TortureNode, random: () => number): Promise<void>;
}

const pause =
  (ms: number): Fault['run'] =>
  async (cluster, target) => {
    cluster.signal(target, 'SIGSTOP');
    await sleep(ms);
    cluster.signal(target, 'SIGCONT');
  };

/** The node stays down long enough for others to take over. */
const kill: Fault['run'] = async (cluster, target, random) => {
  target.isKeptDown = true;
  await cluster.end(target, 'SIGKILL');
  await sleep(3000 + random() * 5000);
  target.isKeptDown = false;
};

const cut =
  (ms: number): Fault['run'] =>
  async (_cluster, { proxy }) => {
    proxy.cut();
    await sleep(ms);
    proxy.mend();
  };

/** The leader dies twice as often as the others. */
export const faults: readonly Fault[] = [
  { name: 'leader killed', whom: 'leader', run: kill },
  { name: 'leader killed', whom: 'leader', run: kill },
  { name: 'other node killed', whom: 'other', run: kill },
  { name: 'leader stopped for 3 s', whom: 'leader', run: pause(3000) },
  { name: 'leader stopped for 12 s', whom: 'leader', run: pause(12_000) },
  { name: 'leader stopped for 30 s', whom: 'leader', run: pause(30_000) },
  { name: 'other node stopped for 12 s', whom: 'other', run: pause(12_000) },
  { name: 'leader cut from the database', whom: 'leader', run: cut(25_000) },
  { name: 'other node cut from the database', whom: 'other', run: cut(25_000) },
  {
    name: 'database crashed',
    whom: 'database',
    run: (cluster, _target, random) => cluster.pair.crash(random() * 2000),
  },
  {
    name: 'failover of the database',
    whom: 'database',
    run: async (cluster) => {
      await cluster.pair.failOver();
      cluster.repoint();
      await sleep(5000);
      await cluster.pair.renewStandby();
    },
  },
  {
    name: 'each node restarted in turn',
    whom: 'each',
    run: async (cluster) => {
      for (const node of cluster.nodes) {
        await cluster.end(node, 'SIGTERM');
        await cluster.whole(60_000);
      }
    },
  },
];

/** Plans the rounds: each fault once in every series, in an order that the random numbers give. */
export function faultPlan(rounds: number, random: () => number): Fault[] {
  const plan: Fault[] = [];
  while (plan.length < rounds) {
    const series = faults.map((fault) => ({ fault, at: random() })).sort((a, b) => a.at - b.at);
    plan.push(...series.map(({ fault }) => fault));
  }
  return plan.slice(0, rounds);
}
