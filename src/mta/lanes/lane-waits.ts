/**
 * Explains why mail in a lane waits: text, since when, by whom, and until when, from the same limits that keep it back. Every page,
 * command and metric shows this list (messages/delivery/why.ts adds the reasons of the delivery itself). Pure but for the pool.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { pluralize } from '../../base/pluralize.ts';
import {
  limitsByHand,
  type LaneLimit,
  type LaneReport,
  type LaneChange,
  laneWait,
  type LaneWait,
} from '../../messages/delivery/why.ts';
import type { LimitCounts } from '../../messages/limits/counts.ts';
import {
  covers,
  isClosing,
  isWhole,
  keyOf,
  type ClosingKind,
  type Limit,
  type MailKey,
} from '../../messages/limits/limit.ts';
import type { Pool } from '../connection/pool.ts';
import type { GateWait } from '../connection/pooled-host.ts';
import { isShared, trafficsOf, type LaneState } from './lane-state.ts';
import type { LanePart } from './node-parts.ts';
import { isProbed, shareOf, type LaneMoment } from '../limits/allowance.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import type { LaneView } from '../../scheduling/lanes.ts';

export interface Surroundings {
  /** Those of the lane that stand. */
  limits: readonly Limit[];
  moment: LaneMoment;
  counts: Pick<LimitCounts, 'say'>;
  part: LanePart;
  connections: number;
  view: Pick<LaneView, 'waiting' | 'slots'>;
  waitsForSlot: boolean;
  /** Mail of the lane is put aside, since the hosts of its own domain cannot be had. */
  hasAside: boolean;
  pool: Pick<Pool, 'waitOf' | 'capOf'>;
  clock: Clock;
}

export function reportOf(state: LaneState, around: Surroundings): Omit<LaneReport, keyof LaneView> {
  const { clock } = around;
  const { source, lastReply, lastProgressAt } = state;
  const limits = limitsOf(state, around);
  const whole = limits.filter(({ domain }) => domain === undefined);
  // The lowest first.
  const [least] = numbers(whole, 'connections').filter(({ by }) => by !== 'nodes');
  const [rate] = numbers(whole, 'mails_per_minute');
  const parts = around.limits.filter(
    (limit) => !isWhole(limit) && (isClosing(limit) ? limit.until > clock.now() : limit.perMinute !== null),
  );
  const waits = [
    ...waitsOf(state, null, null, around),
    ...parts.map((limit) => limitWait(state, limit, around)),
    ...(around.hasAside ? [asideWait] : []),
  ];
  const parked = waits.filter(({ stops, until }) => stops && until !== null);
  return {
    source,
    limit: least?.to ?? around.connections,
    cause: least?.by === 'operator' ? 'set by the operator' : (least?.cause ?? 'start'),
    causeAt: least?.since ?? null,
    perMinute: rate?.to ?? null,
    limits,
    parkedUntil: parked.length === 0 ? null : Math.max(...parked.map(({ until }) => until ?? 0)),
    waits,
    lastReply,
    lastProgressAt,
    changes: [...state.changes],
  };
}

const numbers = (limits: readonly LaneLimit[], kind: LaneLimit['what']): LaneLimit[] =>
  limits.filter(({ what }) => what === kind).sort((a, b) => a.to - b.to);

/**
 * Returns what this mail waits for; with null, the lane as a whole. `site` is the site of the mail's own domain, which in an operator's lane
 * differs; null for the lane as a whole, which for an operator's has no hosts.
 */
