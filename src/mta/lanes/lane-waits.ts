/**
 * Explains why mail in a lane waits: text, since when, by whom, and until when, from the same facts that keep it back. Every page,
 * command and metric shows this list (messages/delivery/why.ts adds the reasons of the delivery itself). Pure but for the pool.
 */
import type { Clock } from '../../base/clock.ts';
import type { LaneLimits } from '../../messages/delivery/hold-book.ts';
import type { LaneView, NoSlot } from '../../scheduling/lanes.ts';
import { operatorCause, type LaneLimit, type LaneLimitsReport } from '../../messages/delivery/lane-report.ts';
import type { LaneWait } from '../../messages/delivery/why.ts';
import type { GateWait } from '../connection/dial-gate.ts';
import type { Pool } from '../connection/pool.ts';
import { hostKey } from '../names.ts';
import { isShared, type LaneState } from './lane-state.ts';
import type { LaneShare } from './lane-shares.ts';
import { readyAt } from './pace.ts';
import type { MailKey, Rest } from './rests.ts';
import type { Site } from '../sites/sites.ts';

/** The limits and counts, beside the lane's own state, that decide how fast it goes. */
export interface Surroundings {
  /** The operator's limits. */
  given: LaneLimits | null;
  /** Mails a minute that the operator lets this node send. */
  perMinute: number | null;
  share: LaneShare;
  view: Pick<LaneView, 'waiting' | 'slots'>;
  noSlot: NoSlot | null;
  /** Mail of the lane is put aside, since the hosts of its own domain cannot be had. */
  hasAside: boolean;
  pool: Pick<Pool, 'waitOf' | 'capOf'>;
  clock: Clock;
}

export function reportOf(state: LaneState, around: Surroundings): LaneLimitsReport {
  const { clock } = around;
  const { source, lastReply, lastProgressAt } = state;
  const limits = limitsOf(state, around);
  const counts = limits.filter(({ what }) => what === 'connections').sort((a, b) => a.to - b.to);
  const rates = limits.filter(({ what }) => what === 'mails_per_minute').sort((a, b) => a.to - b.to);
  const [least] = counts;
  const waits = [
    ...state.rests
      .list()
      .filter(({ until }) => until > clock.now())
      .map((rest) => restWait(rest, nameOf(state))),
    ...waitsOf(state, null, null, around),
    ...(around.hasAside ? [asideWait] : []),
  ];
  const parked = waits.filter(({ stops, until }) => stops && until !== null);
  return {
    source,
    limit: least?.to ?? state.throttle.limit,
    cause: least?.by === 'operator' ? operatorCause({ note: null }) : (least?.cause ?? state.throttle.cause),
    causeAt: least?.since ?? state.throttle.causeAt,
    perMinute: rates[0]?.to ?? null,
    limits,
    parkedUntil: parked.length === 0 ? null : Math.max(...parked.map(({ until }) => until ?? 0)),
    waits,
    lastReply,
    lastProgressAt,
  };
}

/**
 * Returns what this mail waits for; with null, the lane as a whole. `site` is the site of the mail's own domain, which in an operator's lane
 * differs; null for the lane as a whole, which for an operator's has no hosts.
 */
export function waitsOf(state: LaneState, mail: MailKey | null, site: Site | null, around: Surroundings): LaneWait[] {
  const { pool, clock } = around;
  const now = clock.now();
  const name = nameOf(state);
  const waits: LaneWait[] = [];
  const rest = mail === null ? null : state.rests.of(mail, now);
  if (rest !== null) waits.push(restWait(rest, name));
  const { ruleRest } = state;
  if (ruleRest !== null && ruleRest.until > now) {
    const { since, until, cause } = ruleRest;
    const message = `Mail to ${name} rests by a shaping rule of this server (${cause}).`;
    waits.push({ reason: 'receiver_resting', message, since, until, by: 'operator', stops: true });
  }
  const own = site ?? (isShared(state) ? null : state.site);
  const hosts = own === null ? null : hostsWait(own, state.source, pool, clock);
  if (hosts !== null) waits.push(hosts);
  if (around.noSlot !== null) waits.push(slotWait(around.noSlot));
  const pace = paceWait(state, around, name, now);
  if (pace !== null) waits.push(pace);
  const shared = shareWait(state, around, name);
  if (shared !== null) waits.push(shared);
  return waits;
}

