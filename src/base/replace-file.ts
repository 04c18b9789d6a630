/** Writes a file durably: after a power cut the old text or the new one is there, never a part. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { codeOf } from './error-code.ts';

/** Throws if the folder cannot be written. `keeps`: a file that is there already stays as it is. */
export function replaceFile(file: string, text: string, mode: number, { keeps = false } = {}): void {
  const scratch = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    const descriptor = openSync(scratch, 'wx', mode);
    try {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    if (keeps) linkSync(scratch, file);
    else renameSync(scratch, file);
  } catch (error) {
    if (!keeps || codeOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(scratch, { force: true });
  }
  const folder = openSync(path.dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
