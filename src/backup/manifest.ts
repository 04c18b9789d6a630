/** The description of a backup: the files of its folder, with the manifest. Pure. */
import { z } from 'zod';

export const DATABASE = 'posthorn.db';
export const KEYS = 'secret.key.enc';
export const MANIFEST = 'manifest.json';
/** The checksums of the other files in the format of sha256sum(1), so that a backup can be checked without Posthorn. */
export const SUMS = 'SHA256SUMS';

const amount = z.int().min(0);

export const Manifest = z.object({
  format: z.literal(1),
  version: z.string(),
  created_at: z.iso.datetime(),
  /** The migrations of the database. A program without one of them cannot use it. */
  migrations: z.array(z.string()),
  /** The number of the last start of the server. */
  epoch: amount,
  /** Ids of the master keys that its secrets are sealed with. */
  key_ids: z.array(z.string()),
  counts: z.strictObject({
    accounts: amount,
    messages: amount,
    recipients: amount,
    /** Recipients that are not finished, which are tried again after a restore. */
    waiting: amount,
    events: amount,
  }),
  books: z.strictObject({ balanced: z.boolean(), accepted: amount }),
});
export type Manifest = z.output<typeof Manifest>;

/** Returns null for text that is not a manifest, or one of a later format. */
export function parseManifest(text: string): Manifest | null {
  try {
    return Manifest.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Returns the checksum file, with two spaces as sha256sum writes them. */
export function sumsText(sums: ReadonlyMap<string, string>): string {
  return [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join('');
}

/** Returns the checksums by name, or null if they are not those of the files of a backup. */
export function readSums(text: string): Map<string, string> | null {
  const sums = new Map<string, string>();
  for (const line of text.split('\n').slice(0, -1)) {
    const [, sum, name] = /^([0-9a-f]{64}) {2}([\w.]{1,64})$/.exec(line) ?? [];
    if (sum === undefined || name === undefined) return null;
    sums.set(name, sum);
  }
  return text.endsWith('\n') && sums.has(DATABASE) && sums.has(MANIFEST) ? sums : null;
}

/** `posthorn`: made on request. `before-migration`: made before a newer version changed the database. */
export type BackupKind = 'posthorn' | 'before-migration';

/** Returns the name of a backup's folder: those of one kind sort by age. */
export function backupName(kind: BackupKind, at: number): string {
  return `${kind}-${new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')}`;
}

/** Returns the time in the name of such a backup in milliseconds, or null: only those are ever removed. */
export function timeIn(kind: BackupKind, name: string): number | null {
  const parts = /^(.*)-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(name);
  const [, prefix, year, month, day, hour, minute, second] = parts ?? [];
  return prefix === kind ? Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`) : null;
}

/**
 * Puts the names of backups of one kind in order, oldest first. One after `last` was made while the clock was ahead and counts as the oldest, not for
 * years as the newest.
 */
export function byAge(names: readonly string[], last: string): string[] {
  const sorted = [...names].sort();
  return [...sorted.filter((name) => name > last), ...sorted.filter((name) => name <= last)];
}
