/**
 * `npm run bench -- cost`: CPU time and disk for one message, at ten times as many messages each time. Exit 1 where ten times the work
 * takes more than eleven times the CPU time, or a message of 4 KiB with its events more than 9 KiB of disk.
 */
import { statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measuredRun } from './measured-run.ts';
import { missing, startSink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: { counts: { type: 'string', default: '10000,100000' }, warm: { type: 'string' } },
});
const counts = options.counts.split(',').map(Number);
/** Mails before the first that counts: what V8 compiles belongs to no message. */
const warm = Number(options.warm ?? Math.min(3000, counts[0] ?? 0));
const MOST_CPU = 1.1;
const MOST_KIB = 9;

interface Cost {
  count: number;
  cpuMs: number;
  diskKib: number;
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

async function costOf(count: number, sinkPort: number): Promise<Cost> {
  let bytes = 0;
  const { cpuMs } = await measuredRun({
    sinkPort,
    sessions: 50,
    messages: count,
    warm,
    size: 4096,
    connections: 50,
    afterwards({ dataDir }) {
      const file = path.join(dataDir, 'posthorn.db');
      bytes = sizeOf(file) + sizeOf(`${file}-wal`);
    },
  });
  return { count, cpuMs, diskKib: bytes / 1024 / (count + warm) };
}

async function main(): Promise<void> {
  if (missing('smtp-sink').length > 0) {
    console.error('missing: smtp-sink; install with: apt-get install postfix');
    process.exitCode = 69;
    return;
  }
  const sink = await startSink();
  const costs: Cost[] = [];
  try {
    for (const count of counts) {
      const cost = await costOf(count, sink.port);
      costs.push(cost);
      tell(
        `${String(count)} messages: ${cost.cpuMs.toFixed(2)} ms CPU and ${cost.diskKib.toFixed(1)} KiB of disk each`,
        { name: `CPU a message, ${String(count)}`, value: cost.cpuMs, unit: 'ms' },
        { name: `disk a message, ${String(count)}`, value: cost.diskKib, unit: 'KiB' },
      );
    }
  } finally {
    sink.stop();
  }
  const [first, last] = [costs[0], costs.at(-1)];
  if (first === undefined || last === undefined) return;
  const growth = last.cpuMs / first.cpuMs;
  tell(
    `from ${String(first.count)} to ${String(last.count)} messages the CPU time of each grows ${growth.toFixed(2)} x (limit ${String(MOST_CPU)}); disk ${last.diskKib.toFixed(1)} KiB (limit ${String(MOST_KIB)})`,
    {
      name: `CPU a message, ${String(last.count)} / ${String(first.count)}`,
      value: growth,
      unit: 'x',
      atMost: MOST_CPU,
    },
    { name: 'disk a message', value: last.diskKib, unit: 'KiB', atMost: MOST_KIB },
  );
}

await main();
