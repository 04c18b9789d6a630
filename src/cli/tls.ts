/**
 * `posthorn tls install`: takes over a certificate that another program has got. That program usually keeps the key where only root may
 * read it, so this reads the files as root and then becomes the user of the data folder, before anything is written.
 */
import { statSync } from 'node:fs';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { readPair, type PairReading } from '../config/certificate-pair.ts';
import { certificateNames, installCertificate, installedFile } from '../config/certificate.ts';
import { readText } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';

interface InstallOptions {
  cert: string;
  key: string;
  anyName?: true | undefined;
  json?: true | undefined;
}

export function addTls(tls: CommandUnknownOpts, context: Context): void {
  tls
    .command('install')
    .description('check a certificate and its key, copy them to where the server reads them, and have them used')
    .requiredOption('--cert <file>', 'PEM file with the chain, the own certificate first (fullchain.pem)')
    .requiredOption('--key <file>', 'PEM file with the private key (privkey.pem)')
    .option('--any-name', 'take a certificate without the name of this server')
    .option('--json', 'as one JSON object')
    .addHelpText(
      'after',
      `
Run it as root or as the user of the service; again after each renewal. A pair that is not good changes nothing.

Exit codes: 0 installed, or there already; 65 the pair is not good; 66 no such file; 69 the server did not take it;
73 the data folder cannot be written; 77 this user may not read a file; 78 the settings name other files.`,
    )
    .action((options) => install(context, options));
}

async function install(context: Context, options: InstallOptions): Promise<void> {
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
  context.print(options.json, record, () => lines(record));
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
  const names = options.anyName === true ? [] : certificateNames(config);
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

/**
 * Gives up root for the owner of the data folder. Root must not write there itself: the owner could have put a link in the place of a
 * file, and the server could not read what root has made.
 */
export function becomeOwnerOf(dataDir: string): void {
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

interface Installed {
  file: string;
  changed: boolean;
  reloaded: boolean | null;
  names: string[];
  not_after: string;
  issuer: string;
}

function lines({ file, changed, reloaded, names, not_after, issuer }: Installed): string[] {
  const use =
    reloaded === null
      ? 'no server runs: the next start uses it'
      : reloaded
        ? 'the running server uses it'
        : 'the running server does not use it';
  return [
    `${changed ? 'installed' : 'nothing has changed'}: ${names.join(', ')}, good until ${not_after.slice(0, 10)}, issued by ${issuer}`,
    `${file}; ${use}`,
  ];
}
