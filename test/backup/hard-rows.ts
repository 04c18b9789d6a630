/** Fills every table of a SQLite database with values that are hard to copy. */
import type { Knex } from 'knex';
import { tablesIn } from '../../src/storage/postgres/fill.ts';
import type { ColumnKind } from '../../src/storage/table.ts';
import { tables } from '../../src/storage/tables.ts';

/** Texts of the columns that name rows, the same in each table, so that rows find those that they refer to. */
const names = [
  'plain',
  '',
  'ünï-cødé',
  '\u{1F680} rocket',
  `quotes ' " \\ \\u0000 and $1 ?`,
  'line\nbreak\ttab\u001b\u007f',
  'lone \ud800 surrogate',
  'the last \uffff',
];
/** A NUL sorts before all other characters, what replaces it after most. */
const nul = 'a NUL \0 inside';
const numbers = [0, 1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, 1_700_000_000_000];
const fractions = [0, 0.1, 1 / 3, -1e-9, 1.7976931348623157e308, 5e-324];
const bytes = ['', '00', 'ff00ff', '5c30', 'e282ac', 'deadbeef'.repeat(2000)];
const LARGE = 'ä"\\\n'.repeat(600_000);

const isNullable = (table: string, column: string): boolean => {
  const columns: Readonly<Record<string, { isNullable: boolean }>> | undefined = (
    tables as Readonly<Record<string, { columns: Readonly<Record<string, { isNullable: boolean }>> }>>
  )[table]?.columns;
  return columns?.[column]?.isNullable === true;
};

const pick = <T>(from: readonly T[], n: number): T | undefined => from[n % from.length];

function valueOf(kind: ColumnKind, column: string, n: number, texts: readonly string[]): string | number | undefined {
  if (kind === 'text') return texts[n];
  if (kind === 'integer') return pick(numbers, n + column.length);
  return kind === 'real' ? pick(fractions, n) : pick(bytes, n);
}

/** Returns the number of rows. `withNul`: one row more in each table has NUL characters. */
export async function fillWithHardRows(db: Knex, { withNul = true } = {}): Promise<number> {
  const texts = withNul ? [...names, nul] : names;
  let rows = 0;
  for (const table of await tablesIn(db)) {
    for (let n = 0; n < texts.length; n++) {
      const values = table.columns.map(({ name, kind }) => {
        // Some of every second row are null.
        if (n % 2 === 1 && isNullable(table.name, name) && name.length % 3 !== 0) return null;
        if (table.key.includes(name) && kind === 'integer') return 10 * n + 1;
        return valueOf(kind, name, n, texts) ?? null;
      });
      // A bound text would lose its lone surrogates already in the driver.
      const marks = table.columns.map(({ kind }) =>
        kind === 'text' ? "json_extract(?, '$')" : kind === 'bytes' ? 'unhex(?)' : '?',
      );
      await db.raw(
        `INSERT INTO ${table.name} (${table.columns.map(({ name }) => name).join(', ')}) VALUES (${marks.join(', ')})`,
        values.map((value, at) => (table.columns[at]?.kind === 'text' ? JSON.stringify(value) : (value ?? null))),
      );
      rows++;
    }
  }
  // Numbers that were given and are gone are not given again.
  await db.raw('DELETE FROM events WHERE sequence = (SELECT MAX(sequence) FROM events)');
  await db.raw("UPDATE contents SET html = ?, text = ? WHERE id IN ('', 'plain')", [LARGE, LARGE]);
  await db.raw("UPDATE settings SET value = '7' WHERE name = 'plain'");
  return rows - 1;
}
