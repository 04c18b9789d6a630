/** The table of budgets in docs/security.md, made from src/base/budgets.ts. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { budgets, type Budget } from '../../../src/base/budgets.ts';

const FROM = '<!-- budgets: made by `npm run docs` -->';
const TO = '<!-- /budgets -->';

/** Returns docs/security.md with the table that it should have. */
export function securityPage(): string {
  const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/security.md'), 'utf8');
  const before = page.slice(0, page.indexOf(FROM) + FROM.length);
  const after = page.slice(page.indexOf(TO));
  const rows = Object.entries<Budget>(budgets).map(rowOf);
  return `${before}\n\n${table([['What is counted', 'At most', 'Then', 'Budget'], ...rows])}\n\n${after}`;
}

const rowOf = ([name, { door, bounds, per, most, unit, within, answer }]: [string, Budget]): string[] => [
  `${door}: ${bounds}`,
  `${amount(most, unit)}${span(within)}${per === 'all' ? '' : ` for each ${per}`}`,
  answer,
  `\`${name}\``,
];

function span(within: Budget['within']): string {
  if (within === null) return '';
  return within === '15 minutes' ? ` in ${within}` : ` a${within === 'hour' ? 'n' : ''} ${within}`;
}

function amount(most: number, unit: Budget['unit']): string {
  if (unit === 'ms') return `${String(most / 1000)} s`;
  if (unit !== 'bytes') return most.toLocaleString('en-US');
  const [size, name] = [
    [1024 ** 3, 'GiB'],
    [1024 ** 2, 'MiB'],
    [1024, 'KiB'],
  ].find(([one]) => most >= Number(one)) ?? [1, 'bytes'];
  return `${String(most / Number(size))} ${String(name)}`;
}

/** As the formatter sets it: columns of one width. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = rows;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}
