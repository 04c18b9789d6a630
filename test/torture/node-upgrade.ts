/** The rolling upgrade of `npm run torture:nodes -- --from DIR`: nodes of another build are replaced one by one. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, FaultRound } from './node-faults.ts';

const WHOLE_MS = 60_000;
/** An operator looks whether all is well before going on with the next node. */
const LOOK_MS = 6000;

/** Replaces each node in an order that the random numbers give: drained, stopped in order, and started as this build. */
async function replaceEach({ cluster, random, problem }: FaultRound): Promise<void> {
  const order = cluster.nodes.map((node) => ({ node, at: random() })).sort((a, b) => a.at - b.at);
  for (const { node } of order) {
    await cluster.command('nodes', 'drain', node.name, '--json');
    await sleep(1000);
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
  withinMs: 15_000,
  run: replaceEach,
};
