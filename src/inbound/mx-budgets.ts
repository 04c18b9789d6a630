/**
 * Bounds what a network may send to port 25 in an hour, and what may come in about one delivery (base/budgets.ts). Mail to an address
 * with a token of ours is counted separately from mail that anyone can send: a flood of the second kind never costs a bounce.
 */
import { Allowance } from '../scheduling/allowance.ts';
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** The sender's network, and the delivery that the recipient's token names, or null. */
export interface Stranger {
  network: string;
  deliveryId: string | null;
}

export interface MxBudgets {
  /** Null where a mail that takes this many bytes may come in. Without a size, whether any mail may. */
  refusal(stranger: Stranger, bytes?: number): SmtpRefusal | null;
  spend(stranger: Stranger, bytes: number): void;
  /** Gives back what of a mail is not kept now that it was read; `then` is when it came. */
  giveBack(stranger: Stranger, bytes: number, then: number): void;
  /** Notes how long the reading thread was busy with a mail. */
  noteReading(stranger: Stranger, ms: number): void;
}

interface Rule {
  name: BudgetName;
  allowance: Allowance;
  keyOf: (stranger: Stranger) => string;
  amountOf: (bytes: number) => number;
}

const everybody = (): string => '';
const byNetwork = ({ network }: Stranger): string => network;
const byDelivery = ({ deliveryId }: Stranger): string => deliveryId ?? '';
const one = (): number => 1;
const all = (bytes: number): number => bytes;
/** The time that reading took is spent afterwards. */
const noBytes = (): number => 0;

export function createMxBudgets({ clock, usedUp }: { clock: Clock; usedUp: UsedUp }): MxBudgets {
  const reading = new Allowance(budgets.loose_reading_network);
  const loose: readonly Rule[] = [
    {
      name: 'loose_mails_network',
      allowance: new Allowance(budgets.loose_mails_network),
      keyOf: byNetwork,
      amountOf: one,
    },
    {
      name: 'loose_bytes_network',
      allowance: new Allowance(budgets.loose_bytes_network),
      keyOf: byNetwork,
      amountOf: all,
    },
    { name: 'loose_mails', allowance: new Allowance(budgets.loose_mails), keyOf: everybody, amountOf: one },
    { name: 'loose_bytes', allowance: new Allowance(budgets.loose_bytes), keyOf: everybody, amountOf: all },
    { name: 'loose_reading_network', allowance: reading, keyOf: byNetwork, amountOf: noBytes },
  ];
  const withToken: readonly Rule[] = [
    {
      name: 'token_mails_delivery',
      allowance: new Allowance(budgets.token_mails_delivery),
      keyOf: byDelivery,
      amountOf: one,
    },
    {
      name: 'token_bytes_delivery',
      allowance: new Allowance(budgets.token_bytes_delivery),
      keyOf: byDelivery,
      amountOf: all,
    },
    {
      name: 'token_bytes_network',
      allowance: new Allowance(budgets.token_bytes_network),
      keyOf: byNetwork,
      amountOf: all,
    },
  ];
  const rulesFor = ({ deliveryId }: Stranger): readonly Rule[] => (deliveryId === null ? loose : withToken);

  return {
    refusal(stranger, bytes = 0) {
      const now = clock.now();
      const rule = rulesFor(stranger).find(
        ({ allowance, keyOf, amountOf }) => !allowance.has(keyOf(stranger), amountOf(bytes), now),
      );
      if (rule === undefined) return null;
      usedUp(rule.name);
      return refuse(452, '4.7.1 too much mail of this kind for now: try again later');
    },
    spend(stranger, bytes) {
      const now = clock.now();
      for (const { allowance, keyOf, amountOf } of rulesFor(stranger))
        allowance.spend(keyOf(stranger), amountOf(bytes), now);
    },
    giveBack(stranger, bytes, then) {
      const now = clock.now();
      for (const { allowance, keyOf, amountOf } of rulesFor(stranger))
        if (amountOf === all) allowance.giveBack(keyOf(stranger), bytes, then, now);
    },
    noteReading(stranger, ms) {
      if (stranger.deliveryId === null) reading.spend(stranger.network, ms, clock.now());
    },
  };
}
