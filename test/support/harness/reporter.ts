/**
 * Mocha's dot reporter. It names a failed test at once, since the list of failures comes only at the end of a run that takes long. Then it
 * lists how long each folder of tests took, why tests were skipped (`skipped 12: corpora not present`), which tests passed only when they were retried (`--retries`), and one
 * line that a script can read: `12 passed, 0 failed, 3 skipped`. `.ci/run` reads these lines.
 */
import path from 'node:path';
import Mocha from 'mocha';
import { reasonIn } from './skip-reason.ts';

const { EVENT_HOOK_END, EVENT_TEST_END, EVENT_TEST_FAIL, EVENT_TEST_PENDING, EVENT_TEST_RETRY } =
  Mocha.Runner.constants;

/** Folders that took less are not shown. */
const SHOWN_MS = 1000;

export default class Reporter extends Mocha.reporters.Dot {
  private readonly retried: string[] = [];
  private readonly skipped = new Map<string, number>();
  /** Milliseconds by folder of `test/`: those of tests and of their hooks, in all processes together. */
  private readonly times = new Map<string, number>();

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    runner.on(EVENT_TEST_FAIL, (test: Mocha.Test, error: Error) => {
      console.log(`\n  failed: ${test.fullTitle()}: ${error.message.split('\n', 1)[0] ?? ''}`);
    });
    runner.on(EVENT_TEST_END, (test: Mocha.Test) => {
      this.addTime(test);
    });
    runner.on(EVENT_HOOK_END, (hook: Mocha.Hook) => {
      this.addTime(hook);
    });
    runner.on(EVENT_TEST_RETRY, (test: Mocha.Test, error: Error) => {
      this.retried.push(`${test.fullTitle()}: ${error.message}`);
    });
    runner.on(EVENT_TEST_PENDING, (test: Mocha.Test) => {
      const reason = reasonIn(test.title) ?? `no reason: ${test.fullTitle()}`;
      this.skipped.set(reason, (this.skipped.get(reason) ?? 0) + 1);
    });
  }

  private addTime({ file, duration = 0 }: Mocha.Runnable): void {
    const folder = path.relative('test', file ?? 'test').split(path.sep)[0] ?? '';
    this.times.set(folder, (this.times.get(folder) ?? 0) + duration);
  }

  override epilogue(): void {
    super.epilogue();
    const slowest = [...this.times].sort(([, a], [, b]) => b - a).filter(([, ms]) => ms >= SHOWN_MS);
    if (slowest.length > 0)
      console.log(`seconds: ${slowest.map(([folder, ms]) => `${folder} ${(ms / 1000).toFixed(0)}`).join(', ')}`);
    for (const [reason, count] of this.skipped) console.log(`skipped ${count}: ${reason}`);
    for (const title of this.retried) console.log(`tried again: ${title}`);
    const { passes, failures, pending } = this.stats;
    console.log(`${passes} passed, ${failures} failed, ${pending} skipped`);
  }
}
