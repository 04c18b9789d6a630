/**
 * Tries one mail once, in two steps. `reach` finds a connection: host after host until one lets us in; a host that refuses us
 * before MAIL is only passed over, since it has not seen the mail. `deliver` hands the mail over that connection, and goes on to
 * the next host where nothing was taken. What the world says is an outcome, not an exception.
 */
import { isIP } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { stsNames } from '../../mail/sts-policy.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { isDown } from '../connection/dial-gate.ts';
import { connectionKey, dial, type DialTarget, type TlsMemory } from '../connection/dial.ts';
import type { OpenResult } from '../connection/open-session.ts';
import { noTimings, type PhaseTimeouts } from '../connection/phases.ts';
import type { Lease, LeaseRequest, LeaseWait, Pool } from '../connection/pool.ts';
import type { Transfer } from '../connection/session.ts';
import { tlsNeed, type TlsNeed, type TlsWish } from '../connection/tls-policy.ts';
import type { TlsClient } from '../connection/tls.ts';
import { laneName } from '../sources/sources.ts';
import type { Transcripts } from './transcripts.ts';
import { outcomeOfDial, outcomeOfTransfer, type AttemptFrame, type Place } from './outcome.ts';
import type { Ready } from '../prepare/prepare.ts';
import type { Host, Site } from '../sites/sites.ts';
import type { TlsSeen } from '../tls/tls-seen.ts';

export interface DeliverDeps {
  clock: Clock;
  pool: Pool;
  tls: TlsClient;
  memory: TlsMemory;
  timeouts: PhaseTimeouts;
  /** Our name in EHLO. */
  hostname: string;
  /** The source that mail leaves from; null for the address that the system chooses. */
  source?: string | null;
  /** The addresses of this machine that connections come from, and the families that may be dialled; all where left out. */
  local?: () => { addresses: readonly string[]; families: readonly number[] };
  /** Who looks at dialogues. */
  transcripts?: Pick<Transcripts, 'of'>;
  /** Hears how TLS went with each connection that was opened, and of hosts that a policy forbids. */
  tlsSeen?: (seen: TlsSeen) => void;
}

/** What has to be known of a mail to find it a connection. */
export type Wanted = Pick<Ready, 'messageId'> & { tlsWish?: TlsWish | null };

type OutcomeOf = (frame: AttemptFrame) => Outcome;

export type Reached =
  | { kind: 'reached'; way: Way }
  /** No connection can be had now; nothing was written and no attempt is spent. `refusal`: a host refused one more than are open. */
  | { kind: 'wait'; waits: readonly LeaseWait[]; refusal: string | null }
  /** This machine has nothing left to dial with. */
  | { kind: 'exhausted'; text: string }
  /** Every host was dialled, and none let us in. */
  | { kind: 'unreached'; outcome: OutcomeOf };

/** A connection to one host of a site. */
export interface Way {
  /** The place of the host in the list of those that may be dialled. */
  at: number;
  host: Host;
  need: TlsNeed;
  lease: Lease;
}

export type Tried =
  | { kind: 'tried'; outcome: Outcome }
  /** The connection was gone, and no other can be had: nothing was sent. */
  | { kind: 'untried'; waits: readonly LeaseWait[] };

/** Finds a connection for the mail, from host number `from` on. */
export async function reach(deps: DeliverDeps, site: Site, wanted: Wanted, from = 0): Promise<Reached> {
  /** What the last host that was dialled did. */
  let last: OutcomeOf | null = null;
  let refusal: string | null = null;
  const waits: LeaseWait[] = [];
  /** Mail does not go to a worse host because a better one is busy. */
  let worst = Infinity;
  const hosts = ofOurFamilies(deps, site.hosts);
  if (hosts.length === 0) last = (seen) => outcomeOfDial(seen, placeOf(noHost, '', deps.source), unreachable);
  for (const [at, host] of hosts.entries()) {
    if (at < from || (host.preference ?? 0) > worst) continue;
    const need = needOf(site, host, wanted.tlsWish);
    if (need.kind === 'refused') {
      deps.tlsSeen?.({ site, host, need: null, opened: null });
      // Another host was only in trouble: waiting may help.
      if (need.isFinal === true && last !== null) continue;
      last = forbiddenBy(need, placeOf(host, host.addresses[0]?.ip ?? '', deps.source));
      continue;
    }
    const tried = await connectTo(deps, site, host, need.need, wanted, at < hosts.length - 1);
    if (tried.kind === 'leased') return { kind: 'reached', way: { at, host, need: need.need, lease: tried.lease } };
    if (tried.kind === 'exhausted') return tried;
    if (tried.kind === 'wait') {
      waits.push(tried.wait);
      refusal = tried.refusal ?? refusal;
      if (!isDown(tried.wait)) worst = Math.min(worst, host.preference ?? 0);
    } else last = (seen) => outcomeOfDial(seen, placeOf(host, tried.failed.ip, deps.source), tried.failed);
  }
  // A host that is only busy will take it; one that is left alone will be tried by mail that comes later.
  if (last === null || waits.some(({ why }) => why !== 'closed')) return { kind: 'wait', waits, refusal };
  return { kind: 'unreached', outcome: last };
}

