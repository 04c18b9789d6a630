/** Fills a target with all rows of a source, and reads it again. */
import { migrationNames } from '../migrate.ts';
import { compareRows, copyRows, type Copied, type CopyProgress } from './copy-rows.ts';
import { UncopyableValue } from './pages.ts';
import { CopyRefusal, type CopySide, type CopyTarget, type Numbers } from './sides.ts';
import { numberOf, tablesIn, type CopiedTable } from './tables.ts';

/** Copies all tables and compares them. Throws `CopyRefusal` if the copy is not equal; the target is then unfinished. */
export async function fillFrom(source: CopySide, target: CopyTarget, progress: CopyProgress): Promise<Copied> {
  const tables = await tablesIn(source.db.engine === 'sqlite' ? source.db : target.db);
  let copied: Copied = { tables: [], replaced: 0 };
  await target.fill(tables, async () => {
    copied = await copyRows({ from: source.db, to: target.db, tables }, progress).catch(refuseValues);
    return numbersOf(source, tables);
  });
  const faults = await compareRows({ to: target.db, tables }, copied, progress);
  if (faults.length > 0) throw new CopyRefusal('data', `the copy is not equal to the original: ${faults.join('; ')}`);
  return copied;
}

function refuseValues(error: unknown): never {
  if (error instanceof UncopyableValue) throw new CopyRefusal('data', error.message);
  throw error;
}

async function numbersOf(source: CopySide, tables: readonly CopiedTable[]): Promise<Numbers> {
  const numbers = new Map<string, number>();
  for (const table of tables) {
    const last = numberOf(table) === null ? 0 : await source.lastNumber(table);
    if (last > 0) numbers.set(table.name, last);
  }
  return numbers;
}

/** Returns why this version cannot copy a schema of these migrations, as the end of a sentence, or null if it can. */
export function whyOtherSchema(steps: readonly string[]): string | null {
  const unknown = steps.filter((name) => !migrationNames.includes(name));
  if (unknown.length > 0) return `was changed by another version (${unknown.join(', ')}): use that one`;
  const missing = migrationNames.filter((name) => !steps.includes(name));
  return missing.length === 0 ? null : `lacks ${missing.join(', ')}: run posthorn migrate first`;
}
