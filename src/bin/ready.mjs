// Makes a checkout ready to run: installs what is missing, builds what is stale. Says nothing and takes a moment when there
// is nothing to do. Plain Node.js without packages, since it runs before there are any.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
/** What the build is made from. Folders count with their own times, so that a removed file is noticed too. */
const SOURCES = [
  'src',
  'migrations',
  'config/bounce-rules.json',
  'config/operators.json',
  'package.json',
  'tsconfig.json',
];
/** Needed to compile sqlite3 where no prebuilt binary can be had; with the Debian package that brings it. */
const COMPILERS = [
  ['python3', 'python3'],
  ['make', 'make'],
  ['g++', 'g++'],
];

if (!isInstalled()) {
  step(
    'installing packages (sqlite3 may be compiled, which takes a minute)',
    ['ci', '--include=dev', '--no-audit', '--no-fund'],
    explainInstall,
  );
}
if (isStale()) step('building', ['run', '--silent', 'build'], () => '');

/** True if every package of the lockfile is there in its version. Compared by content: times say nothing after a checkout. */
function isInstalled() {
  const wanted = packagesOf('package-lock.json');
  const present = packagesOf('node_modules/.package-lock.json');
  if (wanted === null || present === null) return false;
  const missing = Object.entries(wanted).find(
    ([name, { version, optional }]) => name !== '' && optional !== true && present[name]?.version !== version,
  );
  return missing === undefined && existsSync(path.join(root, 'node_modules/sqlite3/build/Release/node_sqlite3.node'));
}

function packagesOf(lockfile) {
  const file = path.join(root, lockfile);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).packages : null;
}

function isStale() {
  const built = path.join(root, 'dist/.built');
  if (!existsSync(built)) return true;
  const builtAt = statSync(built).mtimeMs;
  return SOURCES.filter((source) => existsSync(path.join(root, source))).some(
    (source) => newest(path.join(root, source)) > builtAt,
  );
}

function newest(file) {
  const stats = statSync(file);
  if (!stats.isDirectory()) return stats.mtimeMs;
  return readdirSync(file).reduce((latest, name) => Math.max(latest, newest(path.join(file, name))), stats.mtimeMs);
}

/** Runs npm; its output is shown only when it fails. */
function step(what, args, explain) {
  console.error(`posthorn: ${what} ...`);
  const result = spawnSync('npm', args, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 });
  if (result.status === 0) return;
  const reason = result.error === undefined ? '' : String(result.error);
  console.error([result.stdout, result.stderr, reason].filter(Boolean).join('\n').trim());
  console.error(`posthorn: \`npm ${args.join(' ')}\` failed.${explain()}`);
  process.exit(1);
}

function explainInstall() {
  const missing = COMPILERS.filter(([command]) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status !== 0);
  if (missing.length === 0) return '';
  const packages = missing.map(([, name]) => name).join(' ');
  return ` sqlite3 has to be compiled on this machine, and what that needs is missing: ${packages}.\nOn Debian and Ubuntu: apt-get install ${packages}`;
}
