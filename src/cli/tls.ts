/**
 * `posthorn tls install`: takes over a certificate that another program has got. That program usually keeps the key where only root may
 * read it, so this reads the files as root and then becomes the user of the data folder, before anything is written.
 */
import { statSync } from 'node:fs';
import { readPair, type PairReading } from '../config/certificate-pair.ts';
import { certificateNames, installCertificate, installedFile } from '../config/certificate.ts';
import { readText, ConfigError, withValue, type Loaded } from '../config/load.ts';
import { type Config, listSettings, type SettingEntry } from '../config/schema.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { valueAt } from '../base/check.ts';
import { writeDuration } from '../base/time.ts';
import { writeSize } from '../config/kind.ts';
import { checkNamedFiles } from '../config/data-file.ts';
import { socketPath } from '../operator/door/socket.ts';
import { setupWarnings } from '../operator/setup-warnings.ts';

interface InstallOptions {
  cert: string;
  key: string;
  any_name?: true | undefined;
  json?: true | undefined;
}

export async function install(context: Context, options: InstallOptions): Promise<void> {
  const { config } = context.load();
  const { bundle, facts, warnings } = readFiles(config, options, context.now());
  becomeOwnerOf(config.dataDir);
  const changed = write(config.dataDir, bundle);
  const fault = await faultOfServer(context);
  const record = {
    object: 'certificate_install',
    file: installedFile(config.dataDir),
    changed,
    /** True if the running server uses it now; null if no server runs. */
    reloaded: fault === 'absent' ? null : fault === null,
    names: facts.names,
    issuer: facts.issuer,
    not_before: rfc3339(facts.notBefore),
    not_after: rfc3339(facts.notAfter),
    key_type: facts.keyType,
    warnings,
  };
  context.print(options.json, record, () => [
    `${changed ? 'installed' : 'nothing has changed'}: ${facts.names.join(', ')}, good until ${record.not_after.slice(0, 10)}, issued by ${facts.issuer}`,
    `${record.file}; ${fault === 'absent' ? 'no server runs: the next start uses it' : `the running server ${fault === null ? 'uses it' : 'does not use it'}`}`,
  ]);
  if (options.json !== true) for (const warning of warnings) context.note(`posthorn: ${warning}`);
  if (fault instanceof Refusal) throw fault;
}

/** Reads and checks both files. Throws `Refusal`. */
function readFiles(config: Config, options: InstallOptions, now: number): Extract<PairReading, { kind: 'good' }> {
  const elsewhere = namedElsewhere(config);
  if (elsewhere !== null)
    throw new Refusal(
      exitCodes.config,
      `tls.certFile names ${elsewhere}, so an installed certificate would not be used`,
      'Remove tls.certFile and tls.keyFile from the settings, restart, and install again.',
    );
  const [cert, key] = [read('--cert', options.cert), read('--key', options.key)];
  const names = options.any_name === true ? [] : certificateNames(config);
  const pair = readPair({ cert, key, names, now });
  if (pair.kind === 'bad') throw new Refusal(exitCodes.data, pair.why, pair.cure);
  return pair;
}

/** Returns the file that the settings name, or null if they name none or the place of the installed one. */
function namedElsewhere({ tls, dataDir }: Config): string | null {
  if (tls === null) return null;
  const place = installedFile(dataDir);
  return tls.certFile === place && tls.keyFile === place ? null : tls.certFile;
}

/** Reads a file of at most 1 MiB. A value that cannot be a path is not repeated, since it may be the key itself. */
function read(option: string, file: string): string {
  if (file.includes('-----BEGIN') || file.includes('\n'))
    throw new Refusal(
      exitCodes.usage,
      `${option} wants the name of a file, not its contents`,
      `Write them into a file that only you can read, and name it: ${option} FILE`,
    );
  const reading = readText(file);
  if (reading.kind === 'ok') return reading.text;
  if (reading.kind === 'absent')
    throw new Refusal(
      exitCodes.noInput,
      `${option}: there is no file ${file}`,
      'certbot keeps them in /etc/letsencrypt/live/NAME/: fullchain.pem and privkey.pem.',
    );
  const why = `${option}: ${file} cannot be read: ${reading.why}`;
  throw reading.why === 'EACCES' || reading.why === 'EPERM'
    ? new Refusal(
        exitCodes.noPermission,
        why,
        'Run it as root: sudo posthorn tls install ... (it reads the files and then becomes the user of the data folder).',
      )
    : new Refusal(exitCodes.noInput, why, 'Name a PEM file.');
}

/** Becomes the owner of the data folder. Root must not write there: a file may be a link of the owner's, and the server could not read root's. */
function becomeOwnerOf(dataDir: string): void {
  if (process.getuid?.() !== 0) return;
  const found = statSync(dataDir, { throwIfNoEntry: false });
  if (found === undefined || found.uid === 0) return;
  try {
    // The types of Node.js lack it. The user may read a key by one of its groups.
    (process as { initgroups?(user: number, group: number): void }).initgroups?.(found.uid, found.gid);
  } catch {
    process.setgroups?.([found.gid]); // in a container the user may have no entry
  }
  process.setgid?.(found.gid);
  process.setuid?.(found.uid);
}

