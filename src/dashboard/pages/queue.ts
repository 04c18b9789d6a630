/** The queue, for administrators: lanes with the reasons why their mail waits, waiting mail by destination, and the actions on both. */
import { Problem, missing } from '../../base/problem.ts';
import { groupBy } from '../../base/sets.ts';
import { soughtDomain } from '../../mail/address.ts';
import { deliveriesAre, limitNumbers, numbersOf } from '../../base/pluralize.ts';
import type { ArgsOf, ResultOf } from '../../operator/routes.ts';
import { whoText } from '../audit-words.ts';
import { filledIn, definedMembers, fieldHours, fieldNumber, fieldText } from '../forms.ts';
import { linkTo, placeWithin } from '../links.ts';
import { adminGet, adminPost, move, view, type Page, type Shown, type Visit } from '../page.ts';
import {
  destinationsOf,
  hrefOf,
  isAllHeld,
  isOfLane,
  keptLines,
  laneLink,
  plotsOf,
  reasonsOf,
  rowsOf,
  sumOf,
} from '../queue-rows.ts';
import { sortedRows } from '../sort.ts';
import { answerText } from '../words.ts';

const WHERE = '/queue';
const LANE = `${WHERE}/lane`;
const ROWS = 100;
/** Most destinations of a lane whose mail is shown. */
const MOST_DESTINATIONS = 5;
const SHOWN_ROWS = 200;

export const queuePages: readonly Page[] = [
  adminGet(WHERE, (visit) => show(visit, null)),
  adminGet(LANE, (visit) => lane(visit, null)),
  adminPost(`${WHERE}/flush`, flush),
  adminPost(`${WHERE}/hold`, hold, { again }),
  adminPost(`${WHERE}/release`, release),
  adminPost(`${WHERE}/limit`, limit, { again }),
  adminPost(`${WHERE}/cancel`, cancel, { again }),
];

function again(visit: Visit, fault: Problem): Promise<Shown> {
  return backOf(visit).startsWith(LANE) && visit.form.get('lane') !== null ? lane(visit, fault) : show(visit, fault);
}

async function show(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { query, form } = visit;
  const domain = soughtDomain((query.get('domain') ?? pausedOn(visit) ?? '').trim());
  const [found, holds] = await Promise.all([visit.ask('queue.lanes'), visit.ask('queue.holds')]);
  const lanes = sortedRows(rowsOf(found), { path: WHERE, query, name: 'lanes' }, laneColumns, '-waiting');
  const domains = sortedRows(destinationsOf(found), { path: WHERE, query, name: 'domains' }, domainColumns, '-waiting');
  const own = found.domains.find((one) => one.domain === domain);
  const inside = domain === '' ? null : await visit.ask('queue.list', { body: { domain, limit: ROWS } });
  return view('queue', 'Queue', {
    ...sumOf(found),
    isFleet: isFleet(found),
    lanes: lanes.rows.slice(0, SHOWN_ROWS),
    laneHeadings: lanes.headings,
    hasConnections: lanes.rows.some(({ state }) => state.limit > 0),
    domains: domains.rows.slice(0, SHOWN_ROWS),
    domainHeadings: domains.headings,
    domain,
    inside: inside && { ...inside, groups: byAnswer(withAccounts(visit, inside.data, found.domains)) },
    lane: hrefOf(own?.lane ?? '~'),
    // The row of a lane says why it rests.
    kept: keptLines(
      holds.others.filter(({ by }) => domain === '' && by !== 'rest' && by !== 'block_list'),
      found.domains,
    ),
    isKept: holds.others.length > 0,
    why: lanes.rows.flatMap(({ state, reasons }) => (own !== undefined && isOfLane(state)(own) ? reasons : [])),
    plots: plotsOf(visit.server.history.moments(), visit.zone),
    holds: holds.data
      .filter(({ scope, target }) => domain === '' || (scope === 'domain' && target === domain))
      .map((row) => withTarget(visit, row)),
    accounts: visit.accounts,
    fault,
    entered: filledIn(form),
    // A link of the search opens the form, and a refused form stays open.
    isPausing: query.has('pause') || fault !== null,
    pausesNew: fault === null,
    here: linkTo(WHERE, query, { pause: null, domain }),
  });
}

/** Returns the domain whose page has the refused form to pause it, or null. */
const pausedOn = (visit: Visit): string | null =>
  visit.form.get('scope') === 'domain' && backOf(visit).startsWith(`${WHERE}?domain=`)
    ? visit.form.get('target')
    : null;

