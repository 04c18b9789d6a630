/** Streams: list, creation, change, pause and removal. */
import { Problem } from '../../base/problem.ts';
import { filledIn, definedMembers, fieldNumber, fieldText } from '../forms.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/streams';

export function streamPages(): Page[] {
  return [
    get(WHERE, (visit) => list(visit, null)),
    post(WHERE, add),
    post(`${WHERE}/:id`, edit),
    post(`${WHERE}/:id/pause`, (visit) =>
      change(visit, { paused: true }, 'Paused: mail for it is refused, and what waits is held.'),
    ),
    post(`${WHERE}/:id/resume`, (visit) => change(visit, { paused: false }, 'It goes on.')),
    post(`${WHERE}/:id/remove`, async (visit) => {
      await visit.ask('deleteStream', { params: visit.params });
      return move(WHERE, 'The stream is removed.');
    }),
  ];
}

async function list(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data } = await visit.ask<{ data: { slug: string }[] }>('listStreams', { query: { limit: '100' } });
  const rows = data.map((stream) => ({ ...stream, isBuiltIn: ['transactional', 'broadcast'].includes(stream.slug) }));
  return view('streams', 'Streams', { rows, fault, entered: filledIn(visit.form) }, fault?.status ?? 200);
}

async function add(visit: Visit): Promise<Shown> {
  const { form } = visit;
  try {
    const body = definedMembers({
      slug: form.get('slug')?.trim() ?? '',
      name: form.get('name')?.trim() ?? '',
      type: form.get('type') === 'broadcast' ? 'broadcast' : 'transactional',
      pool: fieldText(form, 'pool'),
      priority: fieldNumber(form, 'priority'),
    });
    await visit.ask('createStream', { body });
    return move(WHERE, 'The stream is created.');
  } catch (error) {
    if (error instanceof Problem) return list(visit, error);
    throw error;
  }
}

/** Changes a stream; empty fields keep their values. */
async function edit(visit: Visit): Promise<Shown> {
  const { form, params } = visit;
  const body = definedMembers({
    name: fieldText(form, 'name'),
    pool: fieldText(form, 'pool'),
    priority: fieldNumber(form, 'priority'),
  });
  try {
    await visit.ask('updateStream', { params, body });
    return move(WHERE, 'Changed.');
  } catch (error) {
    if (error instanceof Problem && error.code !== 'not_found') return list(visit, error);
    throw error;
  }
}

async function change(visit: Visit, body: object, said: string): Promise<Shown> {
  await visit.ask('updateStream', { params: visit.params, body });
  return move(WHERE, said);
}
