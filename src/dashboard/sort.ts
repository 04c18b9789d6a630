/** Tables that are read whole can be sorted by what stands over a column; the order is in the address. Pure. */
import { linkTo } from './links.ts';

export interface Heading {
  /** To the same page, sorted by this column; to the other direction where it is already. */
  href: string;
  /** For `aria-sort`; null where the table is sorted by something else. */
  sorted: 'ascending' | 'descending' | null;
}

export interface Sorting<Column extends string> {
  column: Column;
  descending: boolean;
  headings: Record<Column, Heading>;
}

/** What `?<name>=-sent` asks for: numbers begin with the largest, texts (`words`) with A. What it does not know is the usual order. */
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

/** A sorted copy; what has no value comes last either way, and equals stay as they were. */
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