/** Returns whether several nodes deliver, so that rows name theirs. */
const isFleet = ({ nodes }: Pick<ResultOf<'queue.lanes'>, 'nodes'>): boolean => nodes.length > 1;

const laneColumns = ['name', 'waiting', 'oldest_at', 'next'] as const;
const domainColumns = ['domain', 'waiting', 'oldest_at', 'next'] as const;

type Waiting = ResultOf<'queue.list'>['data'][number];

/** Adds the account of a mail, which an administrator switches to in order to see it. Mail of a paused domain is marked as held at its turn only. */
function withAccounts(
  { accounts, account }: Visit,
  rows: readonly Waiting[],
  domains: ResultOf<'queue.lanes'>['domains'],
): Waiting[] {
  const paused = new Set(domains.filter(isAllHeld).map(({ domain }) => domain));
  return rows.map((row) => ({
    ...row,
    held: row.held || paused.has(row.domain),
    account: accounts.find(({ id }) => id === row.account_id)?.name ?? row.account_id,
    isOwn: row.account_id === account.id,
  }));
}

/** Groups waiting mail by its last answer, the most frequent first; '' is that of mail that was not tried yet. */
export const byAnswer = (all: readonly Waiting[]) =>
  [...groupBy(all, ({ smtp }) => (smtp === null ? '' : answerText(smtp.code, smtp.reply)))]
    .map(([answer, rows]) => ({ answer, rows }))
    .sort((one, other) => other.rows.length - one.rows.length);

function withTarget({ accounts }: Visit, row: ResultOf<'queue.holds'>['data'][number]): object {
  const owner = accounts.find(({ id }) => id === row.account_id)?.name ?? row.account_id;
  const target =
    row.scope === 'account' ? owner : row.scope === 'stream' ? `${row.target} of ${owner ?? ''}` : row.target;
  return {
    ...row,
    target,
    by: setterOf(row.created_by),
    lane: row.scope === 'lane' ? laneLink(row.target) : null,
    isLimit: row.kind === 'limit',
    numbers: numbersOf(row).join(', '),
  };
}

const setterOf = (actor: string | null): string => whoText({ actor: actor ?? 'operator', user_agent: null });

/** Shows one lane: its limits with the log of their changes, its holds, and its mail. */
async function lane(visit: Visit, fault: Problem | null): Promise<Shown> {
  const name = visit.query.get('name') ?? visit.form.get('lane') ?? '';
  const [{ lane: now, changes, nodes, ages }, { domains, ...found }, holds] = await Promise.all([
    visit.ask('queue.lane', { body: { lane: name } }),
    visit.ask('queue.lanes'),
    visit.ask('queue.holds'),
  ]);
  const own = domains.filter(isOfLane(now));
  const lists = await Promise.all(
    own.slice(0, MOST_DESTINATIONS).map(({ domain }) => visit.ask('queue.list', { body: { domain, limit: ROWS } })),
  );
  const limited = holds.data.find(({ kind, target }) => kind === 'limit' && target === name);
  const limiter = setterOf(limited?.created_by ?? null);
  const data = {
    lane: now,
    nodes: nodes.length > 1 ? nodes : [],
    isFleet: isFleet(found),
    reasons: reasonsOf(now),
    oldestAt: ages.oldest_at,
    limits: now.limits.map((limit) => ({ ...limit, by: limit.by === 'operator' ? limiter : limit.by })),
    kept: keptLines(
      holds.others.filter(({ by, target }) => by !== 'rest' && target === name),
      domains,
    ),
    changes: [...changes].reverse(),
    domains: destinationsOf({ ...found, domains: own }).slice(0, SHOWN_ROWS),
    groups: byAnswer(
      withAccounts(
        visit,
        lists.flatMap((list) => list.data),
        own,
      ),
    ),
    hasMore: lists.some((list) => list.has_more) || own.length > MOST_DESTINATIONS,
    holds: holds.data
      .filter(({ scope, target }) => scope === 'lane' && target === name)
      .map((row) => withTarget(visit, row)),
    cancelQuestion: cancelQuestion(now),
    here: laneLink(name),
    fault,
    entered: filledIn(visit.form),
  };
  return view('lane', `Lane ${name}`, data);
}

/** The source of a mail is chosen when it is sent, so lanes of the same pool share their mail. */
function cancelQuestion({ source }: ResultOf<'queue.lane'>['lane']): string {
  const shared =
    source === null ? '' : ' That includes mail that other sources of its pool would send to these destinations.';
  return `Everything that waits for the destinations of this lane is canceled in all accounts and never sent.${shared} This cannot be undone.`;
}

