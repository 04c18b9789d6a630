/** Root hooks: a test that leaves a socket or a server open has a leak, and fails for it. */
import assert from 'node:assert/strict';

// Mocha passes over a rejection that nobody handles, but it ends the service (`crashed` in the log): here it fails the test.
process.on('unhandledRejection', (reason) => {
  throw reason;
});

const openNetwork = (): string[] => process.getActiveResourcesInfo().filter((name) => /TCP|UDP|PipeServer/.test(name));

let before: string[] = [];

/** What is open beyond what was open before the test; a suite that shares a server among its tests keeps it. */
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
    // A closed socket is listed until the loop has turned a few times; that is no leak.
    for (let turn = 0; turn < 200 && leaked().length > 0; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(leaked(), [], 'the test left sockets or servers open');
  },
};
