/** The version of the program, read from package.json. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** Reads the nearest package.json above, which works from `src/` and from `dist/src/`. */
function readVersion(): string {
  for (const up of ['..', '../..']) {
    try {
      const text = readFileSync(path.resolve(import.meta.dirname, up, 'package.json'), 'utf8');
      return (JSON.parse(text) as { version: string }).version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('package.json was not found');
}

export const version = readVersion();
