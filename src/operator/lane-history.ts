/** The history of a lane: what its engines have changed since they were started, and the acts of operators, from the audit. */
import { rfc3339 } from '../base/rfc3339.ts';
import { pluralize } from '../base/pluralize.ts';
import type { LaneChange } from '../messages/delivery/lane-report.ts';
import type { Database } from '../storage/database.ts';

/** The newest acts on the server among which those on a lane are found, and the most of a lane that are shown. */
const MOST_LOOKED_AT = 5_000;
const MOST_ACTS = 100;

/** Words for the changes that acts on a lane have made; `isEnd` if one ended it. */
const acts: Readonly<Record<string, (record: LaneDeed, isEnd: boolean) => string>> = {
  'queue.hold': () => 'paused',
  'queue.release': (record) => (record.kind === 'limit' ? `no longer at most ${limitWords(record)}` : 'released'),
  'queue.limit': (record, isEnd) => `${isEnd ? 'no longer at most' : 'at most'} ${limitWords(record)}`,
  'queue.flush': () => 'all its mail tried now',
  'queue.cancel': ({ canceled = 0 }) => `${pluralize(canceled, 'waiting mail')} canceled`,
};

/** The members of an act's record that its words need. */
interface LaneDeed {
  kind?: 'hold' | 'limit';
  connections?: number | null;
  per_minute?: number | null;
  note?: string | null;
  canceled?: number;
}

const limitWords = ({ connections = null, per_minute: perMinute = null }: LaneDeed): string =>
  [
    ...(connections === null ? [] : [pluralize(connections, 'connection')]),
    ...(perMinute === null ? [] : [`${pluralize(perMinute, 'mail')} a minute`]),
  ].join(', ');

interface ActRow {
  at: number;
  actor: string;
  operation: string;
  after_json: string | null;
  before_json: string | null;
}

/** Returns the changes at the nodes and the acts, oldest first. `node` is null for acts. */
export async function historyOf(
  { db }: { db: Pick<Database, 'prepared'> },
  lane: string,
  nodes: readonly { node: string; changes: readonly LaneChange[] }[],
) {
  const rows = await db.prepared.all<ActRow>(
    `SELECT at, actor, operation, before_json, after_json FROM
       (SELECT * FROM audit WHERE account_id IS NULL ORDER BY id DESC LIMIT ?) newest
     WHERE operation IN (${Object.keys(acts)
       .map((name) => `'${name}'`)
       .join(', ')}) AND result = 'ok' AND object_id IN (?, ?) ORDER BY id DESC LIMIT ?`,
    [MOST_LOOKED_AT, lane, `the lane ${lane}`, MOST_ACTS],
  );
  return [
    ...rows.reverse().map(actOf),
    ...nodes.flatMap(({ node, changes }) => changes.map((change) => ({ ...change, node }))),
  ]
    .sort((a, b) => a.at - b.at)
    .map(({ at, what, to, cause, node }) => ({ at: rfc3339(at), what, to, cause, node }));
}

function actOf({ at, actor, operation, before_json: before, after_json: after }: ActRow) {
  const record = JSON.parse(after ?? before ?? '{}') as LaneDeed;
  const note = after === null ? null : (record.note ?? null);
  const cause = `${actor.replace(/^member:/, '')}${note === null ? '' : `: ${note}`}`;
  return {
    at,
    what: operation.slice('queue.'.length),
    to: acts[operation]?.(record, after === null) ?? operation,
    cause,
    node: null,
  };
}
