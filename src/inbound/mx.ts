/**
 * The MX listener: accepts only answers to mail of ours and mail to domains that receive, and refuses all else at RCPT: so it relays nothing and
 * has nothing to send back (RFC 5321 section 6.1). 250 means stored, within the budgets of mx-budgets.ts; receive.ts and received.ts read it.
 */
import { budgets as limits } from '../base/budgets.ts';
import { parseMailbox } from '../mail/address.ts';
import { siteOf } from '../net/ip.ts';
import { ROW_BYTES } from './bounded-store.ts';
import type { InboundContext, ReceivingDomain } from './context.ts';
import type { Inbox } from './inbox.ts';
import type { Handlers } from './listener.ts';
import { listenerLimits, type MailHold, Tally } from './mail-intake.ts';
import { deliveryIn, strangerOf, type MxBudgets, type Stranger } from './mx-budgets.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

type Shelf = Pick<Inbox<never>, 'full' | 'store'>;

/** The budgets, and the inboxes of mail to our own addresses (receive.ts) and to domains that receive (received.ts). */
interface Intake {
  budgets: MxBudgets;
  reports: Shelf;
  received: Shelf;
}

const LARGEST = limits.received_mail.most;

/** Names that take mail at each of our hosts: RFC 2142's, those of feedback loops (RFC 5965), of DMARC and of TLS reports. */
const ROLES: ReadonlySet<string> = new Set(
  'postmaster abuse fbl complaints dmarc dmarc-reports tls tls-reports tlsrpt'.split(' '),
);

/** The sender of mail that is taken for this recipient, at our own addresses or in a domain that receives; or the reason why it is not. */
type Target = Stranger | SmtpRefusal;

export function mxHandlers(context: InboundContext, { budgets, reports, received }: Intake): Handlers<never> {
  const { clock, keys } = context;
  /** Mail to domains that receive is kept whole, and takes no memory from reports. */
  const hold: MailHold = {
    memory: new Tally(),
    keepBytes: LARGEST,
    limits: {
      ...listenerLimits,
      heldBytes: limits.received_memory.most,
      heldBytesPerNetwork: limits.received_memory_network.most,
    },
  };

  /** Our own addresses come first: they mean the same in a domain that receives. */
  async function targetOf(address: string, ip: string): Promise<Target> {
    const ours = { network: siteOf(ip), deliveryId: null };
    // RFC 5321 section 4.5.1: every host has a postmaster, also without a domain.
    if (/^postmaster$/i.test(address)) return ours;
    // Percent hacks, bang paths and source routes are local parts that do not exist here, so they are refused like others.
    const parsed = parseMailbox(address, { smtputf8: true });
    if (address.lastIndexOf('@') <= 0 || parsed.kind === 'bad') return refuse(553, '5.1.3 this is not an address');
    const { local, domain } = parsed.mailbox;
    // A token of ours is proof at any host: reports still come to the former return path of a domain that was changed or removed.
    const deliveryId = deliveryIn(keys, local);
    if (deliveryId !== null) return { ...ours, deliveryId };
    const isOurs = await context.isOurHost(domain);
    if (isOurs && ROLES.has(local.toLowerCase())) return ours;
    const receiving = await context.receiverOf(local, domain);
    if (receiving !== null && receiving !== 'refused') return { ...ours, receiving };
    // RFC 5321 section 4.5.1: every domain that takes mail has a postmaster.
    if (receiving === 'refused' && /^(?:postmaster|abuse)$/i.test(local)) return ours;
    if (isOurs || receiving === 'refused') return refuse(550, '5.1.1 there is no such mailbox');
    return refuse(550, '5.7.1 we do not relay');
  }

  const shelfOf = ({ receiving }: Stranger): Shelf => (receiving === undefined ? reports : received);

  async function refusalOf(stranger: Stranger, bytes?: number): Promise<SmtpRefusal | null> {
    const full = await shelfOf(stranger).full(stranger);
    if (full !== null) context.usedUp(full);
    if (full !== null || !context.hasRoomForStrangers()) return noRoom;
    return budgets.refusal(stranger, bytes);
  }

  return {
    sender: () => Promise.resolve(null),
    async recipient({ ip, recipients, announced }, address) {
      const target = await targetOf(address, ip);
      if (isRefusal(target)) return target;
      const [first] = recipients;
      const before = first === undefined ? target : await targetOf(first, ip);
      if (nameOf(before) !== nameOf(target))
        return refuse(452, '4.5.3 one mail goes to one domain: send it again for this address');
      const { receiving, deliveryId: proof } = target;
      const isAlone = first === undefined || receiving !== undefined;
      const stranger = isAlone ? target : strangerOf(keys, ip, [...recipients, address]);
      // RFC 5321 section 4.5.3.1.10: who gets this sends the mail again for the recipients that are left.
      if (proof !== null && proof !== stranger.deliveryId)
        return refuse(452, '4.5.3 one mail is about one of ours: send it again for this address');
      const refusal = tooLarge(announced, receiving) ?? (await refusalOf(stranger));
      return refusal ?? { proof, hold: receiving === undefined ? null : hold };
    },
    async data(session, raw, size) {
      const { ip, recipients } = session;
      const target = await targetOf(recipients[0] ?? '', ip);
      if (isRefusal(target)) return target;
      const { receiving } = target;
      const stranger = recipients.length > 1 && receiving === undefined ? strangerOf(keys, ip, recipients) : target;
      const bytes = receiving === undefined ? raw.length + ROW_BYTES : size;
      const refusal = tooLarge(size, receiving) ?? (await refusalOf(stranger, bytes));
      if (refusal !== null) return refusal;
      const then = clock.now();
      budgets.spend(stranger, bytes);
      try {
        return `2.0.0 taken as ${await shelfOf(stranger).store(session, raw, size, stranger)}`;
      } catch (error) {
        // The sender comes again with it.
        budgets.takeBack(stranger, bytes, then);
        throw error;
      }
    },
    overLimit(limit, held) {
      const isHeld = held !== null && (limit === 'memory' || limit === 'memory_network');
      context.usedUp(isHeld ? `received_${limit}` : `mx_${limit}`);
    },
  };
}

const isRefusal = (target: Target): target is SmtpRefusal => 'code' in target;
const nameOf = (target: Target): string => (isRefusal(target) ? '' : (target.receiving?.name ?? ''));
/** EHLO announces more than a receiving domain takes: a bounce may bring back our largest mail. */
const tooLarge = (size: number, receiving: ReceivingDomain | undefined): SmtpRefusal | null =>
  receiving !== undefined && size > LARGEST
    ? refuse(552, `5.3.4 a mail to ${receiving.name} may have ${String(LARGEST)} octets at most`)
    : null;
const noRoom = refuse(452, '4.3.1 there is no room now: try again later');
