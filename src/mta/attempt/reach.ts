/**
 * Finds a mail a connection to a host of its site: host after host until one lets us in. A host that refuses us before MAIL is only
 * passed over, since it has not seen the mail.
 */
import { isIP } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { AddressMemory } from '../connection/address-memory.ts';
import { isDown, SILENT_MS } from '../connection/dial-gate.ts';
import { connectionKey, dial, type DialTarget, type TlsMemory } from '../connection/dial.ts';
import type { OpenResult } from '../connection/open-session.ts';
import type { PhaseTimeouts } from '../connection/phases.ts';
import type { Lease, LeaseRequest, LeaseWait, Pool } from '../connection/pool.ts';
import type { TlsNeed, TlsRequest } from '../connection/tls-policy.ts';
import type { TlsClient } from '../connection/tls.ts';
import { hostKey, laneName } from '../names.ts';
import type { Ready } from '../prepare/prepare.ts';
import type { Host, Site } from '../sites/sites.ts';
import { forbiddenBy, needOf, noReachableAddress, placeOfHost, type OutcomeAt } from './host-policy.ts';
import { outcomeOfDial } from './outcome.ts';
import type { Transcripts } from './transcripts.ts';

/** The parts of the engine that a delivery by one source uses. */
export interface SourceContext {
  clock: Clock;
  /** Returns a number in [0, 1), for the order of addresses. */
  random?: () => number;
  pool: Pool;
  tls: TlsClient;
  /** See `OpenDeps.maySend`. */
  maySend?: (() => boolean) | undefined;
  memory: TlsMemory;
  /** See `OpenDeps.addresses`. */
  addresses?: AddressMemory;
  timeouts: PhaseTimeouts;
  /** When the attempt ends, on the monotonic clock, whatever host it is at. */
  deadline?: number;
  /** Our name in EHLO. */
  hostname: string;
  /** The source that mail leaves from; null for the address that the system chooses. */
  source?: string | null;
  /** The addresses of this machine that connections come from, and the families that may be dialled; all if left out. */
  local?: () => { addresses: readonly string[]; families: readonly number[] };
  /** Records dialogues for operators who watch them. */
  transcripts?: Pick<Transcripts, 'of'>;
}

/** The part of a mail that decides which connections it may use. */
export type Wanted = Pick<Ready, 'messageId'> & { tlsRequest?: TlsRequest | null };

export type Reached =
  | { kind: 'reached'; connection: HostConnection }
  /** No connection can be had now, and no attempt is spent. `refusal`: what a host said that refused one more than are open. */
  | { kind: 'wait'; waits: readonly LeaseWait[]; refusal: string | null }
  /** This machine has nothing left to dial with. */
  | { kind: 'exhausted'; text: string }
  /** Every host was dialled, and none let us in. */
  | { kind: 'unreached'; outcome: OutcomeAt };

/** A connection to one host of a site. */
export interface HostConnection {
  /** The index of the host in the list of those that may be dialled. */
  at: number;
  host: Host;
  need: TlsNeed;
  lease: Lease;
  passed: PassedHosts;
}

/** A host of a site, and what a connection to it has to satisfy. */
export interface HostToDial {
  site: Site;
  host: Host;
  need: TlsNeed;
  /** True if other hosts, or other addresses of this one, can be tried: the banner then gets less time. */
  otherHostsRemain: boolean;
  /** The mail takes no connection that has carried another. */
  mustBeNew?: true;
}

/** The hosts that an attempt passed over before it had a connection: they may take the mail later. */
export interface PassedHosts {
  /** The outcome of the last one that did not let us in. */
  outcome: OutcomeAt | null;
  /** Others had no connection to give now. */
  isWaiting: boolean;
}

/** Returns the context of an attempt that begins now: one limit of time holds for all hosts together. */
export const withDeadline = (context: SourceContext): SourceContext => ({
  ...context,
  deadline: context.clock.monotonic() + context.timeouts.attempt,
});

