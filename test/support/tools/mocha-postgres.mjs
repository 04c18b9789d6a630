/**
 * `npm run mocha:postgres`: runs the tests of everything that reads or writes rows a second time, on PostgreSQL. Where Debian's package is
 * missing, it says so in the reporter's words and ends.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** The parts of the suite that are about rows; the others would only run twice. */
const PARTS = ['storage', 'messages', 'events', 'webhooks', 'mta', 'housekeeping', 'journeys'];

if (!existsSync('/usr/lib/postgresql')) {
  console.log('skipped 1: PostgreSQL is not installed (apt-get install postgresql)');
} else {
  const globs = PARTS.map((part) => `test/${part}/**/*.test.ts`);
  const { status } = spawnSync('mocha', ['--parallel', '--jobs', '2', ...globs], {
    stdio: 'inherit',
    env: { ...process.env, POSTHORN_TEST_STORAGE: 'postgres' },
  });
  process.exitCode = status ?? 1;
}
