/** Files of a backup: written durably, and checksummed. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from '../base/error-code.ts';

/** Waits until the file's bytes, or a folder's names, are on disk. */
export async function sync(file: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes a new file, readable by its owner only. */
export async function writeNew(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Gives a file or folder its final name, durably. */
export async function renameSynced(from: string, to: string): Promise<void> {
  await rename(from, to);
  await sync(path.dirname(to));
}

export const readIfThere = (file: string): Promise<string | null> => readFile(file, 'utf8').catch(nullIfAbsent);

/** Returns the SHA-256 of a file in lower-case hex; null if it is absent. `read` is told the bytes that were read so far. */
export async function sumOf(file: string, read?: (bytes: number) => void): Promise<string | null> {
  const stream = createReadStream(file, { highWaterMark: 1024 * 1024 });
  const hash = createHash('sha256');
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      hash.update(chunk);
      read?.(stream.bytesRead);
    }
    return hash.digest('hex');
  } catch (error) {
    return nullIfAbsent(error);
  }
}

export function nullIfAbsent(error: unknown): null {
  if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return null;
  throw error;
}
