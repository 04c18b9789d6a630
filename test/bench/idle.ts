/**
 * `npm run bench -- idle`: the built appliance without work. Exit 1 above 150 MB of resident memory, 1 % of a core, or 2 s from
 * SIGTERM until it is ready again.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startAppliance } from './appliance.ts';
import { median } from './measured-run.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, restarts: { type: 'string', default: '5' } },
});
const seconds = Number(options.seconds);
/** The first seconds, in which code is compiled and files are read, do not show the idle program. */
const SETTLE_MS = Math.min(10_000, seconds * 1000);
const MOST_MIB = 150e6 / 2 ** 20;
const MOST_PERCENT = 1;
const LONGEST_RESTART_MS = 2000;

const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-idle-'));
try {
  const first = await startAppliance({ dataDir });
  await pause(SETTLE_MS);
  const before = first.cpu();
  await pause(seconds * 1000);
  const percent = ((first.cpu() - before) / (seconds * 1000)) * 100;
  const rss = first.rss();
  await first.stop();
  const restarts: number[] = [];
  for (let n = 0; n < Number(options.restarts); n++) {
    const running = await startAppliance({ dataDir });
    const begun = performance.now();
    await running.stop();
    const next = await startAppliance({ dataDir });
    restarts.push(performance.now() - begun);
    await next.stop();
  }
  const restart = median(restarts);
  tell(
    `idle: ${rss.toFixed(0)} MiB (limit ${MOST_MIB.toFixed(0)}), ${percent.toFixed(2)} % of a core (limit ${String(MOST_PERCENT)}), restart ${restart.toFixed(0)} ms (limit ${String(LONGEST_RESTART_MS)})`,
    { name: 'resident memory, idle', value: rss, unit: 'MiB', atMost: MOST_MIB },
    { name: 'CPU, idle', value: percent, unit: '% of a core', atMost: MOST_PERCENT },
    { name: 'restart', value: restart, unit: 'ms', atMost: LONGEST_RESTART_MS },
  );
} finally {
  rmSync(dataDir, { recursive: true, force: true });
  rmSync(`${dataDir}.log`, { force: true });
}
