/** Hands one mail to host after host of its site until one takes or refuses it. One that refuses us before MAIL is passed over. */
import { isIP } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import {
  forbiddenBy,
  needOf,
  noReachableAddress,
  placeOfHost,
  type OutcomeAt,
  outcomeOfDial,
  outcomeOfTransfer,
  type AttemptFrame,
  type EndedTransfer,
} from './outcome.ts';
import { isAboutConnections, isUsedUp, refusesConnections } from './subject.ts';
import type { Transcripts } from './transcripts.ts';
import type { AddressMemory } from '../connection/connect.ts';
import { connectionKey, dial, type DialTarget, type TlsMemory } from '../connection/dial.ts';
import type { OpenResult } from '../connection/open-session.ts';
import type { PhaseTimeouts } from '../connection/phases.ts';
import type { Lease, LeaseRequest, LeaseResult, LeaseWait, Pool } from '../connection/pool.ts';
import { isDown, SILENT_MS } from '../connection/pooled-host.ts';
import { type Transfer, isAboutMail } from '../connection/session.ts';
import type { TlsNeed, TlsRequest } from '../connection/tls-policy.ts';
import type { TlsClient } from '../connection/tls.ts';
import { hostKey, laneName } from '../names.ts';
import type { Failure, Prepared, Ready } from '../prepare/prepare.ts';
import type { Host, Site } from '../sites/sites.ts';

