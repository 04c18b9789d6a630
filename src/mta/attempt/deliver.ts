/**
 * Hands one mail over a connection that was found (reach.ts), and goes on to the next host where nothing was taken. What a host
 * answers is an outcome, not an exception.
 */
import { isIP } from 'node:net';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { OpenResult } from '../connection/open-session.ts';
import type { Lease, LeaseWait } from '../connection/pool.ts';
import { noTimings } from '../connection/phases.ts';
import type { Transfer } from '../connection/session.ts';
import { hostKey, laneName } from '../names.ts';
import type { Ready } from '../prepare/prepare.ts';
import type { Host, Site } from '../sites/sites.ts';
import { placeOfHost, type OutcomeAt } from './host-policy.ts';
import { outcomeOfDial, outcomeOfTransfer, type AttemptFrame, type EndedTransfer } from './outcome.ts';
import {
  connectToSite,
  openConnection,
  withDeadline,
  type HostConnection,
  type PassedHosts,
  type Reached,
  type SourceContext,
} from './reach.ts';
import { isUsedUp, refusesConnections } from './subject.ts';

export type Tried =
  | { kind: 'tried'; outcome: Outcome }
  /** Nothing was taken: the connection was gone, and no other can be had, or this server may have been replaced. */
  | { kind: 'untried'; waits: readonly LeaseWait[] };

/** One attempt of a mail at its site. */
export interface SiteAttempt {
  site: Site;
  mail: Ready;
  /** Makes the frame of the attempt where it ends at the given time. */
  frameAt: (endedAt: number) => AttemptFrame;
  /** It is the mail's first attempt. */
  isFirst: boolean;
}

/**
 * Hands the mail over the connection. Its limit of time, which holds for all hosts together, ends before the lease of the claim, so
 * that no other worker begins the same mail meanwhile. On a mail's first attempt a refusal for reasons of policy over one address family is tried
 * once over the other: many refuse IPv6 senders by rules of their own.
 */
export async function deliver(
  unlimited: SourceContext,
  { site, mail, frameAt, isFirst }: SiteAttempt,
  found: HostConnection,
): Promise<Tried> {
  const context = withDeadline(unlimited);
  const { clock } = context;
  for (let connection = found; ;) {
    const first = await sendOver(context, site, mail, connection);
    const isAgain = isFirst && first.kind === 'carried';
    const sent = isAgain ? await sendOverOtherFamily(context, site, mail, connection, first) : first;
    if (sent.kind === 'wait') return { kind: 'untried', waits: sent.waits };
    const last = outcomeOfSent(sent, connection, context.source ?? null);
    if (sent.kind === 'carried' && !mayTryNextHost(sent.transfer))
      return { kind: 'tried', outcome: last(frameAt(clock.now())) };
    // Nothing is taken before the final dot: another host may take it at once, or know REQUIRETLS.
    const next = await connectToSite(context, site, mail, connection.at + 1);
    if (next.kind !== 'reached') {
      const isUnsupported = sent.kind === 'carried' && sent.transfer.kind === 'unsupported';
      const others = isUnsupported ? [passedBy(next), connection.passed] : [];
      return { kind: 'tried', outcome: ofAllHosts(last(frameAt(clock.now())), others) };
    }
    const { outcome, isWaiting } = next.connection.passed;
    const before = connection.passed;
    connection = {
      ...next.connection,
      passed: { outcome: outcome ?? before.outcome, isWaiting: isWaiting || before.isWaiting },
    };
  }

  /** A host that lacks an extension decides for good only where no other may have it: one that did not let us in may, later. */
  function ofAllHosts(last: Outcome, others: readonly PassedHosts[]): Outcome {
    const frame = frameAt(clock.now());
    const passing = others.flatMap(({ outcome }) => outcome?.(frame) ?? []).find(({ kind }) => kind !== 'refused');
    if (passing !== undefined) return passing;
    if (last.kind !== 'refused' || !others.some(({ isWaiting }) => isWaiting)) return last;
    const { facts, verdict } = last;
    return { kind: 'deferred', facts, verdict: { ...verdict, class: 'soft' }, retryAt: frame.retryAt };
  }
}

const passedBy = (next: Exclude<Reached, { kind: 'reached' }>): PassedHosts => ({
  outcome: next.kind === 'unreached' ? next.outcome : null,
  isWaiting: next.kind === 'exhausted' || (next.kind === 'wait' && next.waits.length > 0),
});

interface Carried {
  kind: 'carried';
  ip: string;
  transfer: EndedTransfer;
}

type Sent =
  | Carried
  | { kind: 'unreachable'; failed: Extract<OpenResult, { kind: 'failed' }> }
  | { kind: 'wait'; waits: readonly LeaseWait[] };

