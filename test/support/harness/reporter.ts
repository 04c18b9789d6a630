/**
 * Mocha's dot reporter, and at the end one line that a script can read: `12 passed, 0 failed, 3 skipped`. Tests that passed only
 * when they were tried once more (`--retries`) are named: each waits for something by guessing.
 */
import Mocha from 'mocha';

export default class Reporter extends Mocha.reporters.Dot {
  private readonly retried: string[] = [];

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    runner.on(Mocha.Runner.constants.EVENT_TEST_RETRY, (test: Mocha.Test, error: Error) => {
      this.retried.push(`${test.fullTitle()}: ${error.message}`);
    });
  }

  override epilogue(): void {
    super.epilogue();
    for (const title of this.retried) console.log(`tried again: ${title}`);
    const { passes, failures, pending } = this.stats;
    console.log(`${passes} passed, ${failures} failed, ${pending} skipped`);
  }
}
