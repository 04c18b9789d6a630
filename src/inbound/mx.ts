/**
 * The MX listener: accepts only answers to mail of ours and mail to domains that receive, and refuses all else at RCPT, so that it
 * relays nothing and has nothing to send back (RFC 5321 section 6.1). 250 means that the mail is stored; receive.ts and received.ts read it
 * afterwards.
 * Anyone may write here, so each mail must fit the budgets of its network (mx-budgets.ts) before it is stored.
 */
import { budgets as limits, type BudgetName } from '../base/budgets.ts';
import { newId } from '../base/id.ts';
import { siteOf } from '../net/ip.ts';
import { parseMailbox } from '../mail/address.ts';
import { deliveryOf, unsubscribedDelivery, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { ReportRow } from '../storage/tables.ts';
import type { InboundContext, ReceivingDomain } from './context.ts';
import type { Handlers, Session } from './listener.ts';
import { listenerLimits, type LimitName } from './listener-limits.ts';
import { MailMemory, type MailHold } from './mail-intake.ts';
import { strangerTo, type MxBudgets, type Stranger } from './mx-budgets.ts';
import { newReceived, type ReceivedMails } from './received.ts';
import { ROW_BYTES, type keptReports } from './bounded-store.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** A mail that came to one of our addresses, before it is read. */
export type NewReport = Pick<
  ReportRow,
  'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'
>;

/** The parts that an accepted mail passes through. */
export interface Intake {
  budgets: MxBudgets;
  kept: Pick<ReturnType<typeof keptReports>, 'of'>;
  receiver: { isFull(stranger: Stranger): BudgetName | null; take(row: NewReport): void };
  received: Pick<ReceivedMails, 'full' | 'take'>;
}

const LARGEST = limits.received_mail.most;

const BUDGET_OF: Readonly<Record<LimitName, BudgetName>> = {
  connections: 'mx_connections',
  connectionsPerNetwork: 'mx_connections_network',
  heldBytes: 'mx_memory',
  heldBytesPerNetwork: 'mx_memory_network',
};

const RECEIVED_BUDGET_OF: Readonly<Record<LimitName, BudgetName>> = {
  ...BUDGET_OF,
  heldBytes: 'received_memory',
  heldBytesPerNetwork: 'received_memory_network',
};

/** Names that take mail at each of our hosts: RFC 2142's, those of feedback loops (RFC 5965), of DMARC and of TLS reports. */
const ROLES: ReadonlySet<string> = new Set(
  'postmaster abuse fbl complaints dmarc dmarc-reports tls tls-reports tlsrpt'.split(' '),
);

/** Returns whether one of our keys signed this local part: it is a return path or an unsubscribe address. */
const isSignedByUs = (keys: readonly ReturnPathKey[], local: string): boolean =>
  deliveryOf(keys, local) !== null || unsubscribedDelivery(keys, local) !== null;

/** Where a recipient's mail goes: to our own addresses, or to a domain that receives; or the reason why nowhere. */
type Target = 'ours' | ReceivingDomain | SmtpRefusal;

export function mxHandlers(context: InboundContext, { budgets, kept, receiver, received }: Intake): Handlers<never> {
  /** Mail to domains that receive is kept whole, and takes no memory from reports. */
  const hold: MailHold = {
    memory: new MailMemory(),
    keepBytes: LARGEST,
    limits: {
      ...listenerLimits,
      heldBytes: limits.received_memory.most,
      heldBytesPerNetwork: limits.received_memory_network.most,
    },
  };

  /** Our own addresses come first: they mean the same in a domain that receives. */
  async function targetOf(address: string): Promise<Target> {
    // RFC 5321 section 4.5.1: every host has a postmaster, also without a domain.
    if (/^postmaster$/i.test(address)) return 'ours';
    // Percent hacks, bang paths and source routes are local parts that do not exist here, so they are refused like others.
    const parsed = parseMailbox(address, { smtputf8: true });
    if (address.lastIndexOf('@') <= 0 || parsed.kind === 'bad') return refuse(553, '5.1.3 this is not an address');
    const { local, domain } = parsed.mailbox;
    // A token of ours is proof at any host: reports still come to the former return path of a domain that was changed or removed.
    if (isSignedByUs(context.keys, local)) return 'ours';
    const isOurs = await context.isOurHost(domain);
    if (isOurs && ROLES.has(local.toLowerCase())) return 'ours';
    const receiving = await context.receiverOf(local, domain);
    if (receiving !== null && receiving !== 'refused') return receiving;
    // RFC 5321 section 4.5.1: every domain that takes mail has a postmaster.
    if (receiving === 'refused' && /^(?:postmaster|abuse)$/i.test(local)) return 'ours';
    if (isOurs || receiving === 'refused') return refuse(550, '5.1.1 there is no such mailbox');
    return refuse(550, '5.7.1 we do not relay');
  }

  /** Returns why no mail of this size may come in for a domain now, or null. */
  async function refusalFor(
    stranger: Stranger,
    { account_id }: ReceivingDomain,
    bytes?: number,
  ): Promise<SmtpRefusal | null> {
    const full = await received.full(account_id, stranger);
    if (full !== null) context.usedUp(full);
    if (full !== null || !context.hasRoomForStrangers()) return noRoom;
    return budgets.refusal(stranger, bytes);
  }

  async function takeFor(
    session: Session<never>,
    receiving: ReceivingDomain,
    mail: Buffer,
    size: number,
  ): Promise<string | SmtpRefusal> {
    const stranger = strangerTo(receiving.name, session.ip);
    const refusal = tooLarge(size, receiving) ?? (await refusalFor(stranger, receiving, size));
    if (refusal !== null) return refusal;
    const row = newReceived(session, receiving, size, context.clock.now());
    budgets.spend(stranger, size);
    try {
      await context.db.commit.insert({ received: [row], received_sources: [{ received_id: row.id, raw: mail }] }, size);
    } catch (error) {
      budgets.takeBack(stranger, size, row.at);
      throw error;
    }
    received.take(row, mail);
    return `2.0.0 taken as ${row.id}`;
  }

  /** Returns why no mail of this size may come in now, or null. */
  function refusalOf(stranger: Stranger, bytes?: number): SmtpRefusal | null {
    const full = receiver.isFull(stranger) ?? kept.of(stranger).overfull;
    if (full !== null) context.usedUp(full);
    if (full !== null || !context.hasRoomForStrangers()) return noRoom;
    return budgets.refusal(stranger, bytes);
  }

  return {
    sender: () => Promise.resolve(null),
    async recipient({ ip, recipients, announced }, address) {
      const target = await targetOf(address);
      if (isRefusal(target)) return target;
      const [first] = recipients;
      const before = first === undefined ? target : await targetOf(first);
      if (nameOf(before) !== nameOf(target))
        return refuse(452, '4.5.3 one mail goes to one domain: send it again for this address');
      if (target !== 'ours') return tooLarge(announced, target) ?? refusalFor(strangerTo(target.name, ip), target);
      const stranger = strangerOf(context.keys, ip, [...recipients, address]);
      const named = strangerOf(context.keys, ip, [address]).deliveryId;
      // RFC 5321 section 4.5.3.1.10: who gets this sends the mail again for the recipients that are left.
      if (named !== null && named !== stranger.deliveryId)
        return refuse(452, '4.5.3 one mail is about one of ours: send it again for this address');
      return refusalOf(stranger);
    },
    async data(session, mail, size) {
      const target = await targetOf(session.recipients[0] ?? '');
      if (isRefusal(target)) return target;
      if (target !== 'ours') return takeFor(session, target, mail, size);
      const stranger = strangerOf(context.keys, session.ip, session.recipients);
      const bytes = mail.length + ROW_BYTES;
      const refusal = refusalOf(stranger, bytes);
      if (refusal !== null) return refusal;
      budgets.spend(stranger, bytes);
      const now = context.clock.now();
      const row = {
        id: newId('rep', now),
        received_at: now,
        client_ip: session.ip,
        sender: session.sender,
        recipients_json: JSON.stringify(session.recipients),
        size,
        state: 'new',
        kind: null,
        account_id: null,
        message_id: null,
        delivery_id: null,
        detail_json: '{}',
        raw: mail,
      } as const;
      try {
        await context.db.commit.insert({ reports: [row] }, bytes);
      } catch (error) {
        // The sender comes again with it.
        budgets.takeBack(stranger, bytes, now);
        throw error;
      }
      kept.of(stranger).add(bytes);
      receiver.take(row);
      return `2.0.0 taken as ${row.id}`;
    },
    async holdFor(recipient) {
      const target = await targetOf(recipient);
      return target === 'ours' || isRefusal(target) ? null : hold;
    },
    proofOf: (address) => strangerOf(context.keys, '', [address]).deliveryId,
    overLimit(limit, held) {
      context.usedUp((held === null ? BUDGET_OF : RECEIVED_BUDGET_OF)[limit]);
    },
  };
}

const isRefusal = (target: Target): target is SmtpRefusal => target !== 'ours' && 'code' in target;
const nameOf = (target: Target): string => (target === 'ours' || isRefusal(target) ? '' : target.name);
/** EHLO announces more than a receiving domain takes: a bounce may bring back our largest mail. */
const tooLarge = (size: number, { name }: ReceivingDomain): SmtpRefusal | null =>
  size > LARGEST ? refuse(552, `5.3.4 a mail to ${name} may have ${String(LARGEST)} octets at most`) : null;
const noRoom = refuse(452, '4.3.1 there is no room now: try again later');
/** Returns the sender's network, as large as one customer of a provider usually has, and the delivery that a recipient names with a token of ours. */
export function strangerOf(keys: readonly ReturnPathKey[], ip: string, recipients: readonly string[]): Stranger {
  for (const address of recipients) {
    const local = address.slice(0, Math.max(0, address.lastIndexOf('@')));
    const deliveryId = deliveryOf(keys, local) ?? unsubscribedDelivery(keys, local);
    if (deliveryId !== null) return { network: siteOf(ip), deliveryId };
  }
  return { network: siteOf(ip), deliveryId: null };
}
