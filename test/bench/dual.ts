/**
 * `npm run bench -- dual`: what the second signature costs. Interleaved runs of the same mail, signed with RSA-2048 and Ed25519 as
 * every domain is, and with RSA alone: there the Ed25519 key is deleted before the first mail. Exit 1 where the two take more than 5 %
 * more CPU time for a message; rates are shown beside it and not held, since they depend on what else the machine does.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import sqlite3 from 'sqlite3';
import type { Appliance } from './appliance.ts';
import { measuredRun, median, type Run } from './measured-run.ts';
import { missing, startSink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    messages: { type: 'string', default: '5000' },
    warm: { type: 'string', default: '10000' },
    sessions: { type: 'string', default: '50' },
  },
});
const MOST = 1.05;

/** Leaves the domain with its RSA key only. */
async function onlyRsa({ dataDir }: Appliance): Promise<void> {
  const db = new sqlite3.Database(path.join(dataDir, 'posthorn.db'));
  const deleted = await new Promise<number>((resolve, reject) => {
    db.run("DELETE FROM dkim_keys WHERE algorithm = 'ed25519-sha256'", function (error: Error | null) {
      if (error === null) resolve(this.changes);
      else reject(error);
    });
  });
  db.close();
  if (deleted !== 1) throw new Error(`${String(deleted)} Ed25519 keys were deleted instead of one`);
}

async function main(): Promise<void> {
  if (missing('smtp-sink').length > 0) {
    console.error('missing: smtp-sink; install with: apt-get install postfix');
    process.exitCode = 69;
    return;
  }
  const sink = await startSink();
  const common = {
    sinkPort: sink.port,
    sessions: Number(options.sessions),
    messages: Number(options.messages),
    warm: Number(options.warm),
    size: 4096,
    connections: 50,
  };
  const both: Run[] = [];
  const one: Run[] = [];
  try {
    for (let run = 1; run <= Number(options.runs); run++) {
      for (const [name, runs, prepare] of [
        ['RSA and Ed25519', both, async () => undefined],
        ['RSA alone', one, onlyRsa],
      ] as const) {
        const measured = await measuredRun({ ...common, prepare });
        runs.push(measured);
        console.log(
          `run ${String(run)}  ${name.padEnd(16)} ${measured.rate.toFixed(0).padStart(6)} messages/s  ${measured.cpuMs.toFixed(3)} ms CPU a message`,
        );
      }
    }
  } finally {
    sink.stop();
  }
  const cpu = (runs: readonly Run[]): number => median(runs.map(({ cpuMs }) => cpuMs));
  const rate = (runs: readonly Run[]): number => median(runs.map((run) => run.rate));
  const ratio = cpu(both) / cpu(one);
  tell(
    `CPU time with both signatures: ${ratio.toFixed(3)} x that with RSA alone (limit ${String(MOST)} x)`,
    { name: 'CPU time with both / RSA alone', value: ratio, unit: 'x', atMost: MOST },
    {
      name: 'CPU time for a message, both',
      value: cpu(both),
      unit: 'ms',
      peer: { name: 'RSA alone', value: cpu(one) },
    },
    { name: 'rate, both', value: rate(both), unit: 'messages/s', peer: { name: 'RSA alone', value: rate(one) } },
  );
}

await main();
