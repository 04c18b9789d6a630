/** Sorting of tables by the headings of their columns; the order is a parameter of the address. Pure. */
import { linkTo } from './links.ts';

export interface Heading {
  /** Link to the same page sorted by this column, or in the other direction if it already is. */
  href: string;
  /** For `aria-sort`; null if the table is sorted by something else. */
  sorted: 'ascending' | 'descending' | null;
}

export interface Sorting<Column extends string> {
  column: Column;
  descending: boolean;
  headings: Record<Column, Heading>;
}

/** Reads `?<name>=-sent`. Numbers begin with the largest, texts (`words`) with A; an unknown column gives the usual order. */
export function sortingOf<Column extends string>(
  { path, query, name = 'sort' }: { path: string; query: URLSearchParams; name?: string },
  columns: readonly Column[],
  { usual, words = [] }: { usual: string; words?: readonly Column[] },
): Sorting<Column> {
  const asked = [query.get(name) ?? '', usual].find((one) => columns.some((column) => column === bare(one))) ?? usual;
  const column = columns.find((one) => one === bare(asked)) ?? (bare(usual) as Column);
  const descending = asked.startsWith('-');
  const headingOf = (one: Column): Heading => {
    const isOn = one === column;
    const next = isOn ? !descending : !words.includes(one);
    const href = linkTo(path, query, { [name]: `${next ? '-' : ''}${one}` });
    return { href, sorted: isOn ? (descending ? 'descending' : 'ascending') : null };
  };
  const headings = Object.fromEntries(columns.map((one) => [one, headingOf(one)])) as Record<Column, Heading>;
  return { column, descending, headings };
}

const bare = (name: string): string => name.replace(/^-/, '');

export type Sortable = string | number | null;

/** Returns a sorted copy. Rows without a value come last in both directions; equal rows keep their order. */
export function sortedBy<Row, Column extends string>(
  rows: readonly Row[],
  { column, descending }: Pick<Sorting<Column>, 'column' | 'descending'>,
  valueOf: (row: Row, column: Column) => Sortable,
): Row[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [valueOf(one, column), valueOf(other, column)];
    if (a === b) return 0;
    if (a === null || b === null) return a === null ? 1 : -1;
    return a < b ? -sign : sign;
  });
}