/** A host that is dead or busy stops the mail of its own organisation, not the lane. */
const asideWait: LaneWait = {
  reason: 'destination_parked',
  message: 'Mail for domains whose own hosts cannot be had waits for these; the other mail goes.',
  since: null,
  until: null,
  by: 'receiver',
  stops: false,
};

const nameOf = ({ site, source }: LaneState): string =>
  `${site?.name ?? 'the receiver'}${source === null ? '' : ` from ${source}`}`;

function restWait({ kind, domain, cause, since, until, isProbing }: Rest, name: string): LaneWait {
  const whom = domain === null ? name : `${domain} (${name})`;
  const next = isProbing ? ' One mail is trying now.' : ' One mail tries when the rest is over.';
  const message = `${restMessages[kind](whom)}: "${cause}".${next}`;
  const tryAt = isProbing ? null : until;
  return { reason: restReasons[kind], message, since, until: tryAt, by: 'receiver', stops: domain === null };
}

const restMessages = {
  sender: (whom: string) => `${whom} refuses mail from us again and again`,
  load: (whom: string) => `${whom} cannot take mail now`,
  rate: (whom: string) => `${whom} takes only so much mail in a time`,
  tls: (whom: string) => `The mail hosts of ${whom} do not have the TLS that is asked for`,
} as const;

const restReasons = {
  sender: 'receiver_refuses_us',
  load: 'receiver_overloaded',
  rate: 'rate_limited',
  tls: 'tls_required',
} as const;

/** Where all hosts of the site are closed or full, returns why the host that opens first is; else null. */
function hostsWait(site: Site, source: string | null, pool: Surroundings['pool'], clock: Clock): LaneWait | null {
  const most = site.operator?.maxConnections;
  const found: { name: string; wait: GateWait }[] = [];
  for (const host of site.hosts) {
    const wait = pool.waitOf(hostKey(host, source), most);
    if (wait === null) return null;
    found.push({ name: host.name, wait });
  }
  found.sort((a, b) => (a.wait.until ?? Infinity) - (b.wait.until ?? Infinity));
  const [first] = found;
  return first === undefined ? null : hostWait(first.name, first.wait, found.length, clock);
}

function hostWait(name: string, wait: GateWait, count: number, clock: Clock): LaneWait {
  const ahead = clock.now() - clock.monotonic();
  const until = wait.until === null ? null : Math.round(wait.until + ahead);
  if (wait.why === 'full')
    return {
      reason: 'connections_in_use',
      message: `As many connections to ${name} are open as we open to one host; it goes over one of them.`,
      since: null,
      until,
      by: 'us',
      stops: false,
    };
  if (wait.why === 'opening')
    return {
      reason: 'connections_in_use',
      message: `A connection to ${name} is being opened.`,
      since: null,
      until,
      by: 'us',
      stops: false,
    };
  const since = wait.since === 0 ? null : Math.round(wait.since + ahead);
  const said = wait.cause === '' ? '' : `: "${wait.cause}"`;
  if (wait.why === 'cap')
    return {
      reason: 'connections_in_use',
      message: `${name} takes no more connections than are open${said}.`,
      since,
      until,
      by: 'receiver',
      stops: false,
    };
  const others = count > 1 ? ` and ${String(count - 1)} more` : '';
  const tries = wait.why === 'probing' ? ' One connection is trying now.' : '';
  const message = `${name}${others} ${didWhat[wait.how]}${said}.${tries}`;
  return { reason: 'destination_parked', message, since, until, by: 'receiver', stops: true };
}

const didWhat = {
  unreachable: 'cannot be reached',
  refused: 'refuses connections from us',
  broken: 'breaks off while it takes a mail',
} as const;

/** Returns that the lane waits for one of this server's own connections. */
const slotWait = (why: NoSlot): LaneWait => ({
  reason: 'connections_in_use',
  message: noSlotMessages[why],
  since: null,
  until: null,
  by: 'us',
  stops: false,
});

const noSlotMessages = {
  'all taken':
    'All connections of this server are in use (delivery.maxConnections). Receivers that have none take turns for those that become free.',
  'share at its bound':
    'The connections that are left of delivery.maxConnections are kept for other accounts or for transactional mail. This mail is sent when one of the others becomes free.',
} as const;

