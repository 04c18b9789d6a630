/**
 * Bounds what a network may send to port 25 in an hour, and what may come in about one delivery (base/budgets.ts). Mail to an address
 * with a token of ours, mail to domains that receive, and what else anyone can send are counted apart: no flood costs a bounce.
 */
import { Allowance, type Beyond } from '../scheduling/allowance.ts';
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** The sender's network, and the delivery that the recipient's token names, or null. */
export interface Stranger {
  network: string;
  deliveryId: string | null;
  /** The receiving domain that it writes to; absent for mail to our own addresses. */
  domain?: string;
}

type RuleName = Extract<
  BudgetName,
  `loose_${string}` | `token_${string}` | `received_${'mails' | 'bytes' | 'reading'}_${string}`
>;

interface Rule {
  name: RuleName;
  allowance: Allowance;
  keyOf: (stranger: Stranger) => string;
  amountOf: (bytes: number) => number;
}

const ofAll = (): string => '';
const byNetwork = ({ network }: Stranger): string => network;
const byDelivery = ({ deliveryId }: Stranger): string => deliveryId ?? '';
const byDomain = ({ domain }: Stranger): string => domain ?? '';
const one = (): number => 1;
const all = (bytes: number): number => bytes;
/** Counts nothing when the mail comes: the time of reading it is spent afterwards. */
const noBytes = (): number => 0;

export type MxBudgets = ReturnType<typeof createMxBudgets>;

export function createMxBudgets({ clock, usedUp }: { clock: Clock; usedUp: UsedUp }) {
  const rule = (name: RuleName, keyOf: Rule['keyOf'], amountOf: Rule['amountOf'], beyond?: Beyond): Rule => ({
    name,
    allowance: new Allowance(budgets[name], { beyond }),
    keyOf,
    amountOf,
  });
  const reading = rule('loose_reading_network', byNetwork, noBytes);
  const loose: readonly Rule[] = [
    rule('loose_mails_network', byNetwork, one),
    rule('loose_bytes_network', byNetwork, all),
    rule('loose_mails', ofAll, one),
    rule('loose_bytes', ofAll, all),
    reading,
  ];
  // A broadcast has more deliveries with an answer in an hour than are counted one by one. Their tokens are ours, so none is made up.
  const withToken: readonly Rule[] = [
    rule('token_mails_delivery', byDelivery, one, 'uncounted'),
    rule('token_bytes_delivery', byDelivery, all, 'uncounted'),
    rule('token_bytes_network', byNetwork, all),
  ];
  const receivedReading = rule('received_reading_network', byNetwork, noBytes);
  const received: readonly Rule[] = [
    rule('received_mails_network', byNetwork, one),
    rule('received_bytes_network', byNetwork, all),
    rule('received_mails_domain', byDomain, one, 'uncounted'),
    rule('received_bytes_domain', byDomain, all, 'uncounted'),
    receivedReading,
  ];
  const rulesFor = ({ deliveryId, domain }: Stranger): readonly Rule[] =>
    domain !== undefined ? received : deliveryId === null ? loose : withToken;

  return {
    /** Returns null if a mail that takes this many bytes may come in; without a size, if any mail may. */
    refusal(stranger: Stranger, bytes = 0): SmtpRefusal | null {
      const now = clock.now();
      const broken = rulesFor(stranger).find(
        ({ allowance, keyOf, amountOf }) => !allowance.has(keyOf(stranger), amountOf(bytes), now),
      );
      if (broken === undefined) return null;
      usedUp(broken.name);
      return refuse(452, '4.7.1 too much mail of this kind for now: try again later');
    },
    spend(stranger: Stranger, bytes: number): void {
      const now = clock.now();
      for (const { allowance, keyOf, amountOf } of rulesFor(stranger))
        allowance.spend(keyOf(stranger), amountOf(bytes), now);
    },
    /** Takes back what a mail was counted for that could not be written; `then` is when it came. */
    takeBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      for (const { allowance, keyOf, amountOf } of rulesFor(stranger))
        allowance.giveBack(keyOf(stranger), amountOf(bytes), then, now);
    },
    /** Gives back the part of a mail that is not kept after reading; `then` is when the mail came. */
    giveBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      for (const { allowance, keyOf, amountOf } of rulesFor(stranger))
        if (amountOf === all) allowance.giveBack(keyOf(stranger), bytes, then, now);
    },
    /** Notes how long the reading thread was busy with a mail. */
    noteReading(stranger: Stranger, ms: number): void {
      const spent = stranger.domain !== undefined ? receivedReading : stranger.deliveryId === null ? reading : null;
      spent?.allowance.spend(stranger.network, ms, clock.now());
    },
  };
}
