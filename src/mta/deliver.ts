/**
 * Tries one mail once: host after host until one of them takes it or refuses it. What the world says is an outcome, not an
 * exception. A host that cannot be reached, or that turns us away before MAIL, is only passed over; the mail goes to the next.
 */
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { stsNames } from '../mail/sts-policy.ts';
import type { Outcome } from '../messages/delivery.ts';
import type { Breaker } from './breaker.ts';
import { connectionKey, dial, type DialTarget, type TlsMemory } from './connection/dial.ts';
import type { OpenResult } from './connection/open-session.ts';
import { noTimings, type PhaseTimeouts } from './connection/phases.ts';
import type { Lease, Pool } from './connection/pool.ts';
import type { Transfer } from './connection/session.ts';
import { tlsNeed, type TlsNeed, type TlsWish } from './connection/tls-policy.ts';
import type { TlsClient } from './connection/tls.ts';
import { laneName } from './sources.ts';
import type { Transcripts } from './transcripts.ts';
import { outcomeOfDial, outcomeOfTransfer, type AttemptFrame, type Place } from './outcome.ts';
import type { Ready } from './prepare.ts';
import type { Host, Site } from './sites.ts';
import { asksForLess } from './throttle.ts';
import type { TlsSeen } from './tls-seen.ts';

