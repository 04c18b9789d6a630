/** The rolling upgrade of `npm run torture -- nodes --from DIR`: nodes of another build are replaced one by one, and one is killed. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, FaultRound } from './node-faults.ts';

const WHOLE_MS = 60_000;
/** An operator looks whether all is well before going on with the next node. */
const LOOK_MS = 6000;

/**
 * Replaces each node in an order that the random numbers give: drained, stopped in order, and started as this build. In one of these steps
 * the target is killed, whichever build it runs then; its supervisor starts it again.
 */
async function replaceEach({ cluster, target, random, problem }: FaultRound): Promise<void> {
  const order = cluster.nodes.map((node) => ({ node, at: random() })).sort((a, b) => a.at - b.at);
  const killAt = Math.floor(random() * order.length);
  for (const [at, { node }] of order.entries()) {
    await cluster.command('nodes', 'drain', node.name, '--json');
    await sleep(random() * 2000);
    if (at === killAt) await cluster.end(target, 'SIGKILL');
    await sleep(random() * 2000);
    node.dir = null;
    await cluster.end(node, 'SIGTERM');
    await cluster.whole(WHOLE_MS).catch((error: unknown) => problem(`after ${node.name}: ${String(error)}`));
    await sleep(random() * LOOK_MS);
  }
}

/** While it runs, the nodes of the older build work as they always did. */
export const upgrade: Fault = {
  name: 'rolling upgrade',
  whom: 'each',
  losesTarget: true,
  withinMs: 15_000,
  run: replaceEach,
};
