/** Test data made by others lies beside a developer's checkout, not in it: a user's clone has none. */
import { existsSync } from 'node:fs';
import path from 'node:path';

const root = process.env['POSTHORN_CORPORA'] ?? path.resolve(import.meta.dirname, '../../../../shared/corpora');

/** The path of a corpus file or folder, or null (with one line saying so) where it is not there. */
export function corpus(name: string): string | null {
  const found = path.join(root, name);
  if (existsSync(found)) return found;
  console.log(`      skipped: corpora not present (${name})`);
  return null;
}