export function waitsOf(state: LaneState, mail: MailKey | null, site: Site | null, around: Surroundings): LaneWait[] {
  const { pool, clock, limits, moment } = around;
  const now = clock.now();
  const covering = limits.filter((limit) => (mail === null ? isWhole(limit) : covers(limit, mail)));
  // The limit that lasts longest explains most.
  const closed = covering
    .filter((limit) => isClosing(limit) && (limit.until > now || (isProbed(limit) && moment.probes.has(keyOf(limit)))))
    .sort((a, b) => b.until - a.until);
  const full = covering.flatMap((limit) => countWait(limit, mail, around) ?? []);
  const own = site ?? (isShared(state) ? null : state.site);
  const hosts = own === null ? null : hostsWait(own, state.source, pool, clock);
  // The slowest explains most.
  const shares = (limit: Limit): number => shareOf(limit, around.part.nodes) ?? Infinity;
  const rates = covering.filter((limit) => shares(limit) < Infinity).sort((a, b) => shares(a) - shares(b));
  const shared = shareWait(around, nameOf(state));
  return [
    ...closed.map((limit) => limitWait(state, limit, around)),
    ...full,
    ...(hosts === null ? [] : [hosts]),
    ...(around.waitsForSlot ? [slotWait] : []),
    ...rates.map((limit) => limitWait(state, limit, around)),
    ...(shared === null ? [] : [shared]),
  ];
}

/** A host that is dead or busy stops the mail of its own organisation, not the lane. */
const asideWait = laneWait(
  'destination_parked',
  'Mail for domains whose own hosts cannot be had waits for these; the other mail goes.',
  { by: 'receiver' },
);

const nameOf = ({ site, source }: LaneState): string =>
  `${site?.name ?? 'the receiver'}${source === null ? '' : ` from ${source}`}`;

/** Explains that as many mails have gone as may go in an hour or a day; null if more may go. */
function countWait(limit: Limit, mail: MailKey | null, { moment, counts, clock }: Surroundings): LaneWait | null {
  const until = limit.kind === 'count' ? moment.fullUntil(limit, mail) : 0;
  if (until <= clock.now()) return null;
  const said = counts.say(limit);
  return laneWait('rate_limited', `${said.slice(0, 1).toUpperCase()}${said.slice(1)}.`, {
    since: limit.since || null,
    until,
    by: limit.quota?.most === null ? 'us' : 'operator',
    kind: limit.quota?.most === null ? 'warm_up' : 'rule',
    stops: true,
  });
}

/** Explains a limit: what it is about, in the other side's words, since when, and what ends it. */
function limitWait(state: LaneState, limit: Limit, around: Surroundings): LaneWait {
  const { domain, account } = limit;
  return {
    ...wholeWait(state, limit, around),
    ...(domain === null ? {} : { domain }),
    ...(account === null ? {} : { account }),
  };
}

function wholeWait(state: LaneState, limit: Limit, around: Surroundings): LaneWait {
  const { clock, moment } = around;
  if (limit.kind === 'limit') return operatorsRateWait(state, limit, around);
  const { kind, domain, account, site, cause, since, until } = limit;
  const now = clock.now();
  const to = site === '' ? 'Every site' : domain === null ? nameOf(state) : `${domain} (${nameOf(state)})`;
  const whom = account === null ? to : `${to}, for this account,`;
  if (kind === 'rate') {
    const traffic = (domain === null ? state.traffic : trafficsOf(state, domain, now)[1]) ?? state.traffic;
    const at = Math.max(until, traffic.readyAt(limit.perMinute, now));
    const message = `${whom} takes about ${pluralize(limit.perMinute ?? 0, 'mail')} a minute: "${cause}".`;
    return laneWait('rate_limited', message, { since, until: at > now ? at : null, by: 'receiver' });
  }
  if (kind === 'rule')
    return laneWait('receiver_resting', `Mail to ${to} waits by a shaping rule of this server (${cause}).`, {
      since: limit.changedAt,
      until,
      kind,
      stops: true,
    });
  const isProbing = now >= until && moment.probes.has(keyOf(limit));
  const next = isProbing
    ? ' One mail is trying now.'
    : ' One mail tries when that is over, and ends it if it is accepted.';
  const closing = kind as Exclude<ClosingKind, 'rule'>;
  const message = `${messages[closing](whom)}: "${cause}".${next}`;
  return laneWait(reasons[closing], message, {
    since,
    until: isProbing ? null : until,
    by: 'receiver',
    kind: closing,
    stops: domain === null && account === null,
  });
}

