/** Makes a folder and those above it. */
import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { codeOf, isMissing } from './error-code.ts';

/**
 * Makes the folder and its missing parents with this mode. With `recursive` Node.js never returns if the system answers ENOENT although the parent
 * exists, as /proc and some network file systems do.
 */
export function makeFolder(folder: string, mode: number): void {
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && isFolder(folder)) return;
    const parent = path.dirname(folder);
    if (!isMissing(error) || isFolder(parent)) throw error;
    makeFolder(parent, mode);
    mkdirSync(folder, { mode });
  }
}

const isFolder = (name: string): boolean => statSync(name, { throwIfNoEntry: false })?.isDirectory() === true;
