/** The nodes, for administrators: the servers that use the database, and taking one out of service. */
import type { Problem } from '../../base/problem.ts';
import { adminGet, adminPost, move, view, withFault, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/settings/nodes';

export function nodePages(): Page[] {
  return [
    adminGet(WHERE, (visit) => show(visit, null)),
    adminPost(`${WHERE}/drain`, withFault(drain, show)),
    adminPost(`${WHERE}/resume`, withFault(resume, show)),
    adminPost(`${WHERE}/remove`, withFault(remove, show)),
  ];
}

async function show(visit: Visit, fault: Problem | null): Promise<Shown> {
  const [{ data }, { data: findings }] = await Promise.all([
    visit.ask('nodes.list'),
    visit.ask('doctor', { body: { checks: ['nodes'] } }),
  ]);
  const servers = data.flatMap((one) => (one.state === 'command' ? [] : [{ ...one, isThis: one.this }]));
  return view('nodes', 'Nodes', {
    servers,
    isOne: servers.length < 2,
    commands: data.filter(({ state }) => state === 'command'),
    faults: findings.flatMap(({ status, why, cure }) =>
      status === 'ok' ? [] : [{ why: `${why.slice(0, 1).toUpperCase()}${why.slice(1)}`, cure }],
    ),
    fault,
  });
}

const nodeOf = ({ form }: Visit): string => form.get('node') ?? '';

async function drain(visit: Visit): Promise<Shown> {
  const { name, leads, delivers } = await visit.ask('nodes.drain', { body: { node: nodeOf(visit) } });
  const more = leads ? ' It goes on doing the chores until it is stopped.' : '';
  return move(
    WHERE,
    `${name} is drained: ${delivers ? 'it still delivers, since no other node does that is not drained' : 'the other nodes deliver its mail'}, and balancers and SMTP clients are sent to them.${more}`,
  );
}

async function resume(visit: Visit): Promise<Shown> {
  const { name } = await visit.ask('nodes.resume', { body: { node: nodeOf(visit) } });
  return move(WHERE, `${name} is in service again.`);
}

async function remove(visit: Visit): Promise<Shown> {
  const { name } = await visit.ask('nodes.remove', {
    body: { node: nodeOf(visit), force: visit.form.get('force') === '1' },
  });
  return move(WHERE, `${name} is removed: what it writes fails from now on.`);
}