const messages = {
  sender: (whom: string) => `${whom} refuses mail from us again and again`,
  block_list: (whom: string) => `${whom} refuses mail from this address, which is on a block list`,
  load: (whom: string) => `${whom} cannot take mail now`,
  tls: (whom: string) => `The mail hosts of ${whom} do not have the TLS that is asked for`,
} as const;

const reasons = {
  sender: 'receiver_refuses_us',
  block_list: 'receiver_refuses_us',
  load: 'receiver_overloaded',
  tls: 'tls_required',
} as const;

/** If all hosts of the site are closed or full, returns why the host that opens first is; else null. */
function hostsWait(site: Site, source: string | null, pool: Surroundings['pool'], clock: Clock): LaneWait | null {
  const most = site.operator?.maxConnections;
  const found = site.hosts.flatMap((host) => {
    const wait = pool.waitOf(hostKey(host, source), most);
    return wait === null ? [] : [{ name: host.name, wait }];
  });
  const [first] = found.sort((a, b) => (a.wait.until ?? Infinity) - (b.wait.until ?? Infinity));
  return first === undefined || found.length < site.hosts.length
    ? null
    : hostWait(first.name, first.wait, found.length, clock);
}

function hostWait(name: string, wait: GateWait, count: number, clock: Clock): LaneWait {
  const ahead = clock.now() - clock.monotonic();
  const until = wait.until === null ? null : Math.round(wait.until + ahead);
  if (wait.why === 'full' || wait.why === 'opening')
    return laneWait(
      'connections_in_use',
      wait.why === 'full'
        ? `As many connections to ${name} are open as we open to one host; it goes over one of them.`
        : `A connection to ${name} is being opened.`,
      { until },
    );
  const since = wait.since === 0 ? null : Math.round(wait.since + ahead);
  const said = wait.cause === '' ? '' : `: "${wait.cause}"`;
  if (wait.why === 'cap')
    return laneWait('connections_in_use', `${name} takes no more connections than are open${said}.`, {
      since,
      until,
      by: 'receiver',
    });
  const others = count > 1 ? ` and ${String(count - 1)} more` : '';
  const tries = wait.why === 'probing' ? ' One connection is trying now.' : '';
  const message = `${name}${others} ${didWhat[wait.how]}${said}.${tries}`;
  return laneWait('destination_parked', message, { since, until, by: 'receiver', stops: true });
}

const didWhat = {
  unreachable: 'cannot be reached',
  refused: 'refuses connections from us',
  broken: 'breaks off while it takes a mail',
  silent: 'lets us wait for its greeting',
} as const;

/** The lane waits for one of this server's own connections. */
const slotWait = laneWait(
  'connections_in_use',
  'All connections of this server are in use (delivery.maxConnections), or those that are left are kept for other accounts or transactional mail. This mail goes when one becomes free.',
);

/** Returns that other nodes have the lane's other connections, if mail waits for one. */
function shareWait({ part: { nodes, isNew }, connections, view }: Surroundings, name: string): LaneWait | null {
  if ((nodes === 1 && !isNew) || view.waiting === 0 || view.slots < connections) return null;
  const message = isNew
    ? `Other nodes may send to ${name} as well: the one that has this mail keeps to one connection until they know of it.`
    : `${String(nodes)} nodes have mail for ${name} and share its limits: each has ${pluralize(connections, 'connection')}.`;
  return laneWait('connections_in_use', message);
}

function operatorsRateWait(state: LaneState, limit: Limit, { clock, part }: Surroundings): LaneWait {
  const { perMinute, since, cause } = limit;
  const now = clock.now();
  const at = state.traffic.spreadAt(now);
  const message = `Mail to ${nameOf(state)} is limited to ${pluralize(perMinute ?? 0, 'mail')} a minute${herePart(perMinute ?? 0, shareOf(limit, part.nodes) ?? 0)}${cause === '' ? '' : ` (${cause})`}.`;
  return laneWait('rate_limited', message, { since, until: at > now ? at : null, by: 'operator' });
}

