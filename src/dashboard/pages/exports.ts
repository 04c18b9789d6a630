/** Whole lists as files: the API's streams, with the filters of the page that links to them. */
import { Problem } from '../../base/problem.ts';
import { lists, type ListName, type LineType } from '../../api/list-stream.ts';
import { get, type Page, type Shown, type Visit } from '../page.ts';

const types: Readonly<Record<string, LineType>> = { csv: 'text/csv', ndjson: 'application/x-ndjson' };

export const exportPages: readonly Page[] = [get('/exports/:list', file)];

/** Returns the exports of the list that a page shows, from the parameters that it asks the API for. */
export function exportsOf(list: ListName, asked: Readonly<Record<string, string | null | undefined>>) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked))
    if (value != null && value !== '' && !ofOnePage.has(name)) query.set(name, value);
  const as = (format: string): string =>
    `/exports/${list}?${new URLSearchParams([...query, ['format', format]]).toString()}`;
  return { csv: as('csv'), ndjson: as('ndjson') };
}

/** Parameters that belong to one page of a list. */
const ofOnePage: ReadonlySet<string> = new Set(['limit', 'after', 'before']);

/** Returns the form that the address names, and the rest of its parameters. */
export function formOf({ query }: Pick<Visit, 'query'>): { format: string; type: LineType; rest: URLSearchParams } {
  const rest = new URLSearchParams(query);
  const format = rest.get('format') ?? 'csv';
  const type = Object.hasOwn(types, format) ? types[format] : undefined;
  if (type === undefined) throw new Problem('not_found', 'Lists are exported as csv and ndjson.');
  rest.delete('format');
  return { format, type, rest };
}

async function file(visit: Visit): Promise<Shown> {
  const name = visit.params['list'] ?? '';
  if (!isList(name)) throw new Problem('not_found', 'There is no such list.');
  const { format, type, rest } = formOf(visit);
  const body = await visit.ask(lists[name].operation, { query: rest, accept: type });
  const day = new Date(visit.now).toISOString().slice(0, 10);
  return { kind: 'file', body, type: `${type}; charset=utf-8`, name: `${name}-${day}.${format}` };
}

const isList = (name: string): name is ListName => Object.hasOwn(lists, name);
