/**
 * Hands one mail over a connection that was found (reach.ts), and goes on to the next host if nothing was taken. What a host
 * answers is an outcome, not an exception.
 */
import { isIP } from 'node:net';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { OpenResult } from '../connection/open-session.ts';
import type { Lease, LeaseResult, LeaseWait } from '../connection/pool.ts';
import type { Transfer } from '../connection/session.ts';
import { isAboutMail } from '../connection/transfer.ts';
import { hostKey, laneName } from '../names.ts';
import type { Failure, Prepared, Ready } from '../prepare/prepare.ts';
import type { Host, Site } from '../sites/sites.ts';
import { placeOfHost, type OutcomeAt } from './host-policy.ts';
import { outcomeOfDial, outcomeOfTransfer, type AttemptFrame, type EndedTransfer } from './outcome.ts';
import {
  connectToHost,
  connectToSite,
  openConnection,
  withDeadline,
  type HostConnection,
  type PassedHosts,
  type Reached,
  type SourceContext,
} from './reach.ts';
import { isAboutConnections, isUsedUp, refusesConnections } from './subject.ts';

export type Tried =
  | { kind: 'tried'; outcome: Outcome }
  /** Nothing was taken: the connection was gone, and no other can be had, or this server may have been replaced. */
  | { kind: 'untried'; waits: readonly LeaseWait[] }
  /** The mail could not be made fit for the host just now. */
  | { kind: 'unmade'; failure: Failure };

/** One attempt of a mail at its site. */
export interface SiteAttempt {
  site: Site;
  mail: Ready;
  /** Makes the frame of the attempt if it ends at the given time. */
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
  for (let connection = found; ;) {
    const first = await sendOver(context, site, mail, connection);
    const sent = first.kind === 'carried' ? await sendOverOtherFamily(context, site, mail, connection, first) : first;
    if (sent.kind === 'wait') return { kind: 'untried', waits: sent.waits };
    if (sent.kind === 'unmade') return sent;
    const last = outcomeOfSent(sent, connection, context.source ?? null);
    if (sent.kind === 'carried' && !mayTryNextHost(sent.transfer)) {
      const outcome = last(frameAt(clock.now()));
      // A refusal by one address family does not decide while the other cannot be asked.
      return { kind: 'tried', outcome: sent.isOtherWaiting === true ? forNow(outcome) : outcome };
    }
    // Nothing is taken before the final dot: another host may take it at once, or have the extension that this one lacks.
    const next = await connectToSite(context, site, mail, connection.at + 1);
    const isUnsupported = sent.kind === 'carried' && sent.transfer.kind === 'unsupported';
    if (next.kind !== 'reached') {
      const others = isUnsupported ? [passedBy(next), connection.passed] : [];
      return { kind: 'tried', outcome: ofAllHosts(last(frameAt(clock.now())), others) };
    }
    const { outcome, isWaiting } = next.connection.passed;
    const before = connection.passed;
    connection = {
      ...next.connection,
      passed: {
        outcome: outcome ?? (isUnsupported ? before.outcome : last),
        isWaiting: isWaiting || before.isWaiting,
      },
    };
  }

  /** A host that lacks an extension decides for good only if no other may have it: one that did not let us in may, later. */
  function ofAllHosts(last: Outcome, others: readonly PassedHosts[]): Outcome {
    const frame = frameAt(clock.now());
    const passing = others.flatMap(({ outcome }) => outcome?.(frame) ?? []).find(({ kind }) => kind !== 'refused');
    if (passing !== undefined) return passing;
    return others.some(({ isWaiting }) => isWaiting) ? forNow(last) : last;
  }

  /** Defers a mail that was refused, since a later try may reach who takes it. */
  function forNow(last: Outcome): Outcome {
    if (last.kind !== 'refused') return last;
    const { facts, verdict } = last;
    return { kind: 'deferred', facts, verdict: { ...verdict, class: 'soft' }, retryAt: frameAt(clock.now()).retryAt };
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

/**
 * Tells the pool that the host has answered for the mail, or that its session broke: the next dial depends on it. A refusal for the
 * number of connections says nothing about the mail, and was noted when the connection was given back.
 */
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
    if (isAboutSession(lease, transfer)) void lease.session.close();
    else tooMany = tooManyIn(transfer);
    return transfer;
  } finally {
    lease.giveBack(tooMany);
  }
}

/**
 * Returns the mail in 7 bits for a host without 8BITMIME, or as it is if it cannot be brought into them: the session then refuses it.
 */
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
