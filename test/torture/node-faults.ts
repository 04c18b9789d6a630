/** The faults of `npm run torture -- nodes`, and which of them each round gets. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeCluster, TortureNode } from './node-cluster.ts';
import type { SiteWatch } from './node-site.ts';

/** The parts that a fault may touch, and its report. */
export interface FaultRound {
  cluster: NodeCluster;
  target: TortureNode;
  random: () => number;
  site: SiteWatch;
  problem(text: string): void;
}

/**
 * What a fault does to whom. `leader`, `any` and `two` are lost or stand still; `database`: all nodes meet it, and may answer 503 meanwhile;
 * `each`: every node is away for a while; `drained`: every node takes no work for a while, and answers;
 * `none`: all nodes answer well throughout.
 */
export interface Fault {
  name: string;
  whom: 'leader' | 'any' | 'two' | 'database' | 'each' | 'drained' | 'none';
  /** The target is also lost. */
  losesTarget?: boolean;
  /** The mail of every domain must move again within this time, in ms. */
  withinMs: number;
  run(round: FaultRound): Promise<void>;
}

/** Waiting mail must move again so soon after its node died. */
const TAKEOVER_MS = 15_000;
/**
 * The same where a node gives its work away in order: a quarter of a second for the others to hear of it and to read the mail, and what waits before
 * it, over one connection in the first seconds. On a machine with several times more work than processors the last is most of it.
 */
const HANDOVER_MS = 3000;
/**
 * Others may take the connections of a node so long after it was paused or cut off: 12 s after its last sign of life, which may be 4 s older
 * on a busy machine.
 */
const TAKEN_AFTER_MS = 8000;
/** A node that drains ends what it has begun within this time, as the receiver is fast enough for that. */
const DRAINED_MS = 4000;

/** Its connections stay open while it is stopped or cut off, also when the others have taken its place. */
async function silent({ site, target }: FaultRound, ms: number): Promise<void> {
  await sleep(Math.min(ms, TAKEN_AFTER_MS));
  if (ms <= TAKEN_AFTER_MS) return;
  site.lose(target.name);
  await sleep(ms - TAKEN_AFTER_MS);
}

const pause =
  (ms: number): Fault['run'] =>
  async (round) => {
    const { cluster, target } = round;
    cluster.signal(target, 'SIGSTOP');
    await silent(round, ms);
    cluster.signal(target, 'SIGCONT');
  };

const cut =
  (ms: number): Fault['run'] =>
  async (round) => {
    const { proxy } = round.target;
    proxy.cut();
    await silent(round, ms);
    proxy.mend();
  };

/** The mail of its domains waits, since the node lives; others take it over only if an operator drains the node. */
async function cutFromTheWorld({ site, target }: FaultRound): Promise<void> {
  site.cut(target.name);
  await sleep(UNREACHED_MS);
  site.letThrough(target.name);
}

/** Ahead or behind by `least` to `most` ms, and back. */
const moveClock =
  (least: number, most: number): Fault['run'] =>
  async ({ cluster, target, random }) => {
    const ms = least + random() * (most - least);
    cluster.setClock(target, Math.round(random() < 0.5 ? -ms : ms));
    await sleep(10_000);
    cluster.setClock(target, 0);
  };

/** The nodes stay down long enough for others to take over. */
async function kill(cluster: NodeCluster, targets: readonly TortureNode[], random: () => number): Promise<void> {
  await Promise.all(
    targets.map((target) => {
      target.isKeptDown = true;
      return cluster.end(target, 'SIGKILL');
    }),
  );
  await sleep(3000 + random() * 5000);
}

const nextOf = ({ nodes }: NodeCluster, target: TortureNode): TortureNode =>
  nodes[(nodes.indexOf(target) + 1) % nodes.length] ?? target;

const killOne: Fault['run'] = ({ cluster, target, random }) => kill(cluster, [target], random);

