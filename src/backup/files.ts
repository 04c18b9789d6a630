/** Files of a backup: written durably, read with a limit, and checksummed. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import path from 'node:path';

const CHUNK_BYTES = 1024 * 1024;

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

/** Returns the text of a small file, or null if it is absent or larger than `most` bytes. */
export async function readSmall(file: string, most: number): Promise<string | null> {
  try {
    const handle = await open(file, 'r');
    try {
      if ((await handle.stat()).size > most) return null;
      return await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}

/** Returns the SHA-256 of a file in lower-case hex; null if it is absent. */
export async function sumOf(file: string, progress?: (bytes: number) => void): Promise<string | null> {
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      bytes += chunk.length;
      progress?.(bytes);
    }
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
  return hash.digest('hex');
}

/** Returns the size of a file in bytes, 0 if it is absent. */
export async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (isAbsent(error)) return 0;
    throw error;
  }
}

export function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}
