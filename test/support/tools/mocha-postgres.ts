/**
 * `npm run mocha:postgres`: runs the tests that make a database a second time, on PostgreSQL. Where Debian's package is missing, it says so
 * in the reporter's words and ends.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { importsOf } from './imports.ts';

/** The parts of the suite that are about rows; what others do with a database is what these do. */
const PARTS = ['storage', 'messages', 'events', 'webhooks', 'mta', 'housekeeping', 'journeys'];
/** Files of other parts with tests for PostgreSQL alone. */
const ALSO = ['test/operator/exports.test.ts'];
/** Tests that start both engines by themselves, and would only run twice. */
const OF_BOTH = /^test\/storage\/(?:postgres|move)\//;
/**
 * Journeys about bytes of SMTP, TLS and HTTP, and about pages and sessions: what they write are the rows of the others. `--all` runs them, too.
 */
const FEW_ROWS =
  /^test\/journeys\/(?:beside-postfix|certificate|dane|dashboard-(?:ended-sessions|keys|rights-taken|roles|sent-twice|sign-in|templates)|dialogues|failure-notices|hostile-\w+|http-strangers|mta-sts|pressure|real-peers|requiretls|reverse-proxy|simulator|smtp-security|stolen-session|submission|submission-clients)\.test\.ts$/;
/** Several servers at once take long. These are begun first, since in the end one would run alone on one processor. */
const LONG = 'nodes';
/** The calls that make a database for a test. */
const MAKERS: ReadonlySet<string> = new Set(
  ['temp-database.ts', 'postgres.ts'].map((name) => `test/support/harness/${name}`),
);

const testsIn = (part: string): string[] =>
  readdirSync(path.join('test', part), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => path.join('test', part, name));

const known = new Map<string, boolean>();

/** Returns whether the file imports a maker of databases, or a file of the tests that does. */
function makesDatabase(file: string): boolean {
  const found = known.get(file);
  if (found !== undefined) return found;
  // Files that import one another end here.
  known.set(file, MAKERS.has(file));
  const imported = importsOf(file, readFileSync(file, 'utf8'))
    .filter(({ from }) => from.startsWith('.'))
    .map(({ from }) => path.join(path.dirname(file), from))
    .filter((one) => one.startsWith('test/') && one.endsWith('.ts'));
  const does = MAKERS.has(file) || imported.some(makesDatabase);
  known.set(file, does);
  return does;
}

if (!existsSync('/usr/lib/postgresql')) {
  console.log('skipped 1: PostgreSQL is not installed (apt-get install postgresql)');
} else {
  const isWhole = process.argv.includes('--all');
  const runsTwice = (file: string): boolean =>
    !OF_BOTH.test(file) && (isWhole || !FEW_ROWS.test(file)) && makesDatabase(file);
  const all = [...PARTS.flatMap(testsIn).filter(runsTwice), ...ALSO];
  const files = [...all.filter((file) => file.includes(LONG)), ...all.filter((file) => !file.includes(LONG))];
  const { status } = spawnSync('mocha', ['--parallel', '--jobs', '3', ...files], {
    stdio: 'inherit',
    env: { ...process.env, POSTHORN_TEST_STORAGE: 'postgres' },
  });
  process.exitCode = status ?? 1;
}