/** Gives the work of each node in turn to the others, and back. */
async function drainEach({ cluster, random, site, problem }: FaultRound): Promise<void> {
  for (const { name } of cluster.nodes) {
    await cluster.command('nodes', 'drain', name, '--json');
    await sleep(DRAINED_MS);
    const from = performance.now();
    await sleep(1000 + random() * 2000);
    const brought = site.broughtBy(name, from);
    if (brought > 0) problem(`${name} brought ${String(brought)} mails while it was drained`);
    await cluster.command('nodes', 'resume', name, '--json');
    await sleep(random() * 3000);
  }
}

/** So long a node cannot reach the mail hosts, in ms. */
const UNREACHED_MS = 8000;
/** A node whose clock differs by 2 s leaves, since that of others is right; it looks while the machine is busy. */
const MOST_CLOCK_MS = 1700;
const LEAST_WRONG_CLOCK_MS = 2500;
/** So long no commit is answered, in ms: all leases run out. */
const WITHOUT_STANDBY_MS = 20_000;

const one = (name: string, run: Fault['run']): Fault => ({ name, whom: 'any', withinMs: TAKEOVER_MS, run });
const leader = (name: string, run: Fault['run']): Fault => ({ ...one(name, run), whom: 'leader' });
const database = (name: string, run: Fault['run']): Fault => ({ ...one(name, run), whom: 'database' });

/** Kills and pauses come more often than the rest. */
export const faults: readonly Fault[] = [
  leader('leader killed', killOne),
  one('node killed', killOne),
  one('node killed', killOne),
  one('node killed', killOne),
  {
    name: 'two nodes killed',
    whom: 'two',
    withinMs: TAKEOVER_MS,
    run: ({ cluster, target, random }) => kill(cluster, [target, nextOf(cluster, target)], random),
  },
  leader('leader stopped for 12 s', pause(12_000)),
  one('node stopped for 3 s', pause(3000)),
  one('node stopped for 12 s', pause(12_000)),
  one('node stopped for 30 s', pause(30_000)),
  one('node stopped for 60 s', pause(60_000)),
  leader('leader cut from the database', cut(25_000)),
  one('node cut from the database', cut(25_000)),
  database('database crashed', ({ cluster, random }) => cluster.pair.crash(random() * 2000)),
  database('failover of the database', async ({ cluster }) => {
    await cluster.pair.failOver();
    cluster.repoint();
    await sleep(5000);
    await cluster.pair.renewStandby();
  }),
  {
    ...database('standby gone', ({ cluster }) => cluster.pair.crashStandby(WITHOUT_STANDBY_MS)),
    withinMs: WITHOUT_STANDBY_MS + TAKEOVER_MS,
  },
  // Its dials were refused again and again, so the next one comes up to 18 s later.
  { ...one('node cut from the world', cutFromTheWorld), withinMs: UNREACHED_MS + 18_000 },
  { name: 'clock moved', whom: 'none', withinMs: TAKEOVER_MS, run: moveClock(0, MOST_CLOCK_MS) },
  one('clock wrong', moveClock(LEAST_WRONG_CLOCK_MS, 5000)),
  {
    name: 'each node restarted in turn',
    whom: 'each',
    withinMs: HANDOVER_MS,
    run: async ({ cluster }) => {
      for (const node of cluster.nodes) {
        await cluster.end(node, 'SIGTERM');
        await cluster.whole(60_000);
      }
    },
  },
  { name: 'each node drained and resumed in turn', whom: 'drained', withinMs: HANDOVER_MS, run: drainEach },
];

/** Returns the nodes that the fault loses or stops, of which second copies may come. */
export function nodesHit(
  { whom, losesTarget }: Fault,
  cluster: NodeCluster,
  target: TortureNode,
): readonly TortureNode[] {
  if (whom === 'leader' || whom === 'any' || losesTarget === true) return [target];
  return whom === 'two' ? [target, nextOf(cluster, target)] : [];
}

/** Plans the rounds: each fault once in every series, in an order that the random numbers give. */
export function faultPlan(rounds: number, random: () => number, of = faults): Fault[] {
  const plan: Fault[] = [];
  while (of.length > 0 && plan.length < rounds) {
    const series = of.map((fault) => ({ fault, at: random() })).sort((a, b) => a.at - b.at);
    plan.push(...series.map(({ fault }) => fault));
  }
  return plan.slice(0, rounds);
}
