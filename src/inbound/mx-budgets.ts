/**
 * Bounds what a network may send to port 25 in an hour, and what may come in about one delivery (base/budgets.ts). Mail to an address
 * with a token of ours, mail to domains that receive, and what else anyone can send are counted apart: no flood costs a bounce.
 */
import { LRUCache } from 'lru-cache';
import { Allowance, mostForOne, type Beyond } from '../scheduling/allowance.ts';
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { siteOf } from '../net/ip.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** The sender's network, and the delivery that the recipient's token names, or null. */
export interface Stranger {
  network: string;
  deliveryId: string | null;
  /** The receiving domain that it writes to; absent for mail to our own addresses. */
  domain?: string;
}

/** Returns the sender's network, as large as one customer of a provider usually has, and the receiving domain that it writes to. */
export const strangerTo = (domain: string, ip: string): Stranger => ({ network: siteOf(ip), deliveryId: null, domain });

type RuleName = Extract<
  BudgetName,
  `loose_${string}` | `token_${string}` | `received_${'mails' | 'bytes' | 'reading'}_${string}`
>;

interface Rule {
  /** Returns the budget that this would break, or null. */
  broken(stranger: Stranger, bytes: number, now: number): RuleName | null;
  spend(stranger: Stranger, bytes: number, now: number): void;
  giveBack(stranger: Stranger, bytes: number, then: number, now: number): void;
  /** True if it counts octets. */
  isOfBytes: boolean;
}

const byNetwork = ({ network }: Stranger): string => network;
const byDelivery = ({ deliveryId }: Stranger): string => deliveryId ?? '';
const byDomain = ({ domain }: Stranger): string => domain ?? '';
const one = (): number => 1;
const all = (bytes: number): number => bytes;
type Amount = typeof one | typeof all;
/** Networks that are remembered for a good signature. */
const MOST_GOOD = 1000;

export type MxBudgets = ReturnType<typeof createMxBudgets>;

export function createMxBudgets({ clock, usedUp }: { clock: Clock; usedUp: UsedUp }) {
  /** Networks from which a feedback loop has sent what it signed. Only DNS and the provider's key lead here. */
  const good = new LRUCache<string, true>({ max: MOST_GOOD });
  const readings = {
    loose_reading_network: new Allowance(budgets.loose_reading_network),
    received_reading_network: new Allowance(budgets.received_reading_network),
  };
  /** The budget for the time of reading; null for mail with a token of ours, which has none. */
  const readingOf = ({ deliveryId, domain }: Stranger): keyof typeof readings | null =>
    domain !== undefined ? 'received_reading_network' : deliveryId === null ? 'loose_reading_network' : null;
  const loose: readonly Rule[] = [
    sharedRule('loose_mails_network', 'loose_mails', one, good),
    sharedRule('loose_bytes_network', 'loose_bytes', all, good),
  ];
  // A broadcast has more deliveries with an answer in an hour than are counted one by one. Their tokens are ours, so none is made up.
  const withToken: readonly Rule[] = [
    simpleRule('token_mails_delivery', byDelivery, one, 'uncounted'),
    simpleRule('token_bytes_delivery', byDelivery, all, 'uncounted'),
    simpleRule('token_bytes_network', byNetwork, all),
  ];
  const received: readonly Rule[] = [
    simpleRule('received_mails_network', byNetwork, one),
    simpleRule('received_bytes_network', byNetwork, all),
    simpleRule('received_mails_domain', byDomain, one, 'uncounted'),
    simpleRule('received_bytes_domain', byDomain, all, 'uncounted'),
  ];
  const rulesFor = ({ deliveryId, domain }: Stranger): readonly Rule[] =>
    domain !== undefined ? received : deliveryId === null ? loose : withToken;

  function brokenBy(stranger: Stranger, bytes: number): RuleName | null {
    const now = clock.now();
    for (const rule of rulesFor(stranger)) {
      const broken = rule.broken(stranger, bytes, now);
      if (broken !== null) return broken;
    }
    const reading = readingOf(stranger);
    return reading === null || readings[reading].has(stranger.network, 0, now) ? null : reading;
  }

  return {
    /** Returns null if a mail that takes this many bytes may come in; without a size, if any mail may. */
    refusal(stranger: Stranger, bytes = 0): SmtpRefusal | null {
      const broken = brokenBy(stranger, bytes);
      if (broken === null) return null;
      usedUp(broken);
      return refuse(452, '4.7.1 too much mail of this kind for now: try again later');
    },
    spend(stranger: Stranger, bytes: number): void {
      const now = clock.now();
      for (const rule of rulesFor(stranger)) rule.spend(stranger, bytes, now);
    },
    /** Takes back what a mail was counted for that could not be written; `then` is when it came. */
    takeBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      for (const rule of rulesFor(stranger)) rule.giveBack(stranger, bytes, then, now);
    },
    /** Gives back the part of a mail that is not kept after reading; `then` is when the mail came. */
    giveBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      for (const rule of rulesFor(stranger)) if (rule.isOfBytes) rule.giveBack(stranger, bytes, then, now);
    },
    /** Notes how long the reading process was busy with a mail. */
    noteReading(stranger: Stranger, ms: number): void {
      const reading = readingOf(stranger);
      if (reading !== null) readings[reading].spend(stranger.network, ms, clock.now());
    },
    /** Notes that a feedback loop has sent this, by its signature. */
    noteGood({ network }: Stranger): void {
      good.set(network, true);
    },
  };
}

function simpleRule(name: RuleName, keyOf: (stranger: Stranger) => string, amountOf: Amount, beyond?: Beyond): Rule {
  const allowance = new Allowance(budgets[name], { beyond });
  return {
    broken: (stranger, bytes, now) => (allowance.has(keyOf(stranger), amountOf(bytes), now) ? null : name),
    spend: (stranger, bytes, now) => allowance.spend(keyOf(stranger), amountOf(bytes), now),
    giveBack: (stranger, bytes, then, now) => {
      allowance.giveBack(keyOf(stranger), amountOf(bytes), then, now);
    },
    isOfBytes: amountOf === all,
  };
}

/** Bounds each network, and all together. A network that is known for good signatures has its own part whatever others send. */
function sharedRule(
  each: RuleName,
  together: RuleName,
  amountOf: Amount,
  good: { has(network: string): boolean },
): Rule {
  const [ofOne, ofAll] = [new Allowance(budgets[each]), new Allowance(budgets[together])];
  const [most, mostOfAll] = [budgets[each].most, budgets[together].most];
  return {
    broken({ network }, bytes, now) {
      const wanted = ofOne.usedBy(network, now) + amountOf(bytes);
      if (wanted > most) return each;
      if (good.has(network) || wanted <= mostForOne(most, mostOfAll, ofAll.usedBy('', now))) return null;
      return together;
    },
    spend({ network }, bytes, now) {
      ofOne.spend(network, amountOf(bytes), now);
      ofAll.spend('', amountOf(bytes), now);
    },
    giveBack({ network }, bytes, then, now) {
      ofOne.giveBack(network, amountOf(bytes), then, now);
      ofAll.giveBack('', amountOf(bytes), then, now);
    },
    isOfBytes: amountOf === all,
  };
}