/** Returns the page on which an action began. */
const backOf = ({ form }: Visit): string => {
  const place = placeWithin(form.get('back'));
  return form.get('back') === '/' || place.startsWith(WHERE) || place.startsWith('/messages/') ? place : WHERE;
};

async function flush(visit: Visit): Promise<Shown> {
  const { flushed, domains_unknown: unknown = 0 } = await visit.ask('queue.flush', { body: flushedOf(visit.form) });
  const tried = flushed === 0 ? 'No mail waited for a later time.' : `${deliveriesAre(flushed)} tried now.`;
  const text = `${tried} Pauses between connections end.`;
  return move(backOf(visit), [text, unknownNote(unknown)].join(' ').trim());
}

/** A form names one thing, or nothing for all mail. */
function flushedOf(form: URLSearchParams): ArgsOf<'queue.flush'> {
  const name = (['domain', 'lane', 'message_id'] as const).find((one) => fieldText(form, one) !== undefined);
  return name === undefined ? { all: true } : { [name]: fieldText(form, name) };
}

/** Tells of the domains that an act on a lane has left out. */
const unknownNote = (domains: number): string =>
  domains === 0
    ? ''
    : `Destinations left out, as DNS has not told where their mail goes: ${String(domains)}. Try again later.`;

/** Returns the part of the queue that the form names: `scope` is the kind of `target`. */
function partOf(form: URLSearchParams): Partial<ArgsOf<'queue.hold'>> {
  const target = fieldText(form, 'target');
  if (target === undefined) throw new Problem('missing_field', 'choose what to hold', { field: 'target' });
  const scope = form.get('scope');
  if (scope === 'stream') return { stream: target, ...definedMembers({ account: fieldText(form, 'account') }) };
  const member = (['domain', 'lane', 'message'] as const).find((one) => one === scope) ?? 'account';
  return { [member === 'message' ? 'message_id' : member]: target };
}

/** Returns the note for a lane that does not exist: it may be held before its first mail, and its name may be mistyped. */
const laneNote = (isKnown: boolean | null): string =>
  isKnown === false ? ' There is no lane of this name now: it takes effect with the first mail of such a lane.' : '';

async function hold(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const args = {
    ...partOf(form),
    ...definedMembers({ for_ms: fieldHours(form, 'hours'), note: fieldText(form, 'note') }),
    new: form.get('new') !== null,
  };
  const { catches_new: all, until, others, lane_known: isLaneKnown } = await visit.ask('queue.hold', { body: args });
  const how = all ? 'Paused: what waits and what comes rests' : 'Held: what waits now rests';
  const already = others.length === 0 ? '' : ' It was held already: its mail rests until all its holds have ended.';
  return move(
    backOf(visit),
    `${how}${until === null ? ' until it is released.' : '.'}${already}${laneNote(isLaneKnown)}`,
  );
}

async function release(visit: Visit): Promise<Shown> {
  await visit.ask('queue.release', { body: { id: visit.form.get('id') ?? '' } });
  return move(backOf(visit), 'Released: it goes on.');
}

async function limit(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const isEnd = form.get('end') !== null;
  const limits = isEnd
    ? {}
    : definedMembers(Object.fromEntries(limitNumbers.map((name) => [name, fieldNumber(form, name)])));
  if (!isEnd && Object.keys(limits).length === 0)
    throw missing('connections', 'say how many connections, or how many mails a minute, an hour or a day');
  const more = definedMembers({ for_ms: fieldHours(form, 'hours'), note: fieldText(form, 'note') });
  await visit.ask('queue.limit', { body: { lane: form.get('lane') ?? '', ...limits, ...more } });
  return move(backOf(visit), isEnd ? 'The limit is removed.' : 'The lane is limited.');
}

async function cancel(visit: Visit): Promise<Shown> {
  const { canceled, domains_unknown: unknown = 0 } = await visit.ask('queue.cancel', { body: partOf(visit.form) });
  const text = canceled === 0 ? 'Nothing waited.' : `${deliveriesAre(canceled)} canceled.`;
  // A lane that the engine has not tried is gone with its mail, and has no page any more.
  const place = visit.form.get('scope') === 'lane' ? WHERE : backOf(visit);
  return move(place, [text, unknownNote(unknown)].join(' ').trim());
}
