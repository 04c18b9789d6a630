/** Mocha's dot reporter, and at the end one line that a script can read: `12 passed, 0 failed, 3 skipped`. */
import Mocha from 'mocha';

export default class Reporter extends Mocha.reporters.Dot {
  override epilogue(): void {
    super.epilogue();
    const { passes, failures, pending } = this.stats;
    console.log(`${passes} passed, ${failures} failed, ${pending} skipped`);
  }
}
