/** Replaces a file durably: after a power cut the old text or the new one is there, never a part. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Throws if the folder cannot be written. */
export function replaceFile(file: string, text: string, mode: number): void {
  const scratch = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    const descriptor = openSync(scratch, 'wx', mode);
    try {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(scratch, file);
  } catch (error) {
    rmSync(scratch, { force: true });
    throw error;
  }
  const folder = openSync(path.dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
