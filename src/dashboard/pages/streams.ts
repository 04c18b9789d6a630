/** Streams: list, creation, change, pause and removal. */
import type { Problem } from '../../base/problem.ts';
import type { Stream } from '../../client/types.ts';
import { filledIn, definedMembers, fieldNumber, fieldText } from '../forms.ts';
import { refuseStale, seenIn } from '../stale-forms.ts';
import { get, move, post, view, withFault, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/streams';

export function streamPages(): Page[] {
  return [
    get(WHERE, (visit) => list(visit, null)),
    post(WHERE, withFault(add, list)),
    post(`${WHERE}/:id`, withFault(edit, list)),
    post(`${WHERE}/:id/pause`, (visit) =>
      change(visit, { paused: true }, 'Paused: mail for it is refused, and what waits is held.'),
    ),
    post(`${WHERE}/:id/resume`, (visit) => change(visit, { paused: false }, 'Resumed: what waited is sent.')),
    post(`${WHERE}/:id/remove`, async (visit) => {
      await visit.ask('deleteStream', { params: visit.params });
      return move(WHERE, 'The stream is removed.');
    }),
  ];
}

async function list(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data } = await visit.ask('listStreams', { query: { limit: '100' } });
  const { id } = visit.params;
  const filled = filledIn(visit.form);
  const rows = data.map((stream) => {
    const isRefused = fault !== null && stream.id === id;
    const { name, pool, priority } = stream;
    return {
      ...stream,
      isBuiltIn: ['transactional', 'broadcast'].includes(stream.slug),
      isRefused,
      seen: seenIn(isRefused ? visit.form : new URLSearchParams(), fault, changeable(stream)),
      entered: isRefused ? filled : { name, pool, priority: String(priority) },
    };
  });
  return view('streams', 'Streams', { rows, fault, entered: id === undefined ? filled : {} });
}

async function add(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const body = definedMembers({
    slug: form.get('slug')?.trim() ?? '',
    name: form.get('name')?.trim() ?? '',
    type: form.get('type') === 'broadcast' ? 'broadcast' : 'transactional',
    pool: fieldText(form, 'pool'),
    priority: fieldNumber(form, 'priority'),
  });
  await visit.ask('createStream', { body });
  return move(WHERE, 'The stream is created.');
}

/** Returns what the form changes. */
const changeable = ({ name, pool, priority }: Stream): unknown => [name, pool, priority];

/** Changes a stream; empty fields keep their values. */
async function edit(visit: Visit): Promise<Shown> {
  const { form, params } = visit;
  const { data } = await visit.ask('listStreams', { query: { limit: '100' } });
  const before = data.find(({ id }) => id === params['id']);
  if (before !== undefined) refuseStale(form, changeable(before));
  const body = definedMembers({
    name: fieldText(form, 'name'),
    pool: fieldText(form, 'pool'),
    priority: fieldNumber(form, 'priority'),
  });
  await visit.ask('updateStream', { params, body });
  return move(WHERE, 'Changed.');
}

async function change(visit: Visit, body: object, said: string): Promise<Shown> {
  await visit.ask('updateStream', { params: visit.params, body });
  return move(WHERE, said);
}
