/** Sorting of tables by the headings of their columns; the order is a parameter of the address. Pure. */
import { linkTo } from './links.ts';

interface Heading {
  /** Link to the same page sorted by this column, or in the other direction if it already is. */
  href: string;
  /** For `aria-sort`; null if the table is sorted by something else. */
  sorted: 'ascending' | 'descending' | null;
}

/** The page of a table, and the parameter that has its order, such as `?sort=-sent`. */
interface Sorted {
  path: string;
  query: URLSearchParams;
  name?: string;
}

/** Reads the order; an unknown column gives the usual one. Columns of `texts` begin with A, others with the largest. */
export function sortingOf<Column extends string>(
  { path, query, name = 'sort' }: Sorted,
  columns: readonly Column[],
  usual: `-${Column}` | Column,
  texts: readonly Column[] = [],
) {
  const asked = query.get(name) ?? '';
  const order = columns.some((column) => column === bare(asked)) ? asked : usual;
  const descending = order.startsWith('-');
  const headings = columns.map((column): [Column, Heading] => {
    const isOn = column === bare(order);
    const next = isOn ? !descending : !texts.includes(column);
    const href = linkTo(path, query, { [name]: `${next ? '-' : ''}${column}` });
    return [column, { href, sorted: isOn ? (descending ? 'descending' : 'ascending') : null }];
  });
  return {
    column: bare(order) as Column,
    descending,
    headings: Object.fromEntries(headings) as Record<Column, Heading>,
  };
}

const bare = (name: string): string => name.replace(/^-/, '');

/** Returns sorted rows with the headings of their columns. Rows without a value come last in both directions; equal rows keep their order. */
export function sortedRows<Column extends string, Row extends Readonly<Record<Column, string | number | null>>>(
  rows: readonly Row[],
  at: Sorted,
  columns: readonly Column[],
  usual: `-${Column}` | Column,
): { rows: Row[]; headings: Record<Column, Heading> } {
  const texts = columns.filter((column) => rows.some((row) => typeof row[column] === 'string'));
  const { column, descending, headings } = sortingOf(at, columns, usual, texts);
  const sorted = [...rows].sort((one, other) => {
    const [a, b] = [one[column], other[column]];
    if (a === b) return 0;
    if (a === null || b === null) return a === null ? 1 : -1;
    return a < b === descending ? 1 : -1;
  });
  return { rows: sorted, headings };
}
