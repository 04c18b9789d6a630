/**
 * The two tiers of tests. `npm test` runs what a change most likely breaks: format, lint, types, the tests of the modules and some journeys.
 * `npm run test:all` runs the rest: dead code, all other journeys, the browser, real peers, kills, and PostgreSQL. Both print how long each
 * folder took, and the line that `.ci/run` adds up.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { importsOf } from './imports.ts';

/** Journeys that `npm test` runs: one for each thing that people do. */
const QUICK_JOURNEYS = [
  ...['catalogue', 'dashboard-pages', 'dashboard-work', 'delivery', 'events', 'holds', 'idempotent-writes', 'reports'],
  ...['retries', 'stats', 'submission', 'suppressions', 'templates', 'tracking', 'webhooks'],
];
/** Tests that take long or need other programs: the rest. */
const LATER =
  /^test\/(?:bench|browser|image|journeys|systemd|torture|zoo)\/|^test\/storage\/(?:move|postgres)\/|^test\/backup\/(?:move|postgres)|^test\/api\/openapi-(?:lint|typescript)|^test\/client\/built|^test\/monitoring\/|^test\/(?:docs|samples)\.test\.ts$/;

/**
 * Tests of what the program writes and reads, which run on both engines: those of each room with statements of its own, if they make a
 * database, and every operation of the API with a key of another account. Coverage on PostgreSQL shows what they leave out.
 */
const STORAGE =
  /^test\/(?:accounts|domains|events|housekeeping|keys|members|messages|storage|suppressions|templates|webhooks)\/|^test\/inbound\/(?:aggregate-store|bounded-store)|^test\/operator\/(?!doctor\/)|^test\/mta\/(?:due-queue|lanes|prepare|sources|sweeper|tls)|^test\/api\/scopes/;
/** Journeys that run on PostgreSQL as well, and those of several nodes, which run on nothing else. */
const BOTH_JOURNEYS = [
  ...['delivery', 'events', 'interruptions', 'postgres-plans', 'reports', 'retries', 'webhooks'],
  ...['all-deliver', 'shared-limits', 'sources-of-nodes', 'two-nodes', 'webhooks-at-nodes'],
];
/** Tests that start both engines by themselves. */
const OF_BOTH = /^test\/storage\/(?:move|postgres)\//;
/** The calls that make a database for a test. */
const MAKERS: ReadonlySet<string> = new Set(
  ['temp-database.ts', 'postgres.ts'].map((name) => `test/support/harness/${name}`),
);
const CACHE = 'node_modules/.cache';

const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => path.join('test', name))
  .sort();
const journey = (name: string): string => `test/journeys/${name}.test.ts`;
const isQuick = (file: string): boolean => !LATER.test(file) || QUICK_JOURNEYS.some((name) => file === journey(name));

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

interface Step {
  name: string;
  command: readonly string[];
  /** A step with tests prints its lines at once; the output of others is shown if they fail. */
  isTests?: boolean;
  env?: Readonly<Record<string, string>>;
}

/** Runs one step and returns whether it passed. */
async function runStep({ name, command, isTests = false, env = {} }: Step): Promise<boolean> {
  const begun = performance.now();
  const [program = '', ...args] = command;
  const child = spawn(path.join('node_modules/.bin', program), args, {
    stdio: isTests ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const output: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => output.push(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) console.log(Buffer.concat(output).toString());
  console.log(`${name}: ${code === 0 ? 'good' : 'FAILED'}, ${seconds(performance.now() - begun)}`);
  return code === 0;
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(0)} s`;

/** Runs steps two at a time, one for each core of a small machine; returns whether all passed. */
async function runPaired(steps: readonly Step[]): Promise<boolean> {
  const waiting = [...steps];
  let passed = true;
  const worker = async (): Promise<void> => {
    for (let step = waiting.shift(); step !== undefined; step = waiting.shift())
      passed = (await runStep(step)) && passed;
  };
  await Promise.all([worker(), worker()]);
  return passed;
}

/** Tests as one run of mocha: files that take long are begun first, since in the end one would run alone on one core. */
function mocha(name: string, tests: readonly string[], env: Readonly<Record<string, string>> = {}): Step {
  const isLong = (file: string): boolean => /^test\/(?:torture|zoo|systemd|browser)\/|docs\.test|nodes/.test(file);
  const ordered = [...tests.filter(isLong), ...tests.filter((file) => !isLong(file))];
  return { name, command: ['mocha', '--parallel', '--jobs', '3', ...ordered], isTests: true, env };
}

const steps: Readonly<Record<string, () => { checks: Step[]; tests: Step[]; says: string }>> = {
  quick: () => ({
    checks: [
      {
        name: 'lint',
        command: [
          ...['eslint', '--config', 'config/eslint.config.js', '--cache', '--cache-location', `${CACHE}/eslint/`],
          ...['src', 'migrations', 'test'],
        ],
      },
      {
        name: 'types',
        command: [
          ...['tsc', '-p', 'test/tsconfig.json', '--noEmit', '--incremental'],
          ...['--tsBuildInfoFile', `${CACHE}/types.tsbuildinfo`],
        ],
      },
      {
        name: 'format',
        command: ['prettier', '--check', '--log-level', 'warn', '--cache', '.'],
      },
    ],
    tests: [mocha('modules and journeys', files.filter(isQuick))],
    says: 'Five minutes on two idle cores; a first run also fills the caches of lint and types. It leaves out PostgreSQL, the browser, systemd, kills, real peers, linters of the description and most journeys: `npm run test:all` runs those in 25 minutes.',
  }),
  rest: () => ({
    checks: [{ name: 'dead code', command: ['knip', '--config', 'config/knip.json'] }],
    tests: [
      mocha(
        'the rest',
        files.filter((file) => !isQuick(file)),
      ),
      ...(existsSync('/usr/lib/postgresql')
        ? [
            mocha(
              'on PostgreSQL',
              files.filter(
                (file) =>
                  (STORAGE.test(file) && !OF_BOTH.test(file) && makesDatabase(file)) ||
                  BOTH_JOURNEYS.some((name) => file === journey(name)),
              ),
              { POSTHORN_TEST_STORAGE: 'postgres' },
            ),
          ]
        : []),
    ],
    says: 'Up to 25 minutes on two idle cores: what `npm test` leaves out.',
  }),
};

const tier = steps[process.argv[2] ?? '']?.();
if (tier === undefined) {
  console.error('usage: run-tests.ts quick|rest');
  process.exit(64);
}
console.log(tier.says);
if (process.argv[2] === 'rest' && tier.tests.length === 1)
  console.log('skipped 1: PostgreSQL is not installed (apt-get install postgresql)');
const begun = performance.now();
let passed = await runPaired(tier.checks);
for (const step of tier.tests) passed = (await runStep(step)) && passed;
console.log(`${passed ? 'All good' : 'FAILED'} after ${seconds(performance.now() - begun)}.`);
process.exitCode = passed ? 0 : 1;