const herePart = (perMinute: number, here: number): string =>
  here === perMinute
    ? ' on this server'
    : `, which the nodes share: this one sends ${String(Math.round(here))} of them`;

function limitsOf(state: LaneState, { limits: standing, pool, clock, part, connections }: Surroundings): LaneLimit[] {
  const { site, source } = state;
  const limits: LaneLimit[] = standing.flatMap((limit): LaneLimit[] => {
    const { kind, connections: count, perMinute, by, cause, since, changedAt, domain } = limit;
    if (limit.account !== null || limit.stream !== null) return [];
    const of = domain === null ? {} : { domain };
    if (limit.kind === 'limit') return limitsByHand(limit).map((one) => ({ ...one, ...of }));
    if (kind === 'connections' && count !== null)
      return [{ what: 'connections', to: count, by, cause, since: changedAt, ...of }];
    return kind === 'rate' && perMinute !== null
      ? [{ what: 'mails_per_minute', to: perMinute, by: 'receiver', cause, since, ...of }]
      : [];
  });
  const hosts = site?.operator == null ? (site?.hosts ?? []) : [];
  const caps = hosts.map((host) => pool.capOf(hostKey(host, source)));
  const [first] = caps;
  if (first != null && caps.every((cap) => cap !== null)) {
    const to = caps.reduce((sum, cap) => sum + cap.cap, 0);
    limits.push({ what: 'connections', to, by: 'receiver', cause: first.cause, since: clock.now() - first.ageMs });
  }
  if (part.nodes > 1)
    limits.push({
      what: 'connections',
      to: connections,
      by: 'nodes',
      cause: `${String(part.nodes)} nodes have mail for it`,
      since: null,
    });
  return limits;
}

export function changeOf(limit: Limit, how: 'set' | 'ended'): Omit<LaneChange, 'at'> {
  const { kind, connections, perMinute, until, cause, account, domain, site } = limit;
  const scope = [
    ...(account === null ? [] : [`account ${account}`]),
    ...(domain === null ? [] : [`domain ${domain}`]),
    ...(site === '' ? ['every site'] : []),
  ].join(', ');
  const part = scope === '' ? '' : ` for ${scope}`;
  if (kind === 'connections') return { what: 'connections', to: pluralize(connections ?? 0, 'connection'), cause };
  if (kind === 'rate')
    return {
      what: 'pace',
      to: `${how === 'ended' ? 'no limit of mails' : `${String(perMinute)} mails a minute`}${part}`,
      cause,
    };
  return {
    what: 'pause',
    to: how === 'ended' ? `the rest is over${part}` : `rests until ${new Date(until).toISOString()}${part}`,
    cause,
  };
}

/** Writes the log line of a limit that closes a lane or a part of it. `source` is null for the system's address. */
export function logOf(log: Log, lane: string, source: string | null, limit: Limit): void {
  const { kind, account, domain, site, cause: reply } = limit;
  const until = new Date(limit.until).toISOString();
  if (!isClosing(limit) || kind === 'rule') return;
  if (kind === 'block_list')
    log.error(
      { event: 'source_blocklisted', source, site: site === '' ? null : site, domain, until, reply },
      logMessages.block_list,
    );
  else
    log.error(
      { event: 'lane_rests', lane, kind, account, domain, until, reply },
      logMessages[kind as keyof typeof logMessages],
    );
}

const logMessages: Readonly<Record<Exclude<ClosingKind, 'rule'>, string>> = {
  sender: 'a receiver refuses mail from us again and again: mail for it waits, and one mail tries from time to time',
  block_list:
    'a block list keeps a source out: its mail waits or goes by another source, and one mail tries from time to time',
  load: 'a receiver cannot take mail now: mail for it waits, and one mail tries from time to time',
  tls: 'mail hosts do not have the TLS that is asked for: mail for them waits, and one mail tries from time to time',
};
