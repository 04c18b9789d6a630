// Makes a checkout ready to run: installs what is missing, builds what is stale. Prints nothing and takes a moment if there
// is nothing to do. Plain Node.js without packages, since it runs before they are installed.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
/** The sources of the build. Folders count with their own times, so that a removed file is noticed too. */
const SOURCES = [
  'src',
  'docs/openapi.json',
  'migrations',
  'config/bounce-rules.json',
  'config/common-passwords.json',
  'config/operators.json',
  'package.json',
  'tsconfig.json',
];
/** Needed to compile sqlite3 if no prebuilt binary can be had; with the Debian package that brings it. */
const COMPILERS = [
  ['python3', 'python3'],
  ['make', 'make'],
  ['g++', 'g++'],
];

const OFFLINE =
  'Or pack Posthorn on another machine of this kind with `npm run pack:offline`, and copy the file here: docs/install.md, "Without a network".';
const UNREACHABLE =
  /ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|FetchError|socket hang up/;

/** The interval of progress lines, in milliseconds. */
const PROGRESS_EVERY_MS = Number(process.argv[2] ?? 10_000);
const COMPILED = path.join(root, 'node_modules/sqlite3/build/Release');

if (!isInstalled()) {
  // The makefiles that compile sqlite3 do not quote the path, so their errors would name half of it.
  if (/\s/.test(root)) {
    console.error(
      `posthorn: the path of this checkout has a space in it (${root}), and packages cannot be compiled there.\n` +
        'Move it to a path without spaces and try again.',
    );
    process.exit(1);
  }
  await step(
    'installing packages (once: half a minute, and some minutes more if sqlite3 has to be compiled)',
    ['ci', '--include=dev', '--no-audit', '--no-fund'],
    { doing: whatNpmDoes, explain: explainInstall },
  );
}
if (isStale())
  await step('building (half a minute to some minutes)', ['run', '--silent', 'build'], {
    doing: () => 'building',
    explain: () => '',
  });

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

/** Runs npm and shows its output only if it fails. `doing` names the present step for progress lines. */
async function step(what, args, { doing, explain }) {
  console.error(`posthorn: ${what} ...`);
  const began = process.hrtime.bigint();
  const seconds = () => Number((process.hrtime.bigint() - began) / 1_000_000_000n);
  const progress = setInterval(() => console.error(`posthorn: ${doing()} (${seconds()} s)`), PROGRESS_EVERY_MS);
  const { status, output } = await run('npm', args);
  clearInterval(progress);
  if (status === 0) return;
  console.error(output.trim());
  console.error(`posthorn: \`npm ${args.join(' ')}\` failed.${explain(output)}`);
  process.exit(1);
}

function run(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    const parts = [];
    child.stdout.on('data', (part) => parts.push(part));
    child.stderr.on('data', (part) => parts.push(part));
    child.on('error', (error) => resolve({ status: 1, output: String(error) }));
    child.on('close', (status) => resolve({ status, output: Buffer.concat(parts).toString('utf8') }));
  });
}

/** sqlite3 comes last, and its compiler leaves its objects in this folder. */
function whatNpmDoes() {
  if (existsSync(path.join(COMPILED, 'obj.target')))
    return 'compiling sqlite3, as there is no binary of it for this machine: some minutes, only this once';
  return existsSync(path.join(root, 'node_modules')) ? 'unpacking packages' : 'fetching packages';
}

/** The last error comes from the registry, from the headers of Node.js, or from the compiler. */
function explainInstall(output) {
  const isCompiling = /gyp ERR|node-gyp|prebuild-install/.test(output);
  const missing = COMPILERS.filter(([command]) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status !== 0);
  if (!isCompiling && UNREACHABLE.test(output))
    return ` The registry of packages cannot be reached from here: see \`npm config get registry\`, and the settings of a proxy (https-proxy).\n${OFFLINE}`;
  if (isCompiling && missing.length === 0 && UNREACHABLE.test(output))
    return (
      ' There is no binary of sqlite3 on this machine: it is fetched from github.com, and if that fails it is compiled with the headers of Node.js from nodejs.org. Neither can be reached from here.\n' +
      'Let this machine reach one of them, or name headers that are here: npm_config_nodedir=/usr npm start (Debian: apt-get install libnode-dev).\n' +
      OFFLINE
    );
  if (missing.length === 0) return '';
  const packages = missing.map(([, name]) => name).join(' ');
  return ` sqlite3 has to be compiled on this machine, and what that needs is missing: ${packages}.\nOn Debian and Ubuntu: apt-get install ${packages}\n${OFFLINE}`;
}