const mayTryNextHost = (transfer: EndedTransfer): boolean =>
  (transfer.kind === 'broken' && !transfer.uncertain) ||
  (transfer.kind === 'unsupported' && transfer.what === 'requiretls');

const outcomeOfSent = (
  sent: Exclude<Sent, { kind: 'wait' }>,
  { host }: HostConnection,
  source: string | null,
): OutcomeAt =>
  sent.kind === 'carried'
    ? (frame) => outcomeOfTransfer(frame, placeOfHost(host, sent.ip, source), sent.transfer)
    : (frame) => outcomeOfDial(frame, placeOfHost(host, sent.failed.ip, source), sent.failed);

async function sendOver(context: SourceContext, site: Site, mail: Ready, connection: HostConnection): Promise<Sent> {
  const { host, need, lease } = connection;
  const transfer = await sendAndGiveBack(context, site, lease, mail);
  // A reused connection may have died, or been told to close, while it was idle: that says nothing about host or mail.
  if (!lease.reused || !endedBeforeMail(transfer)) return noteCarried(context, host, lease.ip, transfer);
  const fresh = await openConnection(context, { site, host, need, otherHostsRemain: true }, mail);
  if (fresh.kind === 'wait') return { kind: 'wait', waits: [fresh.wait] };
  if (fresh.kind === 'failed') return { kind: 'unreachable', failed: fresh };
  return noteCarried(context, host, fresh.lease.ip, await sendAndGiveBack(context, site, fresh.lease, mail));
}

/**
 * Tells the pool that the host has answered for the mail, or that its session broke: the next dial depends on it. A refusal for the
 * number of connections says nothing about the mail, and was noted when the connection was given back.
 */
function noteCarried(
  { pool, source }: SourceContext,
  host: Host,
  ip: string,
  transfer: Transfer,
): Exclude<Sent, { kind: 'unreachable' }> {
  if (transfer.kind === 'withheld') return { kind: 'wait', waits: [] };
  const key = hostKey(host, source);
  if (transfer.kind === 'broken') pool.broke(key, `${transfer.phase}: ${transfer.text}`);
  else if (tooManyIn(transfer) === undefined) pool.carried(key);
  return { kind: 'carried', ip, transfer };
}

/** Tries the addresses of the family that was not refused, where there are some. */
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
  if (other.kind !== 'leased') return sent;
  return noteCarried(context, host, other.lease.ip, await sendAndGiveBack(context, site, other.lease, mail));
}

async function sendAndGiveBack(context: SourceContext, site: Site, lease: Lease, mail: Ready): Promise<Transfer> {
  lease.session.trace?.begin?.(laneName(site.name, context.source ?? null), mail.messageId);
  let tooMany: string | undefined;
  try {
    const fit = await fitFor(lease, mail);
    if (fit === null) return { kind: 'withheld', timings: noTimings(), tls: null, earlier: 0 };
    const { envelopeFrom, recipient, data, size, smtpUtf8, eightBit } = fit;
    const requireTls = mail.tlsRequest === 'require';
    const transfer = await lease.session.send({
      envelopeFrom,
      recipients: [recipient],
      data,
      size,
      smtpUtf8,
      eightBit,
      requireTls,
      ...(context.deadline === undefined ? {} : { deadline: context.deadline }),
    });
    if (!lease.reused || !endedBeforeMail(transfer)) tooMany = tooManyIn(transfer);
    else void lease.session.close();
    return transfer;
  } finally {
    lease.giveBack(tooMany);
  }
}

/**
 * Returns the mail in 7 bits for a host without 8BITMIME, or as it is where it cannot be brought into them: the session then refuses it.
 * Null where it could not be made just now.
 */
async function fitFor({ session }: Lease, mail: Ready): Promise<Ready | null> {
  if (session.extensions.eightBitMime || mail.inSevenBits === undefined) return mail;
  const made = await mail.inSevenBits();
  if (made.kind === 'ready') return made;
  return made.kind === 'unbuildable' ? mail : null;
}

/** Returns the answer that refused the mail for now because there are too many connections, whatever it was an answer to. */
function tooManyIn(transfer: Transfer): string | undefined {
  if (transfer.kind !== 'refused') return undefined;
  const { code, text } = transfer.reply;
  return code < 500 && refusesConnections(text) ? `${String(code)} ${text}` : undefined;
}

/** The server closes the connection, whatever was asked (RFC 5321 section 3.8). */
const CLOSING = 421;

/** Tells whether the connection takes no more mail, whatever the mail is. */
const endedBeforeMail = (transfer: Transfer): boolean =>
  (transfer.kind === 'broken' && transfer.phase === 'mail') ||
  (transfer.kind === 'refused' &&
    transfer.phase === 'mail' &&
    (transfer.reply.code === CLOSING || isUsedUp(transfer.reply.text)));