export interface SourceContext {
  clock: Clock;
  /** Returns a number in [0, 1), for the order of addresses. */
  random?: () => number;
  pool: Pool;
  tls: TlsClient;
  /** See `OpenDeps.maySend`. */
  maySend?: (() => boolean) | undefined;
  memory: TlsMemory;
  addresses?: AddressMemory;
  timeouts: PhaseTimeouts;
  /** When the attempt ends, on the monotonic clock, whatever host it is at. */
  deadline: number;
  /** Our name in EHLO. */
  hostname: string;
  /** The source that mail leaves from; null for the address that the system chooses. */
  source?: string | null;
  /** The addresses of this machine that connections come from, and the families that may be dialled; all if left out. */
  local?: () => { addresses: readonly string[]; families: readonly number[] };
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

export interface HostConnection {
  /** The index of the host in the list of those that may be dialled. */
  at: number;
  host: Host;
  need: TlsNeed;
  lease: Lease;
}

export interface HostToDial {
  site: Site;
  host: Host;
  need: TlsNeed;
  /** True if other hosts, or other addresses of this one, can be tried: the banner then gets less time. */
  otherHostsRemain: boolean;
  mustBeNew?: true;
}

/** Returns the context of an attempt that begins now: one limit of time holds for all hosts together. */
export const withDeadline = (context: SourceContext): SourceContext => ({
  ...context,
  deadline: context.clock.monotonic() + context.timeouts.attempt,
});

/** Finds a connection for the mail, from the host with the index `from` on. */
export async function connectToSite(context: SourceContext, site: Site, wanted: Wanted, from = 0): Promise<Reached> {
  let last: OutcomeAt | null = null;
  let refusal: string | null = null;
  const waits: LeaseWait[] = [];
  /** Mail does not go to a host of a worse preference because a better one is busy. */
  let worst = Infinity;
  const hosts = hostsInOurFamilies(context, site.hosts);
  if (hosts.length === 0) last = noReachableAddress(context.source);
  for (const [at, host] of hosts.entries()) {
    if (at < from || (host.preference ?? 0) > worst) continue;
    if (context.clock.monotonic() >= context.deadline) break;
    const need = needOf(site, host, wanted.tlsRequest);
    if (need.kind === 'refused') {
      // Another host had a passing fault: waiting may help.
      if (need.isFinal === true && last !== null) continue;
      last = forbiddenBy(need, placeOfHost(host, host.addresses[0]?.ip ?? '', context.source));
      continue;
    }
    const to: HostToDial = { site, host, need: need.need, otherHostsRemain: at < hosts.length - 1 };
    const tried = await withoutSilence(context, connectToHost(context, to, wanted), to.otherHostsRemain);
    if (tried.kind === 'leased')
      return { kind: 'reached', connection: { at, host, need: need.need, lease: tried.lease } };
    if (tried.kind === 'exhausted') return tried;
    if (tried.kind === 'wait') {
      waits.push(tried.wait);
      refusal = tried.refusal ?? refusal;
      if (!isDown(tried.wait)) worst = Math.min(worst, host.preference ?? 0);
    } else last = (frame) => outcomeOfDial(frame, placeOfHost(host, tried.failed.ip, context.source), tried.failed);
  }
  // A host that is only busy will take it; one that is left alone will be tried by mail that comes later.
  if (last === null || waits.some(({ why }) => why !== 'closed')) return { kind: 'wait', waits, refusal };
  return { kind: 'unreached', outcome: last };
}

/** Takes an idle connection that fits the mail. Returns null if there is none; takes no time. */
export function takeIdleConnection(context: SourceContext, site: Site, wanted: Wanted): HostConnection | null {
  const hosts = hostsInOurFamilies(context, site.hosts);
  let worst = Infinity;
  for (const [at, host] of hosts.entries()) {
    if ((host.preference ?? 0) > worst) return null;
    const need = needOf(site, host, wanted.tlsRequest);
    if (need.kind === 'refused') return null;
    const to: HostToDial = { site, host, need: need.need, otherHostsRemain: at < hosts.length - 1 };
    const taken = context.pool.take(requestFor(context, site, targetOf(context, to)));
    if (taken.kind === 'leased') return { at, host, need: need.need, lease: taken.lease };
    if (taken.kind === 'dial') return null;
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

/** Waits less for a silent host if there are others. A connection that comes later is kept for later mail; until then its gate is a silent host's. */
function withoutSilence({ clock }: SourceContext, dial: Promise<Connected>, hasOthers: boolean): Promise<Connected> {
  if (!hasOthers) return dial;
  const since = clock.monotonic();
  return new Promise((resolve, reject) => {
    let isOver = false;
    const timer = clock.after(SILENT_MS, () => {
      isOver = true;
      resolve({
        kind: 'wait',
        wait: { why: 'probing', until: null, how: 'silent', cause: '', since },
        refusal: null,
      });
    });
    dial
      .then((found) => {
        if (isOver && found.kind === 'leased') found.lease.giveBack();
        resolve(found);
      }, reject)
      .finally(() => timer.cancel());
  });
}

/** Takes an idle connection to this host, or opens one over either family. */
async function connectToHost(context: SourceContext, to: HostToDial, wanted: Wanted): Promise<Connected> {
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

async function openConnection(context: SourceContext, to: HostToDial, { messageId }: Wanted): ReturnType<Pool['dial']> {
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
    deadline: context.deadline,
    otherHostsRemain,
    // A route with `tls: none` has agreed that its password goes in the clear.
    ...(auth === null ? {} : { auth: { ...auth, inPlaintext: site.relay?.tls === 'none' } }),
    ...(addresses.length === 0 ? {} : { localAddresses: addresses }),
  };
}

export type Tried =
  | { kind: 'tried'; outcome: Outcome }
  /** Nothing was taken: the connection was gone, and no other can be had, or this server may have been replaced. */
  | { kind: 'untried'; waits: readonly LeaseWait[] }
  /** The mail could not be made fit for the host just now. */
  | { kind: 'unmade'; failure: Failure };

export interface SiteAttempt {
  site: Site;
  mail: Ready;
  frameAt: (endedAt: number) => AttemptFrame;
}

/**
 * Hands the mail over the connection. Its limit of time, which holds for all hosts together, ends before the lease of the claim, so
 * that no other worker begins the same mail meanwhile. A refusal for reasons of policy over one address family is tried once over the other:
 * many refuse IPv6 senders by rules of their own. That holds for each attempt, since the other one may have deferred the mail at the last.
 */
export async function deliver(
  unlimited: SourceContext,
  { site, mail, frameAt }: SiteAttempt,
  found: HostConnection,
): Promise<Tried> {
  const context = withDeadline(unlimited);
  const { clock } = context;
  /** Hosts that cannot take such a mail. */
  let unfit = 0;
  for (let connection = found; ;) {
    const first = await sendOver(context, site, mail, connection);
    const sent = first.kind === 'carried' ? await sendOverOtherFamily(context, site, mail, connection, first) : first;
    if (sent.kind === 'wait') return { kind: 'untried', waits: sent.waits };
    if (sent.kind === 'unmade') return sent;
    const outcome = outcomeOfSent(sent, connection, context.source ?? null)(frameAt(clock.now()));
    if (sent.kind === 'carried' && !mayTryNextHost(sent.transfer))
      // A refusal by one address family does not decide while the other cannot be asked.
      return { kind: 'tried', outcome: sent.isOtherWaiting === true ? forNow(outcome) : outcome };
    if (sent.kind === 'carried' && sent.transfer.kind === 'unsupported') unfit++;
    // Nothing is taken before the final dot: another host may take it at once, or have the extension that this one lacks.
    const next = await connectToSite(context, site, mail, connection.at + 1);
    if (next.kind !== 'reached') {
      const isOfAll = unfit === hostsInOurFamilies(context, site.hosts).length;
      return { kind: 'tried', outcome: isOfAll ? outcome : forNow(outcome) };
    }
    connection = next.connection;
  }

  /** Defers a mail that was refused, since a later try may reach who takes it. */
  function forNow(last: Outcome): Outcome {
    if (last.kind !== 'refused') return last;
    const { facts, verdict } = last;
    return { kind: 'deferred', facts, verdict: { ...verdict, class: 'soft' }, retryAt: frameAt(clock.now()).retryAt };
  }
}

interface Carried {
  kind: 'carried';
  ip: string;
  transfer: EndedTransfer;
  /** The addresses of the other family may take the mail, and cannot be asked now. */
  isOtherWaiting?: true;
}

type Unmade = Extract<Tried, { kind: 'unmade' }>;

type Sent =
  | Carried
  | Unmade
  | { kind: 'unreachable'; failed: Extract<OpenResult, { kind: 'failed' }> }
  | { kind: 'wait'; waits: readonly LeaseWait[] };

const mayTryNextHost = (transfer: EndedTransfer): boolean =>
  (transfer.kind === 'broken' && !transfer.uncertain) || transfer.kind === 'unsupported';

const outcomeOfSent = (
  sent: Exclude<Sent, { kind: 'wait' | 'unmade' }>,
  { host }: HostConnection,
  source: string | null,
): OutcomeAt =>
  sent.kind === 'carried'
    ? (frame) => outcomeOfTransfer(frame, placeOfHost(host, sent.ip, source), sent.transfer)
    : (frame) => outcomeOfDial(frame, placeOfHost(host, sent.failed.ip, source), sent.failed);

async function sendOver(context: SourceContext, site: Site, mail: Ready, connection: HostConnection): Promise<Sent> {
  const { host, need } = connection;
  for (let { lease } = connection; ;) {
    const transfer = await sendAndGiveBack(context, site, lease, mail);
    if (!isAboutSession(lease, transfer)) return noteCarried(context, host, lease.ip, transfer);
    // The host counts it until it is gone.
    await lease.session.close();
    const next = await connectToHost(context, { site, host, need, otherHostsRemain: true, mustBeNew: true }, mail);
    switch (next.kind) {
      case 'leased':
        lease = next.lease;
        break;
      case 'wait':
        return { kind: 'wait', waits: [next.wait] };
      case 'exhausted':
        return { kind: 'wait', waits: [] };
      case 'unreachable':
        // The host may still count a connection of ours that has just ended.
        return isAboutConnections(next.failed.reply?.text ?? '')
          ? { kind: 'wait', waits: [] }
          : { kind: 'unreachable', failed: next.failed };
    }
  }
}

/** Tells the pool that the host answered or its session broke: the next dial depends on it. A refusal of one connection too many was noted before. */
function noteCarried(
  { pool, source }: SourceContext,
  host: Host,
  ip: string,
  transfer: Transfer | Unmade,
): Exclude<Sent, { kind: 'unreachable' }> {
  if (transfer.kind === 'unmade') return transfer;
  if (transfer.kind === 'withheld') return { kind: 'wait', waits: [] };
  const key = hostKey(host, source);
  if (transfer.kind === 'broken') pool.broke(key, `${transfer.phase}: ${transfer.text}`);
  else if (tooManyIn(transfer) === undefined) pool.carried(key);
  return { kind: 'carried', ip, transfer };
}

/** Tries the addresses of the family that was not refused, if there are some. */
async function sendOverOtherFamily(
  context: SourceContext,
  site: Site,
  mail: Ready,
  { host, need }: HostConnection,
  sent: Carried,
): Promise<Exclude<Sent, { kind: 'unreachable' }>> {
  const { transfer } = sent;
  const reply = transfer.kind === 'refused' ? transfer.reply : null;
  if (reply?.enhanced?.startsWith('5.7.') !== true) return sent;
  const addresses = host.addresses.filter(({ family }) => family !== isIP(sent.ip));
  if (addresses.length === 0) return sent;
  const other = await openConnection(
    context,
    { site, host: { ...host, addresses }, need, otherHostsRemain: false },
    mail,
  );
  if (other.kind !== 'leased') return isForNow(other) ? { ...sent, isOtherWaiting: true } : sent;
  return noteCarried(context, host, other.lease.ip, await sendAndGiveBack(context, site, other.lease, mail));
}

/** Returns whether there was only no connection to be had just now, rather than no host. */
const isForNow = (opened: Exclude<LeaseResult, { kind: 'leased' }>): boolean =>
  opened.kind === 'wait' || opened.ours === true || (opened.reply !== null && opened.reply.code < 500);

async function sendAndGiveBack(
  context: SourceContext,
  site: Site,
  lease: Lease,
  mail: Ready,
): Promise<Transfer | Unmade> {
  lease.session.trace?.begin?.(laneName(site.name, context.source ?? null), mail.messageId);
  let tooMany: string | undefined;
  try {
    const fit = await fitFor(lease, mail);
    if (fit.kind !== 'ready') return { kind: 'unmade', failure: fit };
    const { envelopeFrom, recipient, data, isOwn = false, size, smtpUtf8, eightBit } = fit;
    const requireTls = mail.tlsRequest === 'require';
    const { deadline } = context;
    const recipients = [recipient];
    const message = { envelopeFrom, recipients, data, isOwn, size, smtpUtf8, eightBit, requireTls, deadline };
    const transfer = await lease.session.send(message);
    if (isAboutSession(lease, transfer)) void lease.session.close();
    else tooMany = tooManyIn(transfer);
    return transfer;
  } finally {
    lease.giveBack(tooMany);
  }
}

/** Returns the mail in 7 bits for a host without 8BITMIME, or as it is if it cannot be brought into them: the session then refuses it. */
async function fitFor({ session }: Lease, mail: Ready): Promise<Prepared> {
  if (session.extensions.eightBitMime || mail.inSevenBits === undefined) return mail;
  const made = await mail.inSevenBits();
  return made.kind === 'unbuildable' ? mail : made;
}

/** Returns the answer that refused the mail for now because there are too many connections, whatever it was an answer to. */
function tooManyIn(transfer: Transfer): string | undefined {
  if (transfer.kind !== 'refused') return undefined;
  const { code, text } = transfer.reply;
  return code < 500 && refusesConnections(text) ? `${String(code)} ${text}` : undefined;
}

/** The server closes the connection, whatever was asked (RFC 5321 section 3.8). */
const CLOSING = 421;

/**
 * Returns whether the end of a transfer over a used connection is about the session: it died or was told to close while it was idle, has
 * carried as many mails as it may, or its server is out of step, as after a mail whose transaction it holds. That says nothing about
 * host or mail, which is tried over a new connection. What that one answers counts.
 */
function isAboutSession({ reused }: Lease, transfer: Transfer | Unmade): boolean {
  if (!reused) return false;
  if (transfer.kind === 'broken') return transfer.phase === 'mail' || (transfer.reply !== null && !transfer.uncertain);
  if (transfer.kind !== 'refused') return false;
  const { phase, reply, earlier } = transfer;
  if (isUsedUp(reply.text)) return true;
  return phase === 'mail' && (reply.code === CLOSING || (earlier > 0 && !isAboutMail(reply)));
}