export interface DeliverDeps {
  clock: Clock;
  pool: Pool;
  tls: TlsClient;
  memory: TlsMemory;
  breaker: Breaker;
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

export type Tried =
  | { kind: 'tried'; outcome: Outcome }
  /** Nobody was dialled: every host is at its cap or left alone for now, or the program stops. No attempt is spent. `refusal`: while
   * connections to it stand, a host refused one more. `exhausted`: this machine has nothing left to dial with. */
  | { kind: 'untried'; refusal: string | null; exhausted?: string };

/**
 * `connected` is called once the mail is on a connection: the time to get the next one ready. On a mail's first attempt a
 * refusal for reasons of policy over one address family is tried once over the other: many refuse IPv6 senders by rules of
 * their own.
 */
export async function deliver(
  deps: DeliverDeps,
  site: Site,
  mail: Ready,
  frame: (endedAt: number) => AttemptFrame,
  connected: () => void,
  isFirstAttempt = false,
): Promise<Tried> {
  const { clock, breaker } = deps;
  /** What the last host that was dialled did. */
  let last: ((frame: AttemptFrame) => Outcome) | null = null;
  let refusal: string | null = null;
  const hosts = ofOurFamilies(deps, site.hosts);
  if (hosts.length === 0) last = (seen) => outcomeOfDial(seen, placeOf(noHost, '', deps.source), unreachable);
  for (const [at, host] of hosts.entries()) {
    if (breaker.readyAt(hostKey(host, deps.source), clock.now()) > clock.now()) continue;
    const otherHostsRemain = at < hosts.length - 1;
    const need = needOf(site, host, mail.tlsWish);
    if (need.kind === 'refused') {
      deps.tlsSeen?.({ site, host, need: null, opened: null });
      // Another host was only in trouble: waiting may help.
      if (need.isFinal === true && last !== null) continue;
      const place = placeOf(host, host.addresses[0]?.ip ?? '', deps.source);
      last = (seen) =>
        need.isFinal === true
          ? outcomeOfTransfer(seen, place, { ...notRequired, text: need.text })
          : outcomeOfDial(seen, place, forbidden(need.text));
      continue;
    }
    let result = await tryHost(deps, site, host, need.need, mail, otherHostsRemain, connected);
    const others = isFirstAttempt ? otherFamily(host, result) : [];
    if (others.length > 0) {
      const again = await tryHost(
        deps,
        site,
        { ...host, addresses: others },
        need.need,
        mail,
        otherHostsRemain,
        connected,
        true,
      );
      if (again.kind === 'carried') result = again;
    }
    if (result.kind === 'exhausted') return { kind: 'untried', refusal, exhausted: result.text };
    if (result.kind === 'crowded') refusal = result.reply;
    if (result.kind === 'busy' || result.kind === 'crowded') continue;
    if (result.kind === 'unreachable') {
      last = (seen) => outcomeOfDial(seen, result.place, result.failed);
      continue;
    }
    last = (seen) => outcomeOfTransfer(seen, result.place, result.transfer);
    // Nothing is taken before the final dot: another host may take it at once, or know REQUIRETLS.
    if (result.transfer.kind === 'unsupported' && result.transfer.what === 'requiretls') continue;
    if (result.transfer.kind !== 'broken' || result.transfer.uncertain) break;
  }
  return last === null ? { kind: 'untried', refusal } : { kind: 'tried', outcome: last(frame(clock.now())) };
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

type HostResult =
  /** This machine has nothing left to dial with. */
  | { kind: 'exhausted'; text: string }
  | { kind: 'busy' }
  /** It refused one connection more than those that stand: that is about their number, not about the mail. */
  | { kind: 'crowded'; reply: string }
  | { kind: 'unreachable'; place: Place; failed: Extract<OpenResult, { kind: 'failed' }> }
  | { kind: 'carried'; place: Place; transfer: Transfer };

/** The addresses to try after a 5.7.x: those of the family that was not refused. */
function otherFamily(host: Host, result: HostResult): Host['addresses'] {
  if (result.kind === 'busy' || result.kind === 'crowded' || result.kind === 'exhausted') return [];
  const refusal = result.kind === 'unreachable' ? result.failed : result.transfer;
  const reply = refusal.kind === 'failed' || refusal.kind === 'refused' ? refusal.reply : null;
  if (reply?.enhanced?.startsWith('5.7.') !== true) return [];
  return host.addresses.filter(({ family }) => family !== isIP(result.place.ip));
}

async function tryHost(
  deps: DeliverDeps,
  site: Site,
  host: Host,
  need: TlsNeed,
  mail: Ready,
  otherHostsRemain: boolean,
  connected: () => void,
  isFresh = false,
): Promise<HostResult> {
  const { breaker, clock } = deps;
  const target = targetOf(deps, site, host, need, otherHostsRemain);
  for (let fresh = isFresh; ; fresh = true) {
    const leased = await leaseFor(deps, site, host, target, fresh, mail.messageId);
    if (leased.kind === 'full' || leased.kind === 'draining') return { kind: 'busy' };
    if (leased.kind === 'failed' && leased.ours === true) return { kind: 'exhausted', text: leased.text };
    if (leased.kind === 'failed') {
      const { reply } = leased;
      if (
        reply !== null &&
        asksForLess(reply.code, reply.enhanced, reply.text, '') &&
        deps.pool.count(hostKey(host, deps.source)) > 0
      )
        return { kind: 'crowded', reply: reply.text };
      breaker.failed(hostKey(host, deps.source), clock.now());
      return { kind: 'unreachable', place: placeOf(host, leased.ip, deps.source), failed: leased };
    }
    const { lease } = leased;
    connected();
    lease.session.trace?.begin?.(laneName(site.name, deps.source ?? null), mail.messageId);
    const transfer = await carry(lease, mail);
    // A kept connection may have died, or been told to close, while nobody looked: that says nothing about host or mail.
    if (lease.reused && !fresh && endedBeforeMail(transfer)) continue;
    breaker.succeeded(hostKey(host, deps.source));
    return { kind: 'carried', place: placeOf(host, lease.ip, deps.source), transfer };
  }
}

async function carry(lease: Lease, mail: Ready): Promise<Transfer> {
  try {
    const { envelopeFrom, recipient, data, size, smtpUtf8, eightBit } = mail;
    const requireTls = mail.tlsWish === 'require';
    return await lease.session.send({ envelopeFrom, recipients: [recipient], data, size, smtpUtf8, eightBit, requireTls }); // prettier-ignore
  } finally {
    lease.giveBack();
  }
}

const CLOSING = 421;

const endedBeforeMail = (transfer: Transfer): boolean =>
  (transfer.kind === 'broken' && transfer.phase === 'mail') ||
  (transfer.kind === 'refused' && transfer.phase === 'mail' && transfer.reply.code === CLOSING);

function leaseFor(
  deps: DeliverDeps,
  site: Site,
  of: Host,
  target: DialTarget,
  fresh: boolean,
  messageId: string,
): ReturnType<Pool['lease']> {
  const { pool, clock, tls, memory, breaker } = deps;
  const { operator, name } = site;
  const host = hostKey({ name: target.host, port: target.port }, deps.source);
  return pool.lease({
    key: connectionKey(target),
    host,
    fresh,
    ...(operator?.maxConnections === undefined ? {} : { maxPerHost: operator.maxConnections }),
    ...(operator?.messagesPerConnection === undefined ? {} : { maxMessages: operator.messagesPerConnection }),
    open: async (signal) => {
      breaker.dialling(host);
      try {
        const trace = deps.transcripts?.of(target.host);
        trace?.begin?.(laneName(name, deps.source ?? null), messageId);
        const opened = await dial({ clock, tls, memory, trace }, { ...target, signal });
        deps.tlsSeen?.({ site, host: of, need: target.need, opened });
        return opened;
      } catch (error) {
        // A bug, but a probe that never ends would keep the host closed for good.
        breaker.failed(host, clock.now());
        throw error;
      }
    },
  });
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
const notRequired: Extract<Transfer, { kind: 'unsupported' }> = { kind: 'unsupported', what: 'requiretls', limit: null, timings: noTimings(), tls: null, earlier: 0 }; // prettier-ignore

/** A host that was not dialled, since a policy forbids it. */
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

/** How breaker and pool name a host: receivers count what comes from each of our addresses by itself. */
export const hostKey = ({ name, port }: Pick<Host, 'name' | 'port'>, source: string | null = null): string =>
  source === null ? `${name}:${String(port)}` : `${name}:${String(port)}/${source}`;

const placeOf = ({ name }: Pick<Host, 'name'>, ip: string, source: string | null = null): Place => ({
  mx: name,
  ip,
  source,
});
