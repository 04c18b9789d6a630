/**
 * `posthorn tls install`: takes over a certificate that another program has got. That program usually keeps the key where only root may
 * read it, so this reads the files as root and then becomes the user of the data folder, before anything is written.
 */
import { statSync } from 'node:fs';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { CertificateFacts } from '../config/certificate-facts.ts';
import { readPair, type PairReading } from '../config/certificate-pair.ts';
import { certificateNames, installCertificate, installedFile } from '../config/certificate.ts';
import { readText } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';

interface InstallOptions {
  cert: string;
  key: string;
  anyName?: true | undefined;
  json?: true | undefined;
}

/** `reloaded`: the running server uses it now; null if no server runs. */
interface Installed {
  object: 'certificate_install';
  file: string;
  changed: boolean;
  reloaded: boolean | null;
  names: string[];
  issuer: string;
  not_before: string;
  not_after: string;
  key_type: string;
  warnings: string[];
}

export function addTls(program: CommandUnknownOpts, context: Context): void {
  const tls = program.command('tls').description('the certificate of the SMTP listeners, and of HTTPS');
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
    .action(async (options) => {
      await install(context, options);
    });
}

/** The reason why nothing can be installed. */
interface Refusal {
  kind: 'refused';
  code: number;
  why: string;
  cure: string;
}

const refusal = (code: number, why: string, cure: string): Refusal => ({ kind: 'refused', code, why, cure });

async function install(context: Context, options: InstallOptions): Promise<void> {
  const { config } = context.load();
  const pair = readFiles(config, options, context.now());
  if (pair.kind === 'refused') {
    printRefusal(context, pair);
    return;
  }
  becomeOwnerOf(config.dataDir);
  const written = write(config.dataDir, pair.bundle);
  if (written.kind === 'refused') {
    printRefusal(context, written);
    return;
  }
  const taken = await takenByServer(context);
  const record = installRecord(config, written.changed, taken.kind === 'absent' ? null : taken.kind === 'taken', pair);
  context.print(options.json, record, () => lines(record));
  if (options.json !== true) for (const warning of record.warnings) context.note(`posthorn: ${warning}`);
  if (taken.kind === 'refused') printRefusal(context, taken);
}

function printRefusal(context: Context, { code, why, cure }: Refusal): void {
  context.fail(`posthorn: ${why}`);
  context.fail(`  cure:  ${cure}`);
  context.end(code);
}

/** Reads and checks both files. */
function readFiles(
  config: Config,
  options: InstallOptions,
  now: number,
): Extract<PairReading, { kind: 'good' }> | Refusal {
  const elsewhere = namedElsewhere(config);
  if (elsewhere !== null)
    return refusal(
      exitCodes.config,
      `tls.certFile names ${elsewhere}, so an installed certificate would not be used`,
      'Remove tls.certFile and tls.keyFile from the settings, restart, and install again.',
    );
  const cert = read('--cert', options.cert);
  if (cert.kind === 'refused') return cert;
  const key = read('--key', options.key);
  if (key.kind === 'refused') return key;
  const names = options.anyName === true ? [] : certificateNames(config);
  const pair = readPair({ cert: cert.text, key: key.text, names, now });
  return pair.kind === 'bad' ? refusal(exitCodes.data, pair.why, pair.cure) : pair;
}

/** Returns the file that the settings name, or null if they name none or the place of the installed one. */
function namedElsewhere({ tls, dataDir }: Config): string | null {
  if (tls === null) return null;
  const place = installedFile(dataDir);
  return tls.certFile === place && tls.keyFile === place ? null : tls.certFile;
}

/** Reads a file of at most 1 MiB. A value that cannot be a path is not repeated, since it may be the key itself. */
function read(option: string, file: string): { kind: 'ok'; text: string } | Refusal {
  if (file.includes('-----BEGIN') || file.includes('\n'))
    return refusal(
      exitCodes.usage,
      `${option} wants the name of a file, not its contents`,
      `Write them into a file that only you can read, and name it: ${option} FILE`,
    );
  const reading = readText(file);
  if (reading.kind === 'ok') return reading;
  if (reading.kind === 'absent')
    return refusal(
      exitCodes.noInput,
      `${option}: there is no file ${file}`,
      'certbot keeps them in /etc/letsencrypt/live/NAME/: fullchain.pem and privkey.pem.',
    );
  const why = `${option}: ${file} cannot be read: ${reading.why}`;
  if (reading.why !== 'EACCES' && reading.why !== 'EPERM') return refusal(exitCodes.noInput, why, 'Name a PEM file.');
  return refusal(
    exitCodes.noPermission,
    why,
    'Run it as root: sudo posthorn tls install ... (it reads the files and then becomes the user of the data folder).',
  );
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

function write(dataDir: string, bundle: string): { kind: 'ok'; changed: boolean } | Refusal {
  try {
    makeDataFolder(dataDir);
    return { kind: 'ok', changed: installCertificate(dataDir, bundle) };
  } catch (error) {
    return refusal(
      exitCodes.cannotCreate,
      `${installedFile(dataDir)} cannot be written: ${error instanceof Error ? error.message : String(error)}`,
      `Run it as root or as the user that ${dataDir} belongs to, and see that its disk has room.`,
    );
  }
}

/** Has the running server look at the file. */
async function takenByServer(context: Context): Promise<{ kind: 'taken' | 'absent' } | Refusal> {
  try {
    const { error } = await context.operate((operator) => operator.call('tls.reload', {}));
    if (error === null) return { kind: 'taken' };
    return refusal(
      exitCodes.unavailable,
      `the running server does not take it: ${error}`,
      'See its log: certificate_unusable.',
    );
  } catch (error) {
    if (error instanceof Unavailable && error.why === 'not_running') return { kind: 'absent' };
    throw error;
  }
}

function installRecord(
  { dataDir }: Config,
  changed: boolean,
  reloaded: boolean | null,
  { facts, warnings }: { facts: CertificateFacts; warnings: string[] },
): Installed {
  return {
    object: 'certificate_install',
    file: installedFile(dataDir),
    changed,
    reloaded,
    names: facts.names,
    issuer: facts.issuer,
    not_before: rfc3339(facts.notBefore),
    not_after: rfc3339(facts.notAfter),
    key_type: facts.keyType,
    warnings,
  };
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