/** Finds a connection for the mail, from the host with the index `from` on. */
export async function connectToSite(context: SourceContext, site: Site, wanted: Wanted, from = 0): Promise<Reached> {
  /** The outcome that the last host which was dialled gives. */
  let last: OutcomeAt | null = null;
  let refusal: string | null = null;
  const waits: LeaseWait[] = [];
  /** Hosts that were dialled and have not answered yet. */
  const silent: SilentHost[] = [];
  /** Mail does not go to a host of a worse preference because a better one is busy. */
  let worst = Infinity;
  const hosts = hostsInOurFamilies(context, site.hosts);
  if (hosts.length === 0) last = noReachableAddress(context.source);
  for (const [at, host] of hosts.entries()) {
    if (at < from || (host.preference ?? 0) > worst) continue;
    if (context.clock.monotonic() >= (context.deadline ?? Infinity)) break;
    const need = needOf(site, host, wanted.tlsRequest);
    if (need.kind === 'refused') {
      // Another host had a passing fault: waiting may help.
      if (need.isFinal === true && last !== null) continue;
      last = forbiddenBy(need, placeOfHost(host, host.addresses[0]?.ip ?? '', context.source));
      continue;
    }
    const to: HostToDial = { site, host, need: need.need, otherHostsRemain: at < hosts.length - 1 };
    const tried = await withoutSilence(context, connectToHost(context, to, wanted), to.otherHostsRemain);
    if (tried.kind === 'silent') {
      silent.push({ at, host, need: need.need, dial: tried.dial });
      continue;
    }
    if (tried.kind === 'leased') {
      for (const one of silent) keepForNext(one);
      return {
        kind: 'reached',
        connection: {
          at,
          host,
          need: need.need,
          lease: tried.lease,
          passed: { outcome: last, isWaiting: waits.length > 0 || silent.length > 0 },
        },
      };
    }
    if (tried.kind === 'exhausted') return tried;
    if (tried.kind === 'wait') {
      waits.push(tried.wait);
      refusal = tried.refusal ?? refusal;
      if (!isDown(tried.wait)) worst = Math.min(worst, host.preference ?? 0);
    } else last = (frame) => outcomeOfDial(frame, placeOfHost(host, tried.failed.ip, context.source), tried.failed);
  }
  const late = silent.length === 0 ? null : await firstOpen(silent);
  if (late !== null && late.found.kind === 'leased') {
    const { at, host, need } = late.of;
    const passed = { outcome: last, isWaiting: waits.length > 0 || silent.length > 1 };
    return { kind: 'reached', connection: { at, host, need, lease: late.found.lease, passed } };
  }
  if (late?.found.kind === 'exhausted') return late.found;
  if (late?.found.kind === 'wait') waits.push(late.found.wait);
  if (late?.found.kind === 'unreachable') {
    const { of, found } = late;
    last = (frame) => outcomeOfDial(frame, placeOfHost(of.host, found.failed.ip, context.source), found.failed);
  }
  // A host that is only busy will take it; one that is left alone will be tried by mail that comes later.
  if (last === null || waits.some(({ why }) => why !== 'closed')) return { kind: 'wait', waits, refusal };
  return { kind: 'unreached', outcome: last };
}

/** Takes an idle connection that fits the mail. Returns null if there is none; takes no time. */
export function takeIdleConnection(context: SourceContext, site: Site, wanted: Wanted): HostConnection | null {
  const hosts = hostsInOurFamilies(context, site.hosts);
  let isWaiting = false;
  let worst = Infinity;
  for (const [at, host] of hosts.entries()) {
    if ((host.preference ?? 0) > worst) return null;
    const need = needOf(site, host, wanted.tlsRequest);
    if (need.kind === 'refused') return null;
    const to: HostToDial = { site, host, need: need.need, otherHostsRemain: at < hosts.length - 1 };
    const taken = context.pool.take(requestFor(context, site, targetOf(context, to)));
    if (taken.kind === 'leased')
      return { at, host, need: need.need, lease: taken.lease, passed: { outcome: null, isWaiting } };
    if (taken.kind === 'dial') return null;
    isWaiting = true;
    if (!isDown(taken.wait)) worst = Math.min(worst, host.preference ?? 0);
  }
  return null;
}

