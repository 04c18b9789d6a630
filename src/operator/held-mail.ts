/**
 * Counts the mail that is kept back now, by cause: holds of the operator, routes, pauses, refused sending domains, block lists, warm-up and
 * rests. The counts come from the partial indexes of what waits; the reasons come from the delivery engine.
 */
import { gauge, type Family } from './metrics/exposition.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { isOfPool, readMark, type PoolMark } from '../messages/delivery/hold-mark.ts';
import type { LaneFacts, LaneWait, SetBy } from '../messages/delivery/why.ts';
import { readQueue, type Queue } from './lane-records.ts';
import { MOST_DOMAINS, siteOf, type LanesDeps } from './lanes.ts';
import type { OperatorDeps } from './server-route.ts';
import { dialectOf } from '../storage/sql.ts';

export const heldBys = [
  'route',
  'operator',
  'account_pause',
  'stream_pause',
  'domain_refused',
  'block_list',
  'warm_up',
  'no_source',
  'rest',
] as const;
export type HeldBy = (typeof heldBys)[number];

/** Mail that is kept back by one cause. */
export interface HeldMail {
  object: 'held_mail';
  by: HeldBy;
  /** A recipient domain, a lane, an account's id, `account id/stream`, a sending domain, or a hold's id. */
  target: string;
  /** The account whose mail it is, if the cause concerns one account. */
  account_id: string | null;
  /** Recipients that wait for it. */
  waiting: number;
  since: string | null;
  /** When it ends by itself or is looked at again, or null. */
  until: string | null;
  set_by: SetBy;
  /** A whole sentence. */
  message: string;
}

type Deps = LanesDeps & Pick<OperatorDeps, 'db' | 'clock' | 'laneFacts' | 'limits'>;

/** The most marks, domains and parts of resting lanes that are read, the largest first. */
const MOST = MOST_DOMAINS;

/** The kinds of limits that close a lane or a part of it. */
const kinds = ['sender', 'block_list', 'load', 'tls', 'rule'] as const satisfies readonly LaneWait['kind'][];

/** Returns whether a wait is for a limit that closes the lane or a part of it. */
export const isRest = ({ kind }: Pick<LaneWait, 'kind'>): boolean => kind !== undefined;

/** Returns all causes, those with the most mail first. */
export async function heldMail(deps: Deps): Promise<HeldMail[]> {
  return await heldIn(deps, await readQueue(deps));
}

async function heldIn(deps: Deps, queue: Queue): Promise<HeldMail[]> {
  const all = await Promise.all([markedMail(deps), routedMail(deps, queue), restingMail(deps, queue)]);
  return all.flat().sort((a, b) => b.waiting - a.waiting);
}

interface Mark {
  mark: string;
  waiting: number;
  since: number | null;
  domain: string;
}

/** Counts deliveries that are marked with their hold (messages/delivery/holds.ts), from the index alone. */
async function markedMail(deps: Deps): Promise<HeldMail[]> {
  const marks = await deps.db.reader.raw<Mark[]>(
    `SELECT m.mark, m.waiting, d.held_at AS since, d.domain FROM (
       SELECT held_by AS mark, COUNT(*) AS waiting, MIN(id) AS id FROM deliveries
       WHERE held_by IS NOT NULL GROUP BY held_by ORDER BY waiting DESC, held_by LIMIT ?) m
     JOIN deliveries d ON d.id = m.id`,
    [MOST],
  );
  const asked = marks.filter(({ mark }) => isOfPool(mark));
  const found = await deps.laneFacts(asked.map(({ mark, domain }) => ({ domain, account: '', mark })));
  const facts = new Map(asked.map(({ mark }, at) => [mark, found[at] ?? null]));
  return marks.map((mark) => ofMark(mark, facts.get(mark.mark) ?? null));
}

function ofMark({ mark: text, waiting, since }: Mark, facts: LaneFacts | null): HeldMail {
  const mark = readMark(text);
  const given = { object: 'held_mail', account_id: null, waiting, since: rfc3339(since), until: null } as const;
  switch (mark?.kind) {
    case 'account': {
      const message = 'Sending is paused for this account.';
      const { accountId } = mark;
      return { ...given, by: 'account_pause', target: accountId, account_id: accountId, set_by: 'operator', message };
    }
    case 'stream': {
      const { accountId, stream } = mark;
      const target = `${accountId}/${stream}`;
      const message = 'The stream is paused.';
      return { ...given, by: 'stream_pause', target, account_id: accountId, set_by: 'sender', message };
    }
    case 'domain': {
      const { accountId, domain } = mark;
      const message = `Mail from ${domain} is refused: the domain is not verified.`;
      return { ...given, by: 'domain_refused', target: domain, account_id: accountId, set_by: 'dns', message };
    }
    case 'pool':
    case 'paused':
      return { ...given, ...ofPool(mark, facts), target: mark.site };
    case 'hold':
    case undefined:
      return { ...given, by: 'operator', target: text, set_by: 'operator', message: 'There is a hold on it.' };
  }
}

