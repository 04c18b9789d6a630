/** Root hooks: a test that leaves a socket or a server open fails, and so does one that is skipped without a reason. */
import assert from 'node:assert/strict';
import Mocha from 'mocha';
import { titleWithReason } from './skip-reason.ts';

declare module 'mocha' {
  interface Context {
    /** Skips the test, or all tests of the suite in a `before` hook. The reporter lists the reason. */
    skip(reason: string): never;
  }
}

// Mocha's own `skip` takes no reason. The title is all of a test that reaches the reporter from a parallel process.
const context = Mocha.Context.prototype as { skip(this: Mocha.Context, reason?: string): never };
const skip = context.skip;
context.skip = function (reason) {
  assert.ok(reason, 'say why: this.skip(reason)');
  const { test, currentTest } = this;
  const mark = (one: { title: string }): void => {
    one.title = titleWithReason(one.title, reason);
  };
  if (test?.title.startsWith('"before all"') === true) test.parent?.eachTest(mark);
  else if (currentTest !== undefined) mark(currentTest);
  else if (test !== undefined) mark(test);
  return skip.call(this);
};

// Mocha ignores an unhandled rejection, but it ends the service (`crashed` in the log): here it fails the test.
process.on('unhandledRejection', (reason) => {
  throw reason;
});

const openNetwork = (): string[] => process.getActiveResourcesInfo().filter((name) => /TCP|UDP|PipeServer/.test(name));

/** Only reached where something stays open. */
const PATIENCE_MS = 20_000;

let before: string[] = [];

/** Returns the resources that the test has opened and not closed; a suite that shares a server among its tests keeps it. */
function leaked(): string[] {
  const now = openNetwork();
  if (before.length > 0)
    return now.filter((name) => /Server|UDP/.test(name)).slice(before.filter((name) => /Server|UDP/.test(name)).length);
  return now;
}

export const mochaHooks = {
  beforeEach(): void {
    before = openNetwork();
  },
  async afterEach(): Promise<void> {
    // A closed socket is listed until the loop has turned a few times, and until the other end's farewell has arrived; that is not a leak.
    const end = performance.now() + PATIENCE_MS;
    while (leaked().length > 0 && performance.now() < end) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(leaked(), [], 'the test left sockets or servers open');
  },
};
