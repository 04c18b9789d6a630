/** The checks of `npm run torture -- nodes` on the clients' answers, the events, the webhook calls and the copies. */
import type { PostgresServer } from '../support/harness/postgres-server.ts';
import type { Accepted, Asked } from './node-clients.ts';
import type { Fault } from './node-faults.ts';
import type { Arrival } from './node-site.ts';

export type Problem = (text: string) => void;

/** The nodes that a fault hit, and its time. Second copies of mail that these nodes sent in this time are explained by it. */
export interface Hit {
  nodes: readonly string[];
  from: number;
  to: number;
}

/** An outcome is in a commit at most so long after its mail arrived. */
const UNWRITTEN_MS = 2000;

/** A node that the fault did not meet answers well. Where it meets all, with 503 and when to come again, or not at all while it restarts. */
export function judgeAnswers(fault: Fault, hit: readonly string[], asked: readonly Asked[], problem: Problem): void {
  const isBad = ({ node, status, hasRetryAfter }: Asked): boolean => {
    if (status >= 200 && status < 300) return false;
    const saysWhen = status === 503 && hasRetryAfter;
    if (fault.whom === 'database' || fault.whom === 'drained') return !saysWhen;
    if (fault.whom === 'each') return status !== 0 && !saysWhen;
    return !hit.includes(node) || (status >= 500 && !saysWhen);
  };
  const kinds = new Map<string, number>();
  for (const { node, status, code } of asked.filter(isBad)) {
    const kind = `${node} answered ${status === 0 ? 'nothing' : `${String(status)} ${code}`}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  for (const [kind, times] of kinds) problem(`${kind}, ${String(times)} times`);
}

/** The reader must have seen each event that the database has once, in the order of the numbers. */
export async function judgeEvents(database: PostgresServer, seen: readonly string[], problem: Problem): Promise<void> {
  const rows = await database.query<{ id: string; type: string }>(
    'SELECT id, type FROM events ORDER BY sequence',
    'posthorn',
  );
  const set = new Set(seen);
  if (set.size < seen.length) problem(`${String(seen.length - set.size)} events were seen twice`);
  const types = new Set(rows.filter(({ id }) => set.has(id)).map(({ type }) => type));
  const expected = rows.filter(({ type }) => types.has(type)).map(({ id }) => id);
  const missed = expected.filter((id) => !set.has(id)).length;
  if (missed > 0) problem(`${String(missed)} of ${String(expected.length)} events were not seen`);
  if (missed === 0 && set.size === seen.length && expected.some((id, at) => id !== seen[at]))
    problem('events were not seen in the order of their numbers');
}

/** Each endpoint must have been called with each event of the type at least once. Returns the calls that were repeated. */
export async function judgeCalls(
  database: PostgresServer,
  calls: readonly ReadonlyMap<string, number>[],
  problem: Problem,
): Promise<number> {
  const rows = await database.query<{ id: string }>("SELECT id FROM events WHERE type = 'delivered'", 'posthorn');
  let repeated = 0;
  for (const [at, of] of calls.entries()) {
    const missed = rows.filter(({ id }) => !of.has(id)).length;
    if (missed > 0)
      problem(`webhook ${String(at)} was not called with ${String(missed)} of ${String(rows.length)} events`);
    for (const times of of.values()) repeated += times - 1;
  }
  return repeated;
}

/** Each second copy must come from a node that was lost soon after, and from an attempt whose end is not known. Returns how many there are. */
export async function judgeCopies(
  database: PostgresServer,
  seen: { arrivals: readonly Arrival[]; accepted: ReadonlyMap<string, Accepted>; hits: readonly Hit[] },
  problem: Problem,
): Promise<number> {
  const rows = await database.query<{ message_id: string; n: string }>(
    "SELECT message_id, count(*) AS n FROM attempts WHERE outcome = 'uncertain' GROUP BY message_id",
    'posthorn',
  );
  const uncertain = new Map(rows.map(({ message_id: id, n }) => [id, Number(n)]));
  let second = 0;
  for (const [mark, copies] of copiesOf(seen.arrivals)) {
    second += copies.length - 1;
    const id = seen.accepted.get(mark)?.id;
    // A mail by SMTP whose 250 was lost is known by its mark only.
    const unknown = id === undefined ? copies.length - 1 : (uncertain.get(id) ?? 0);
    if (unknown < copies.length - 1)
      problem(`${mark} came ${String(copies.length)} times, and ${String(unknown)} attempts are uncertain`);
    for (const { node, at } of copies.slice(0, -1))
      if (!seen.hits.some(({ nodes, from, to }) => nodes.includes(node ?? '') && at >= from - UNWRITTEN_MS && at <= to))
        problem(`${mark} came again, though nothing had happened to ${node ?? 'its node'}, which brought it`);
  }
  return second;
}

/** The mails that came more than once, each with its copies in their order. */
function copiesOf(arrivals: readonly Arrival[]): Map<string, Arrival[]> {
  const all = new Map<string, Arrival[]>();
  for (const one of arrivals) {
    const of = all.get(one.id);
    if (of === undefined) all.set(one.id, [one]);
    else of.push(one);
  }
  return new Map([...all].filter(([, copies]) => copies.length > 1));
}