/** Returns what the engine tells of the hold on a pool. */
function ofPool(
  { kind }: PoolMark,
  facts: LaneFacts | null,
): Pick<HeldMail, 'by' | 'set_by' | 'message'> & Partial<HeldMail> {
  const hold = facts?.held ?? null;
  const by = kind === 'paused' ? 'operator' : hold?.until === null ? 'no_source' : 'warm_up';
  const setBy = hold?.setBy ?? (by === 'operator' ? 'operator' : 'us');
  if (hold !== null)
    return { by, set_by: setBy, message: sentence(hold.why), since: rfc3339(hold.since), until: rfc3339(hold.until) };
  return { by, set_by: setBy, message: 'Its hold has ended; it will be sent within half a minute.' };
}

const sentence = (words: string): string => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;

async function routedMail(deps: Deps, { domains }: Queue): Promise<HeldMail[]> {
  const rows = domains.filter(({ lane }) => lane === '~hold');
  const facts = await deps.laneFacts(rows.map(({ domain }) => ({ domain, account: '' })));
  return rows.map(({ domain, waiting: count, oldest_due_at: oldest }, at) => ({
    object: 'held_mail',
    by: 'route',
    target: domain,
    account_id: null,
    waiting: count,
    since: rfc3339(Math.min(Date.parse(oldest), deps.clock.now())),
    until: null,
    set_by: 'operator',
    message: facts[at]?.waits[0]?.message ?? `The route of ${domain} in delivery.routes holds its mail.`,
  }));
}

/** Counts the mail of each lane that rests. A rest may concern one domain or one account only. */
async function restingMail({ db, laneFacts, mta }: Deps, queue: Queue): Promise<HeldMail[]> {
  const resting = new Set(
    queue.lanes.flatMap(({ name, source, waits }) => (waits.some(isRest) ? [siteOf(name, source)] : [])),
  );
  if (resting.size === 0) return [];
  const domains = queue.domains.filter(({ lane }) => resting.has(lane)).map(({ domain }) => domain);
  const parts = await db.reader.raw<{ domain: string; account: string; waiting: number }[]>(
    `SELECT domain, account_id AS account, COUNT(*) AS waiting FROM deliveries
     WHERE due_at IS NOT NULL AND held_by IS NULL AND domain ${dialectOf(db.reader).among('text')}
     GROUP BY domain, account_id ORDER BY waiting DESC LIMIT ?`,
    [JSON.stringify(domains), MOST],
  );
  const found = new Map<string, HeldMail>();
  const facts = await laneFacts(parts);
  for (const [at, part] of parts.entries()) {
    const rest = facts[at]?.waits.find(isRest);
    if (rest === undefined) continue;
    const target = mta.laneOf(part.domain);
    const key = `${target} ${rest.message}`;
    const before = found.get(key)?.waiting ?? 0;
    found.set(key, {
      object: 'held_mail',
      by: rest.kind === 'block_list' ? 'block_list' : 'rest',
      target,
      account_id: null,
      waiting: before + part.waiting,
      since: rfc3339(rest.since),
      until: rfc3339(rest.until),
      set_by: rest.by,
      message: rest.message,
    });
  }
  return [...found.values()];
}

/** Returns the figures for Prometheus. Each label always has a sample, so that an alert ends when the mail is gone. */
export async function heldFigures(deps: Deps): Promise<Family[]> {
  const queue = await readQueue(deps);
  const held = await heldIn(deps, queue);
  const resting = new Set(
    queue.lanes.flatMap(({ name, waits }) =>
      waits.flatMap(({ kind }) => (kind === undefined ? [] : [`${kind} ${name}`])),
    ),
  );
  return [
    gauge(
      'posthorn_queue_held',
      'Recipients whose mail is kept back, by what keeps it back.',
      heldBys.map((by) => ({
        labels: { by },
        value: held.filter((one) => one.by === by).reduce((sum, one) => sum + one.waiting, 0),
      })),
    ),
    gauge(
      'posthorn_lanes_resting',
      'Lanes that rest because of what the receiver answers, or by a shaping rule.',
      kinds.map((kind) => ({
        labels: { kind },
        value: [...resting].filter((one) => one.startsWith(`${kind} `)).length,
      })),
    ),
  ];
}
