/** Exports: lists as files, written in the background, with their progress. */
import { createReadStream } from 'node:fs';
import { Problem } from '../../base/problem.ts';
import { exportFormats, exportKinds, type ExportKind } from '../../operator/exports.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/exports';

export function exportPages(): Page[] {
  return [
    get(WHERE, (visit) => list(visit, null)),
    post(WHERE, create),
    get(`${WHERE}/:id/file`, file),
    post(`${WHERE}/:id/remove`, async (visit) => {
      await visit.operate('exports.remove', { account: visit.account.id, id: visit.params['id'] ?? '' });
      return move(WHERE, 'The export is removed.');
    }),
  ];
}

/** An export that a page offers: its kind, and the parameters of the API's list as a query string. */
export interface Offer {
  kind: ExportKind;
  query: string;
}

/** Returns the export of the list that a page shows, from the parameters that it asked the API for. */
export function exportOf(kind: ExportKind, asked: Readonly<Record<string, string | null | undefined>>): Offer {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) if (value != null && value !== '') query.set(name, value);
  return { kind, query: query.toString() };
}

async function list(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data } = await visit.operate('exports.list', { account: visit.account.id });
  return view('exports', 'Exports', {
    fault,
    rows: data.map((one) => ({
      ...one,
      filters: Object.entries(one.query).map(([name, value]) => ({
        name,
        value,
        at: /^\d{4}-\d\d-\d\dT/.test(value) ? value : null,
      })),
      by: one.created_by.replace(/^member:/, ''),
      canRemove: visit.isAdmin || one.created_by === visit.actor,
      isDone: one.state === 'done',
      isActive: one.state === 'waiting' || one.state === 'running',
    })),
    isActive: data.some(({ state }) => state === 'waiting' || state === 'running'),
  });
}

async function create(visit: Visit): Promise<Shown> {
  const { form, account } = visit;
  const kind = form.get('kind') ?? '';
  try {
    if (!isKind(kind)) throw new Problem('invalid_field', 'There is no such export.', { field: 'kind' });
    const query = Object.fromEntries(new URLSearchParams(form.get('query') ?? ''));
    const format = exportFormats.find((name) => name === form.get('format'));
    await visit.operate('exports.create', { account: account.id, kind, format, query });
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return list(visit, error);
    throw error;
  }
  return move(WHERE, 'The export is being written. The file can be downloaded here when it is finished.');
}

const mediaTypes = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
} as const;

const isKind = (name: string): name is ExportKind => Object.hasOwn(exportKinds, name);

async function file(visit: Visit): Promise<Shown> {
  const { path, name, format } = await visit.operate('exports.file', {
    account: visit.account.id,
    id: visit.params['id'] ?? '',
  });
  return { kind: 'file', body: createReadStream(path), type: mediaTypes[format], name };
}