/** A connection that waits idle for just such a mail, or null. Takes no time. */
export function idleWay(deps: DeliverDeps, site: Site, wanted: Wanted): Way | null {
  const hosts = ofOurFamilies(deps, site.hosts);
  let worst = Infinity;
  for (const [at, host] of hosts.entries()) {
    if ((host.preference ?? 0) > worst) return null;
    const need = needOf(site, host, wanted.tlsWish);
    if (need.kind === 'refused') return null;
    const taken = deps.pool.take(requestFor(deps, site, targetOf(deps, site, host, need.need, at < hosts.length - 1)));
    if (taken.kind === 'leased') return { at, host, need: need.need, lease: taken.lease };
    if (taken.kind === 'dial') return null;
    if (!isDown(taken.wait)) worst = Math.min(worst, host.preference ?? 0);
  }
  return null;
}

/**
 * Hands the mail over the connection that was found. On a mail's first attempt a refusal for reasons of policy over one address
 * family is tried once over the other: many refuse IPv6 senders by rules of their own.
 */
export async function deliver(
  deps: DeliverDeps,
  site: Site,
  mail: Ready,
  found: Way,
  frame: (endedAt: number) => AttemptFrame,
  isFirstAttempt = false,
): Promise<Tried> {
  const { clock } = deps;
  for (let way = found; ;) {
    const first = await send(deps, site, mail, way);
    if (first.kind === 'wait') return { kind: 'untried', waits: [first.wait] };
    const isAgain = isFirstAttempt && first.kind === 'carried';
    const sent = isAgain ? await overOtherFamily(deps, site, mail, way, first) : first;
    const last = outcomeOf(sent, way, deps.source ?? null);
    if (sent.kind === 'carried' && !goesOn(sent.transfer)) return { kind: 'tried', outcome: last(frame(clock.now())) };
    // Nothing is taken before the final dot: another host may take it at once, or know REQUIRETLS.
    const next = await reach(deps, site, mail, way.at + 1);
    if (next.kind !== 'reached') return { kind: 'tried', outcome: last(frame(clock.now())) };
    way = next.way;
  }
}

interface Carried {
  kind: 'carried';
  ip: string;
  transfer: Transfer;
}

type Sent =
  | Carried
  | { kind: 'unreachable'; failed: Extract<OpenResult, { kind: 'failed' }> }
  | { kind: 'wait'; wait: LeaseWait };

const goesOn = (transfer: Transfer): boolean =>
  (transfer.kind === 'broken' && !transfer.uncertain) ||
  (transfer.kind === 'unsupported' && transfer.what === 'requiretls');

const outcomeOf = (sent: Exclude<Sent, { kind: 'wait' }>, { host }: Way, source: string | null): OutcomeOf =>
  sent.kind === 'carried'
    ? (seen) => outcomeOfTransfer(seen, placeOf(host, sent.ip, source), sent.transfer)
    : (seen) => outcomeOfDial(seen, placeOf(host, sent.failed.ip, source), sent.failed);

async function send(deps: DeliverDeps, site: Site, mail: Ready, way: Way): Promise<Sent> {
  const { host, need, lease } = way;
  const transfer = await carry(deps, site, lease, mail);
  // A kept connection may have died, or been told to close, while nobody looked: that says nothing about host or mail.
  if (!lease.reused || !endedBeforeMail(transfer)) return noted(deps, host, lease.ip, transfer);
  const fresh = await open(deps, site, host, need, mail, true);
  if (fresh.kind === 'wait') return { kind: 'wait', wait: fresh.wait };
  if (fresh.kind === 'failed') return { kind: 'unreachable', failed: fresh };
  return noted(deps, host, fresh.lease.ip, await carry(deps, site, fresh.lease, mail));
}