/** Returns the hosts with those of their addresses that we may dial: a source may have an address of one family only. */
function hostsInOurFamilies(context: SourceContext, hosts: readonly Host[]): readonly Host[] {
  const families = context.local?.().families;
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

/** A host that was dialled and has not answered yet. */
interface SilentHost {
  at: number;
  host: Host;
  need: TlsNeed;
  dial: Promise<Connected>;
}

/** Returns the first of these dials that gives a connection, or the last one to end if none does. */
function firstOpen(silent: readonly SilentHost[]): Promise<{ of: SilentHost; found: Connected }> {
  return new Promise((resolve, reject) => {
    let left = silent.length;
    let isOver = false;
    for (const one of silent)
      one.dial.then((found) => {
        left--;
        if (isOver) keepForNext(one);
        else if (found.kind === 'leased' || left === 0) {
          isOver = true;
          resolve({ of: one, found });
        }
      }, reject);
  });
}

/** A connection that a silent host gives after all is kept for the next mail. The pool has noted a failure. */
function keepForNext({ dial }: SilentHost): void {
  dial.then(
    (found) => {
      if (found.kind === 'leased') found.lease.giveBack();
    },
    () => undefined,
  );
}

/** Waits for a dial, but for a silent host only so long if others can be tried beside it. */
async function withoutSilence(
  { clock }: SourceContext,
  dial: Promise<Connected>,
  hasOthers: boolean,
): Promise<Connected | { kind: 'silent'; dial: Promise<Connected> }> {
  if (!hasOthers) return dial;
  return new Promise((resolve, reject) => {
    const timer = clock.after(SILENT_MS, () => resolve({ kind: 'silent', dial }));
    dial.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Takes an idle connection to this host, or opens one over either family. */
export async function connectToHost(context: SourceContext, to: HostToDial, wanted: Wanted): Promise<Connected> {
  const { pool } = context;
  const request = requestFor(context, to.site, targetOf(context, to));
  const taken = to.mustBeNew === true ? { kind: 'dial' as const } : pool.take(request);
  if (taken.kind === 'leased') return taken;
  if (taken.kind === 'wait') return { ...taken, refusal: null };
  const opened = await openConnection(context, to, wanted);
  if (opened.kind === 'leased') return opened;
  if (opened.kind === 'wait') return { ...opened, refusal: null };
  if (opened.ours === true) return { kind: 'exhausted', text: opened.text };
  // While others are open a refusal is about their number, not about the mail; TLS that is missing is about its policy.
  const key = hostKey(to.host, context.source);
  // One that has become idle meanwhile takes the mail.
  const others = pool.count(key) > 0 && !opened.tlsUnsatisfied ? pool.take(request) : null;
  if (others?.kind === 'leased') return others;
  if (others?.kind === 'wait') return { ...others, refusal: opened.reply?.text ?? opened.text };
  return { kind: 'unreachable', failed: opened };
}

export async function openConnection(
  context: SourceContext,
  to: HostToDial,
  { messageId }: Wanted,
): ReturnType<Pool['dial']> {
  const { clock, tls, memory, addresses, maySend } = context;
  const { site, host } = to;
  const target = targetOf(context, to);
  return context.pool.dial(requestFor(context, site, target), async (signal) => {
    const trace = context.transcripts?.of(target.host);
    trace?.begin?.(laneName(site.name, context.source ?? null), messageId);
    const dialTo = (ips: readonly string[]): Promise<OpenResult> =>
      dial({ clock, tls, memory, addresses, trace, maySend }, { ...target, ips, signal });
    const ips = ipsByLot(host.addresses, context.random ?? Math.random);
    const first = await dialTo(ips);
    const others = isPolicyRefusal(first) ? ips.filter((ip) => isIP(ip) !== isIP(first.ip)) : [];
    const again = others.length > 0 ? await dialTo(others) : first;
    return again.kind === 'open' ? again : first;
  });
}

/** The addresses of one family are equal: each dial takes them in another order, which spreads the load (RFC 5321 section 5.1). */
const ipsByLot = (addresses: Host['addresses'], random: () => number): string[] =>
  addresses
    .map(({ ip, family }) => ({ ip, family, lot: random() }))
    .sort((a, b) => b.family - a.family || a.lot - b.lot)
    .map(({ ip }) => ip);

/** Many hosts refuse senders over IPv6, or without a PTR over IPv4, by rules of their own: the other family may be let in. */
const isPolicyRefusal = (opened: OpenResult): boolean =>
  opened.kind === 'failed' && opened.reply?.enhanced?.startsWith('5.7.') === true;

function requestFor({ source = null }: SourceContext, { operator, name }: Site, target: DialTarget): LeaseRequest {
  return {
    key: connectionKey(target),
    host: hostKey({ name: target.host, port: target.port }, source),
    lane: laneName(name, source),
    ...(operator?.maxConnections === undefined ? {} : { maxPerHost: operator.maxConnections }),
    ...(operator?.messagesPerConnection === undefined ? {} : { maxMessages: operator.messagesPerConnection }),
  };
}

function targetOf(context: SourceContext, { site, host, need, otherHostsRemain }: HostToDial): DialTarget {
  const auth = site.relay?.auth ?? null;
  const { addresses } = context.local?.() ?? { addresses: [] };
  return {
    host: host.name,
    port: host.port,
    ips: host.addresses.map(({ ip }) => ip),
    ehlo: context.hostname,
    need,
    timeouts: context.timeouts,
    ...(context.deadline === undefined ? {} : { deadline: context.deadline }),
    otherHostsRemain,
    // A route with `tls: none` has agreed that its password goes in the clear.
    ...(auth === null ? {} : { auth: { ...auth, inPlaintext: site.relay?.tls === 'none' } }),
    ...(addresses.length === 0 ? {} : { localAddresses: addresses }),
  };
}