/** Returns whether the files were others before. Throws `Refusal`. */
function write(dataDir: string, bundle: string): boolean {
  try {
    makeDataFolder(dataDir);
    return installCertificate(dataDir, bundle);
  } catch (error) {
    throw new Refusal(
      exitCodes.cannotCreate,
      `${installedFile(dataDir)} cannot be written: ${error instanceof Error ? error.message : String(error)}`,
      `Run it as root or as the user that ${dataDir} belongs to, and see that its disk has room.`,
    );
  }
}

/** Has the running server look at the file; returns why it does not take it, or null. */
async function faultOfServer(context: Context): Promise<Refusal | 'absent' | null> {
  try {
    const { error } = await context.operate((operator) => operator.call('tls.reload', {}));
    if (error === null) return null;
    const why = `the running server does not take it: ${error}`;
    return new Refusal(exitCodes.unavailable, why, 'See its log: certificate_unusable.');
  } catch (error) {
    if (error instanceof Unavailable && error.why === 'not_running') return 'absent';
    throw error;
  }
}

/** Reads all settings and reports every mistake. */
export async function checkSettings(context: Context, { json: asJson }: { json?: true }): Promise<void> {
  if (asJson === true) {
    const { exitCode, ...checked } = await check(context);
    context.print(asJson, checked, () => []);
    context.end(exitCode);
    return;
  }
  const { file, config } = context.loadAloud();
  for (const warning of await checkPlaces(config)) context.note(`posthorn: ${warning}`);
  context.out(`the settings are good (${file ?? 'no settings file'})`);
}

/** Prints the settings in effect, without secrets. */
export function showSettings(context: Context, { json: asJson }: { json?: true }): void {
  const loaded = context.loadAloud();
  const shown = (): string => JSON.stringify(withoutSecrets(loaded.config), hidePasswords, 2);
  for (const line of asJson === true ? [shown()] : table(loaded)) context.out(line);
}

/** Checks what the settings name, as the user of the service. Returns warnings; throws ConfigError with the mistakes, as the start would. */
function checkPlaces(config: Config): Promise<string[]> {
  becomeOwnerOf(config.dataDir);
  checkNamedFiles(config);
  socketPath(config.dataDir);
  return setupWarnings(config);
}

/** Returns mistakes as data, for programs. `file` is null if there is none, or it could not be read. */
async function check(context: Context): Promise<{
  exitCode: number;
  valid: boolean;
  file: string | null;
  mistakes: readonly string[];
  warnings: readonly string[];
}> {
  try {
    const { file, config, warnings } = context.load();
    const more = await checkPlaces(config);
    return { exitCode: exitCodes.ok, valid: true, file, mistakes: [], warnings: [...warnings, ...more] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const exitCode = error.isForbidden ? exitCodes.noPermission : exitCodes.config;
    return { exitCode, valid: false, file: null, mistakes: error.mistakes, warnings: [] };
  }
}

const HIDDEN = '(hidden)';

/** Returns whether the whole value is a secret, such as a passphrase. Routes are shown without their passwords. */
const isSecret = (value: unknown, { note }: SettingEntry): boolean => note.secret && typeof value === 'string';

const hidePasswords = (key: string, value: unknown): unknown => (key === 'password' ? HIDDEN : value);

function withoutSecrets(config: Config): unknown {
  return listSettings()
    .map((entry) => ({ entry, place: entry.path.split('.') }))
    .filter(({ entry, place }) => isSecret(valueAt(config, place), entry))
    .reduce<unknown>((shown, { place }) => withValue(shown, place, HIDDEN), config);
}

function table({ config, origins }: Loaded): string[] {
  const rows = listSettings().map((entry) => {
    const value = valueAt(config, entry.path.split('.'));
    return { path: entry.path, value: written(value, entry), origin: origins.get(entry.path) ?? 'default' };
  });
  const width = Math.max(...rows.map(({ path }) => path.length));
  return rows.map(({ path, value, origin }) => `${path.padEnd(width)}  ${value}  (${origin})`);
}

function written(value: unknown, entry: SettingEntry): string {
  if (value === undefined || value === null) return 'none';
  if (isSecret(value, entry)) return HIDDEN;
  if (Array.isArray(value)) return `[${value.map((item: unknown) => written(item, entry)).join(', ')}]`;
  if (typeof value === 'number' && entry.note.unit === 'ms') return writeDuration(value);
  if (typeof value === 'number' && entry.note.unit === 'bytes') return writeSize(value);
  return typeof value === 'string' ? value : JSON.stringify(value, hidePasswords);
}
