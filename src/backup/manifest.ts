/** What a backup says of itself: the files of its folder, and the manifest among them. Pure. */
import { z } from 'zod';

export const DATABASE = 'posthorn.db';
export const KEYS = 'secret.key.enc';
export const MANIFEST = 'manifest.json';
/** In the form of sha256sum(1), so that a backup can be checked where there is no Posthorn. */
export const SUMS = 'SHA256SUMS';

/** A manifest has some two kilobytes. */
export const MOST_MANIFEST_BYTES = 1024 * 1024;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const amount = z.int().min(0);

export const Manifest = z.strictObject({
  /** The form of the backup. */
  format: z.literal(1),
  /** Of the program that made it. */
  version: z.string().max(100),
  created_at: z.iso.datetime(),
  /** The steps that the database has taken. A program that does not know one of them cannot use it. */
  migrations: z.array(z.string().max(100)).max(1000),
  /** The last start of the server that the copy knows of. */
  epoch: amount,
  /** Ids of the master keys that its secrets were sealed under. */
  key_ids: z.array(z.string().max(64)).max(1000),
  counts: z.strictObject({
    accounts: amount,
    messages: amount,
    recipients: amount,
    /** Recipients that are not finished: what is tried again after a restore. */
    waiting: amount,
    events: amount,
  }),
  books: z.strictObject({ balanced: z.boolean(), accepted: amount }),
  files: z.array(z.strictObject({ name: z.enum([DATABASE, KEYS]), bytes: amount, sha256 })).max(2),
});
export type Manifest = z.output<typeof Manifest>;

/** The sums as they stand in the file: two spaces, as sha256sum writes them. */
export function sumsText(sums: ReadonlyMap<string, string>): string {
  return [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join('');
}

/** Name to sum, or null where a line is none. */
export function readSums(text: string): Map<string, string> | null {
  const sums = new Map<string, string>();
  for (const line of text.split('\n').slice(0, -1)) {
    const [, sum, name] = /^([0-9a-f]{64}) {2}([\w.]{1,64})$/.exec(line) ?? [];
    if (sum === undefined || name === undefined) return null;
    sums.set(name, sum);
  }
  return text.endsWith('\n') ? sums : null;
}

/** The name of a backup's folder: those of one kind sort by age. */
export function backupName(kind: BackupKind, at: number): string {
  return `${kind}-${new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')}`;
}

/** `posthorn`: asked for. `before-migration`: made before the database was changed by a newer version. */
export type BackupKind = 'posthorn' | 'before-migration';

/** Whether a folder of this name is a backup of this kind: only such are ever removed. */
export function isBackupName(kind: BackupKind, name: string): boolean {
  return name.startsWith(`${kind}-`) && /^\d{8}T\d{6}Z$/.test(name.slice(kind.length + 1));
}
