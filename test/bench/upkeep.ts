/**
 * `npm run bench -- upkeep [--messages 1000000] [--data <folder>]`: a database of that many messages, all of them too old, while
 * a client writes all the time. Prints how fast they go, how long a write waits at worst, and what becomes of the file.
 * `--data` is changed: give a copy. `--alone`: no client writes meanwhile. `--seconds 60`: no rule runs for longer; the rate is that of what it did. Of the five writes that
 * waited longest it says what they waited for.
 *
 * `npm run bench -- upkeep --life 60 [--messages 120000]`: that many days instead, the messages spread over them, bodies kept for a
 * sixth of the time and messages for a third. Prints the size of the file day by day: it must stop growing.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/base/clock.ts';
import { createHousekeeping, takeStep, type Rule } from '../../src/housekeeping/housekeeping.ts';
import { retentionRules } from '../../src/housekeeping/retention.ts';
import { roomRule } from '../../src/housekeeping/old-rows.ts';
import { balance } from '../../src/messages/store/books.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { keepAwake } from './awake.ts';
import { Watch } from './blame.ts';
import { live } from './life.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '1000000' },
    data: { type: 'string' },
    life: { type: 'string' },
    seconds: { type: 'string' },
    alone: { type: 'boolean', default: false },
  },
});
const folder = values.data ?? mkdtempSync(path.join(os.tmpdir(), 'posthorn-upkeep-'));
if (values.life !== undefined) {
  const days = Number(values.life);
  const mebi = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
  await live(folder, {
    days,
    messagesADay: Math.round(Number(values.messages) / days),
    keep: { content: Math.ceil(days / 6), messages: Math.ceil(days / 3) },
    told({ day, bytes, freeBytes, messages, contents, events }) {
      console.log(
        `day ${String(day)}: ${mebi(bytes)} MiB, ${mebi(freeBytes)} of them free; ${String(messages)} messages, ${String(contents)} bodies, ${String(events)} events`,
      );
    },
  });
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
}
const file = path.join(folder, 'posthorn.db');
if (values.data === undefined) {
  const seeded = spawnSync(
    process.execPath,
    [
      '--import',
      './test/support/harness/as-esm.mjs',
      '--import',
      'tsx',
      'test/seed/seed.ts',
      '--messages',
      values.messages,
      '--data',
      folder,
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  if (seeded.status !== 0) process.exit(1);
}
const mebibytes = (name: string): number =>
  Math.round((statSync(name, { throwIfNoEntry: false })?.size ?? 0) / 2 ** 20);
const size = mebibytes(file);
const db = await openDatabase({ url: `sqlite:${file}` });

/** Tells the writes of this run from those of an earlier one on the same folder. */
const run = String(Date.now());
const ALONE_MS = 5000;
const DAY = 86_400_000;
/** All of the month that was seeded is too old by now. */
const clock = { ...systemClock, now: () => systemClock.now() + 400 * DAY };
const done = new Set<string>();
const most = Number(values.seconds ?? Infinity) * 1000;
const taken = new Map<string, number>();
const log = {
  info: () => undefined,
  error: (fields: object) => {
    console.error(fields);
  },
};
const long = { messages: 90 * DAY, events: 90 * DAY, audit: 90 * DAY, reports: 90 * DAY };
const kept = { ...long, content: 30 * DAY, requestDetails: 30 * DAY };
const watch = new Watch(db.commit, file);
const watched = { ...db, commit: watch.commit };
const all = [...retentionRules({ db: watched, clock, retention: kept }), roomRule(watched, clock)];
/** Each rule runs once, at once: its time is told when it gives way to the next. */
const rules = all.map((rule): Rule => ({
  ...rule,
  everyMs: 0,
  async step(rows, commit) {
    const step = await takeStep(rule, rows, commit);
    taken.set(rule.name, (taken.get(rule.name) ?? 0) + step.rows);
    if (!step.more) done.add(rule.name);
    return step;
  },
}));
const waits = (times: readonly number[]): string => {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1);
  return `(${String(sorted.length)}): p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} ms`;
};
const tookMs = ({ ms }: { ms: number }): number => ms;
const letSleep = keepAwake();
const probing = new AbortController();
const probe = (async () => {
  for (let n = 0; !probing.signal.aborted && (!values.alone || watch.rule === ''); n++) {
    await watch.write(`probe ${run} ${String(n)}`);
    await systemClock.sleep(10);
  }
})();
// The speed of this disk for writes that nothing holds up: their waits beside upkeep are compared with it.
await systemClock.sleep(ALONE_MS);
const alone = watch.writes.splice(0);
const from = performance.now();
for (const rule of rules) {
  watch.rule = rule.name;
  const housekeeping = createHousekeeping({ clock, log, commit: watch.commit, isBusy: () => db.commit.waiting > 0 }, [
    rule,
  ]);
  const began = performance.now();
  housekeeping.start();
  const cpu = process.cpuUsage();
  while (!done.has(rule.name) && performance.now() - began < most) await systemClock.sleep(20);
  await housekeeping.stop();
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const rows = taken.get(rule.name) ?? 0;
  console.log(
    `${rule.name}: ${String(rows)} in ${seconds.toFixed(1)} s, ${(rows / seconds).toFixed(0)} a second; CPU ${((user + system) / 1000 / Math.max(1, rows)).toFixed(3)} ms each; ` +
      `its steps held the writer ${waits(watch.holds.filter(({ rule: whose }) => whose === rule.name).map(tookMs))}`,
  );
}
probing.abort();
await probe;
watch.close();
letSleep();
const slowest = [...watch.writes].sort((a, b) => b.ms - a.ms);
const balanced =
  values.seconds === undefined ? ((await balance(db.reader)).balanced ? 'balance' : 'do NOT balance') : 'not asked';
await db.close();
console.log(
  `writes alone ${waits(alone.map(tookMs))}; beside it ${waits(watch.writes.map(tookMs))}; ` +
    `the writer was held by steps of upkeep ${waits(watch.holds.map(tookMs))}; ` +
    `file ${String(size)} -> ${String(mebibytes(file))} MiB in ${((performance.now() - from) / 1000).toFixed(0)} s; books ${balanced}`,
);
for (const { ms, blame } of slowest.slice(0, 5)) console.log(`  ${ms.toFixed(1)} ms: ${blame}`);
if (values.data === undefined) rmSync(folder, { recursive: true, force: true });