/** The host has answered for the mail, or its session broke: what the next dial needs to know. */
function noted({ pool, source }: DeliverDeps, host: Host, ip: string, transfer: Transfer): Carried {
  const key = hostKey(host, source);
  if (transfer.kind === 'broken') pool.broke(key, `${transfer.phase}: ${transfer.text}`);
  else pool.carried(key);
  return { kind: 'carried', ip, transfer };
}

/** The addresses of the family that was not refused are tried where there are some. */
async function overOtherFamily(
  deps: DeliverDeps,
  site: Site,
  mail: Ready,
  { host, need }: Way,
  sent: Carried,
): Promise<Carried> {
  const { transfer } = sent;
  const reply = transfer.kind === 'refused' ? transfer.reply : null;
  if (reply?.enhanced?.startsWith('5.7.') !== true) return sent;
  const addresses = host.addresses.filter(({ family }) => family !== isIP(sent.ip));
  if (addresses.length === 0) return sent;
  const other = await open(deps, site, { ...host, addresses }, need, mail, false);
  if (other.kind !== 'leased') return sent;
  return noted(deps, host, other.lease.ip, await carry(deps, site, other.lease, mail));
}

/** Hosts with those of their addresses that we may dial: a source may have an address of one family only. */
function ofOurFamilies(deps: DeliverDeps, hosts: readonly Host[]): readonly Host[] {
  const families = deps.local?.().families;
  if (families === undefined || families.length > 1) return hosts;
  return hosts.flatMap((host) => {
    const addresses = host.addresses.filter(({ family }) => families.includes(family));
    if (addresses.length === host.addresses.length) return [host];
    return addresses.length === 0 ? [] : [{ ...host, addresses }];
  });
}

type Connected =
  | { kind: 'leased'; lease: Lease }
  | { kind: 'wait'; wait: LeaseWait; refusal: string | null }
  | { kind: 'exhausted'; text: string }
  | { kind: 'unreachable'; failed: Extract<OpenResult, { kind: 'failed' }> };

/** A connection to this host: one that is idle, or a new one over either family. */
async function connectTo(
  deps: DeliverDeps,
  site: Site,
  host: Host,
  need: TlsNeed,
  wanted: Wanted,
  otherHostsRemain: boolean,
): Promise<Connected> {
  const taken = deps.pool.take(requestFor(deps, site, targetOf(deps, site, host, need, otherHostsRemain)));
  if (taken.kind === 'leased') return taken;
  if (taken.kind === 'wait') return { ...taken, refusal: null };
  const opened = await open(deps, site, host, need, wanted, otherHostsRemain);
  if (opened.kind === 'leased') return opened;
  if (opened.kind === 'wait') return { ...opened, refusal: null };
  if (opened.ours === true) return { kind: 'exhausted', text: opened.text };
  // While others are open a refusal is about their number, not about the mail.
  const key = hostKey(host, deps.source);
  const wait = deps.pool.count(key) > 0 ? deps.pool.waitOf(key) : null;
  if (wait !== null) return { kind: 'wait', wait, refusal: opened.reply?.text ?? opened.text };
  return { kind: 'unreachable', failed: opened };
}

async function open(
  deps: DeliverDeps,
  site: Site,
  host: Host,
  need: TlsNeed,
  { messageId }: Wanted,
  otherHostsRemain: boolean,
): ReturnType<Pool['dial']> {
  const { clock, tls, memory } = deps;
  const target = targetOf(deps, site, host, need, otherHostsRemain);
  return deps.pool.dial(requestFor(deps, site, target), async (signal) => {
    const trace = deps.transcripts?.of(target.host);
    trace?.begin?.(laneName(site.name, deps.source ?? null), messageId);
    const dialTo = (ips: readonly string[]): Promise<OpenResult> =>
      dial({ clock, tls, memory, trace }, { ...target, ips, signal });
    const first = await dialTo(target.ips);
    const others = refusedFamily(first) ? target.ips.filter((ip) => isIP(ip) !== isIP(first.ip)) : [];
    const again = others.length > 0 ? await dialTo(others) : first;
    const opened = again.kind === 'open' ? again : first;
    deps.tlsSeen?.({ site, host, need: target.need, opened });
    return opened;
  });
}

/** Many refuse senders over IPv6, or without a PTR over IPv4, by rules of their own: the other family may be let in. */
const refusedFamily = (opened: OpenResult): boolean =>
  opened.kind === 'failed' && opened.reply?.enhanced?.startsWith('5.7.') === true;

