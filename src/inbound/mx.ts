/**
 * The MX listener: accepts only answers to mail of ours, and refuses all else at RCPT, so that it relays nothing and has
 * nothing to send back (RFC 5321 section 6.1). 250 means that the report is stored; receive.ts reads it afterwards.
 * Anyone may write here, so each mail must fit the budgets of its network (mx-budgets.ts) before it is stored.
 */
import type { BudgetName, UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { siteOf } from '../net/ip.ts';
import { parseMailbox } from '../mail/address.ts';
import { deliveryOf, unsubscribedDelivery, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { Committer } from '../storage/commit.ts';
import type { ReportRow } from '../storage/tables.ts';
import type { KeptReports } from './kept-reports.ts';
import type { Handlers } from './listener.ts';
import type { LimitName } from './listener-limits.ts';
import type { MxBudgets, Stranger } from './mx-budgets.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

export interface MxDeps {
  clock: Clock;
  db: { commit: Committer };
  /** Those that sign return paths and unsubscribe addresses. */
  keys: readonly ReturnPathKey[];
  /** True for a host whose mail is ours: our own name, or a return-path domain. */
  isOurHost(host: string): Promise<boolean>;
  hasRoomForStrangers(): boolean;
  usedUp: UsedUp;
}

/** A mail that came to one of our addresses, before it is read. */
export type NewReport = Pick<
  ReportRow,
  'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'
>;

/** The parts that an accepted mail passes through. */
export interface Intake {
  budgets: MxBudgets;
  kept: Pick<KeptReports, 'refusal' | 'added'>;
  receiver: { isFull(stranger: Stranger): BudgetName | null; take(row: NewReport): void };
}

/** Bytes of a row without the mail. */
export const ROW_BYTES = 1000;

const BUDGET_OF: Readonly<Record<LimitName, BudgetName>> = {
  connections: 'mx_connections',
  connectionsPerNetwork: 'mx_connections_network',
  heldBytes: 'mx_memory',
  heldBytesPerNetwork: 'mx_memory_network',
};

/** Names that take mail at each of our hosts: RFC 2142's, those of feedback loops (RFC 5965), of DMARC and of TLS reports. */
const ROLES: ReadonlySet<string> = new Set(
  'postmaster abuse fbl complaints dmarc dmarc-reports tls tls-reports tlsrpt'.split(' '),
);

/** Returns whether one of our keys signed this local part: it is a return path or an unsubscribe address. */
const isSignedByUs = (keys: readonly ReturnPathKey[], local: string): boolean =>
  deliveryOf(keys, local) !== null || unsubscribedDelivery(keys, local) !== null;

export function mxHandlers(deps: MxDeps, { budgets, kept, receiver }: Intake): Handlers<never> {
  /** Returns why no mail of this size may come in now, or null. */
  function refusalOf(stranger: Stranger, bytes?: number): SmtpRefusal | null {
    const full = receiver.isFull(stranger);
    if (full !== null) deps.usedUp(full);
    if (full !== null || !deps.hasRoomForStrangers()) return refuse(452, '4.3.1 there is no room now: try again later');
    return budgets.refusal(stranger, bytes) ?? kept.refusal(stranger);
  }

  return {
    sender: () => Promise.resolve(null),
    async recipient({ ip, recipients }, address) {
      // RFC 5321 section 4.5.1: every host has a postmaster, also without a domain.
      if (!/^postmaster$/i.test(address)) {
        const at = address.lastIndexOf('@');
        // Percent hacks, bang paths and source routes are local parts that do not exist here, so they are refused like others.
        const parsed = parseMailbox(address, { smtputf8: true });
        if (at <= 0 || parsed.kind === 'bad') return refuse(553, '5.1.3 this is not an address');
        const { local, domain } = parsed.mailbox;
        // A token of ours is proof at any host: reports still come to the former return path of a domain that was changed or removed.
        if (!isSignedByUs(deps.keys, local)) {
          if (!(await deps.isOurHost(domain))) return refuse(550, '5.7.1 we do not relay');
          if (!ROLES.has(local.toLowerCase())) return refuse(550, '5.1.1 there is no such mailbox');
        }
      }
      const stranger = strangerOf(deps.keys, ip, [...recipients, address]);
      const named = strangerOf(deps.keys, ip, [address]).deliveryId;
      // RFC 5321 section 4.5.3.1.10: who gets this sends the mail again for the recipients that are left.
      if (named !== null && named !== stranger.deliveryId)
        return refuse(452, '4.5.3 one mail is about one of ours: send it again for this address');
      return refusalOf(stranger);
    },
    async data(session, mail, size) {
      const stranger = strangerOf(deps.keys, session.ip, session.recipients);
      const bytes = mail.length + ROW_BYTES;
      const refusal = refusalOf(stranger, bytes);
      if (refusal !== null) return refusal;
      budgets.spend(stranger, bytes);
      const now = deps.clock.now();
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
        await deps.db.commit.insert({ reports: [row] }, bytes);
      } catch (error) {
        // The sender comes again with it.
        budgets.takeBack(stranger, bytes, now);
        throw error;
      }
      kept.added(stranger, bytes);
      receiver.take(row);
      return `2.0.0 taken as ${row.id}`;
    },
    proofOf: (address) => strangerOf(deps.keys, '', [address]).deliveryId,
    overLimit(limit) {
      deps.usedUp(BUDGET_OF[limit]);
    },
  };
}

/** Returns the sender's network, as large as one customer of a provider usually has, and the delivery that a recipient names with a token of ours. */
export function strangerOf(keys: readonly ReturnPathKey[], ip: string, recipients: readonly string[]): Stranger {
  for (const address of recipients) {
    const local = address.slice(0, Math.max(0, address.lastIndexOf('@')));
    const deliveryId = deliveryOf(keys, local) ?? unsubscribedDelivery(keys, local);
    if (deliveryId !== null) return { network: siteOf(ip), deliveryId };
  }
  return { network: siteOf(ip), deliveryId: null };
}