/** Returns that other nodes have the lane's other connections, where mail waits for one. */
function shareWait(state: LaneState, { share, given, view }: Surroundings, name: string): LaneWait | null {
  const allowed = allowedOf(state, given);
  if (share.connections >= allowed || view.waiting === 0 || view.slots < share.connections) return null;
  const message =
    share.others === 0
      ? `Other nodes may send to ${name} as well: the one that has this mail keeps to one connection until it knows how many they have.`
      : `The nodes share the connections to ${name}: the one that has this mail has ${sharedWords(share, allowed)}.`;
  return { reason: 'connections_in_use', message, since: null, until: null, by: 'us', stops: false };
}

const allowedOf = ({ throttle }: LaneState, given: LaneLimits | null): number =>
  Math.min(throttle.limit, given?.connections ?? Infinity);

const sharedWords = ({ connections, others }: LaneShare, allowed: number): string =>
  `${String(connections)} of ${String(allowed)}, and other nodes have ${String(others)}`;

function paceWait(
  state: LaneState,
  { given, perMinute: here }: Surroundings,
  name: string,
  now: number,
): LaneWait | null {
  const { pace } = state;
  const perMinute = given?.perMinute ?? null;
  const at = readyAt(pace, here, now);
  if (pace.perMinute === null && perMinute === null) return null;
  const until = at > now ? at : null;
  if (perMinute !== null && here !== null && here <= (pace.perMinute ?? Infinity))
    return {
      reason: 'rate_limited',
      message: `Mail to ${name} is limited to ${mails(perMinute)} a minute${herePart(perMinute, here)}${noteOf(given)}.`,
      since: null,
      until,
      by: 'operator',
      stops: false,
    };
  const message = `${name} takes about ${mails(pace.perMinute ?? 0)} a minute: "${pace.cause}".`;
  return { reason: 'rate_limited', message, since: pace.changedAt, until, by: 'receiver', stops: false };
}

/** Says how much of an operator's limit this node has. */
const herePart = (perMinute: number, here: number): string =>
  here === perMinute
    ? ' on this server'
    : `, which the nodes share: this one sends ${String(Math.round(here))} of them`;

function limitsOf(state: LaneState, { given, pool, clock, share }: Surroundings): LaneLimit[] {
  const { throttle, pace, site, source } = state;
  // We grow the limit ourselves; it is the receiver's only after a number of connections was too many.
  const by = throttle.ceiling === null ? 'start' : 'receiver';
  const limits: LaneLimit[] = [
    { what: 'connections', to: throttle.limit, by, cause: throttle.cause, since: throttle.causeAt },
  ];
  const hosts = site?.operator == null ? (site?.hosts ?? []) : [];
  const caps = hosts.map((host) => pool.capOf(hostKey(host, source)));
  const [first] = caps;
  if (first != null && caps.every((cap) => cap !== null)) {
    const to = caps.reduce((sum, cap) => sum + cap.cap, 0);
    limits.push({ what: 'connections', to, by: 'receiver', cause: first.cause, since: clock.now() - first.ageMs });
  }
  if (given?.connections != null)
    limits.push({
      what: 'connections',
      to: given.connections,
      by: 'operator',
      cause: operatorCause(given),
      since: given.since,
    });
  const allowed = allowedOf(state, given);
  if (share.others > 0 && share.connections < allowed)
    limits.push({
      what: 'connections',
      to: share.connections,
      by: 'nodes',
      cause: sharedWords(share, allowed),
      since: null,
    });
  if (pace.perMinute !== null)
    limits.push({
      what: 'mails_per_minute',
      to: pace.perMinute,
      by: 'receiver',
      cause: pace.cause,
      since: pace.changedAt,
    });
  if (given?.perMinute != null)
    limits.push({
      what: 'mails_per_minute',
      to: given.perMinute,
      by: 'operator',
      cause: operatorCause(given),
      since: given.since,
    });
  return limits;
}

const noteOf = (given: LaneLimits | null): string => (given?.note == null ? '' : ` (${given.note})`);

const mails = (count: number): string => (count === 1 ? '1 mail' : `${String(count)} mails`);
