/** The doctor's facts about this machine: versions, interfaces, disk, files, the certificate. */
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { isMissing } from '../../base/error-code.ts';
import { backupState, whyNotWritable } from '../../backup/folder.ts';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import { keyIdsIn } from '../../base/keyring.ts';
import { certificateFiles, readCertificate, type CertificateFiles } from '../../config/certificate.ts';
import { OWN_CERT_FILE } from '../../config/own-certificate.ts';
import type { Config } from '../../config/schema.ts';
import { sqliteVersion } from '../../storage/database.ts';
import type { CertificateFacts } from './probes.ts';

export function createMachine({
  tls,
  dataDir,
  storage,
  backup,
}: Pick<Config, 'tls' | 'dataDir' | 'storage' | 'backup'>) {
  return {
    nodeVersion: process.version,
    /** Of the library that this program brings. */
    sqliteVersion,
    /** Returns the addresses of this machine's interfaces; the loopback one may have public ones. */
    addresses: (): readonly string[] =>
      Object.values(networkInterfaces()).flatMap((found = []) =>
        found.map(({ address }) => address).filter((ip) => ip !== '::1' && !ip.startsWith('127.')),
      ),
    freeBytes,
    /** Returns the nine bits of the mode, the owner and the size of a file; null if there is none. */
    async file(file: string): Promise<{ mode: number; uid: number; bytes: number } | null> {
      try {
        const { mode, uid, size } = await stat(file);
        return { mode: mode & 0o777, uid, bytes: size };
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    /** Returns the ids of the keys in `<dataDir>/secret.key`; null if there is no such file. Throws if it cannot be used. */
    keyIds: (): readonly string[] | null => keyIdsIn(dataDir),
    certificate: (): CertificateFacts =>
      certificateOf(certificateFiles({ tls, dataDir }), path.join(dataDir, OWN_CERT_FILE)),
    /** Null on PostgreSQL, whose backups are its own. */
    backups: async (now: number) => (isPostgresUrl(storage.url) ? null : backupState(backup.dir, now)),
    /** Returns why this process cannot write backups, or null. */
    whyNoBackups: () => whyNotWritable(backup.dir),
  };
}

/** Returns the free bytes of the disk that the folder is on, or would be. */
async function freeBytes(dir: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(dir);
    return bavail * bsize;
  } catch (error) {
    const above = path.dirname(dir);
    if (!isMissing(error) || above === dir) throw error;
    return freeBytes(above);
  }
}

function certificateOf(files: CertificateFiles | null, ownFile: string): CertificateFacts {
  if (files === null && !existsSync(ownFile)) return { kind: 'none' };
  const file = files?.certFile ?? ownFile;
  try {
    // The first of the chain is the server's own.
    const read = new X509Certificate(files === null ? readFileSync(file) : readCertificate(files).cert);
    return {
      kind: 'read',
      file,
      isOwn: files === null,
      isSelfSigned: read.issuer === read.subject,
      from: Date.parse(read.validFrom),
      until: Date.parse(read.validTo),
      isFor: (host) => read.checkHost(host) !== undefined,
    };
  } catch (error) {
    return { kind: 'bad', why: mistakeOf(error) };
  }
}

function mistakeOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'mistakes' in error) return String(error.mistakes);
  return error instanceof Error ? error.message : String(error);
}