async function carry(deps: DeliverDeps, site: Site, lease: Lease, mail: Ready): Promise<Transfer> {
  lease.session.trace?.begin?.(laneName(site.name, deps.source ?? null), mail.messageId);
  try {
    const { envelopeFrom, recipient, data, size, smtpUtf8, eightBit } = mail;
    const requireTls = mail.tlsWish === 'require';
    return await lease.session.send({
      envelopeFrom,
      recipients: [recipient],
      data,
      size,
      smtpUtf8,
      eightBit,
      requireTls,
    });
  } finally {
    lease.giveBack();
  }
}

const CLOSING = 421;

const endedBeforeMail = (transfer: Transfer): boolean =>
  (transfer.kind === 'broken' && transfer.phase === 'mail') ||
  (transfer.kind === 'refused' && transfer.phase === 'mail' && transfer.reply.code === CLOSING);

function requestFor({ source = null }: DeliverDeps, { operator, name }: Site, target: DialTarget): LeaseRequest {
  return {
    key: connectionKey(target),
    host: hostKey({ name: target.host, port: target.port }, source),
    lane: laneName(name, source),
    ...(operator?.maxConnections === undefined ? {} : { maxPerHost: operator.maxConnections }),
    ...(operator?.messagesPerConnection === undefined ? {} : { maxMessages: operator.messagesPerConnection }),
  };
}

function targetOf(deps: DeliverDeps, site: Site, host: Host, need: TlsNeed, otherHostsRemain: boolean): DialTarget {
  const auth = site.relay?.auth ?? null;
  const { addresses } = deps.local?.() ?? { addresses: [] };
  return {
    host: host.name,
    port: host.port,
    ips: host.addresses.map(({ ip }) => ip),
    ehlo: deps.hostname,
    need,
    timeouts: deps.timeouts,
    otherHostsRemain,
    // A route that says `tls: none` has said that its password goes in the clear.
    ...(auth === null ? {} : { auth: { ...auth, inPlaintext: site.relay?.tls === 'none' } }),
    ...(addresses.length === 0 ? {} : { localAddresses: addresses }),
  };
}

/** What a connection to this host needs, or why it must not have the mail (RFC 8461 section 5). */
export function needOf(
  { relay, sts = null, stsFault = null, tls = null }: Site,
  host: Host,
  wish: TlsWish | null = null,
): ReturnType<typeof tlsNeed> {
  const stsMatches = sts !== null && stsNames(sts, host.name);
  return tlsNeed({
    override: relay === null ? tls : relay.tls,
    dane: host.dane ?? null,
    sts: sts === null || sts.mode === 'none' ? 'none' : sts.mode,
    stsMatches,
    stsFault,
    wish,
    isVouched: relay !== null || stsMatches || host.isValidated === true,
  });
}

/** None of the hosts has an address that the source can reach. */
const noHost = { name: '', port: 0 };
const unreachable: Extract<OpenResult, { kind: 'failed' }> = {
  kind: 'failed',
  ip: '',
  phase: 'connect',
  reply: null,
  text: 'no mail host has an address of a family that the source sends over',
  tlsBroken: false,
  tlsUnsatisfied: false,
  tls: null,
  timings: noTimings(),
};
/** A message that asks for REQUIRETLS and must not go this way. */
const notRequired: Extract<Transfer, { kind: 'unsupported' }> = {
  kind: 'unsupported',
  what: 'requiretls',
  limit: null,
  timings: noTimings(),
  tls: null,
  earlier: 0,
};

/** A host that was not dialled, since a policy forbids it: mail that no later try could bring there bounces, other mail waits. */
const forbiddenBy =
  ({ text, isFinal = false }: { text: string; isFinal?: boolean }, place: Place): OutcomeOf =>
  (seen) =>
    isFinal ? outcomeOfTransfer(seen, place, { ...notRequired, text }) : outcomeOfDial(seen, place, forbidden(text));

const forbidden = (text: string): Extract<OpenResult, { kind: 'failed' }> => ({
  kind: 'failed',
  ip: '',
  phase: 'tls',
  reply: null,
  text,
  tlsBroken: false,
  tlsUnsatisfied: true,
  tls: null,
  timings: noTimings(),
});

/** How the pool names a host: receivers count what comes from each of our addresses by itself. */
export const hostKey = ({ name, port }: Pick<Host, 'name' | 'port'>, source: string | null = null): string =>
  source === null ? `${name}:${String(port)}` : `${name}:${String(port)}/${source}`;

const placeOf = ({ name }: Pick<Host, 'name'>, ip: string, source: string | null = null): Place => ({
  mx: name,
  ip,
  source,
});
