/** Collections of test data that others made. They are not part of this repository, so most checkouts have none. */
import { existsSync } from 'node:fs';
import path from 'node:path';

const root = process.env['POSTHORN_CORPORA'] ?? path.resolve(import.meta.dirname, '../../../../shared/corpora');

/** The reason of every test that is skipped because its collection is missing; it is listed in `.ci/allowed-skips.txt`. */
export const NO_CORPORA = 'corpora not present';

/** Returns the path of a file or folder of the collections, or null if it does not exist. */
export function corpus(name: string): string | null {
  const found = path.join(root, name);
  return existsSync(found) ? found : null;
}
