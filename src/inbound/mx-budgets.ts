/**
 * Bounds what a network may send to port 25 in an hour, and what may come in about one delivery (base/budgets.ts). Mail to an address
 * with a token of ours, mail to domains that receive, and what else anyone can send are counted apart: no flood costs a bounce.
 */
import { LRUCache } from 'lru-cache';
import { Allowance, mostForOne } from '../scheduling/allowance.ts';
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

/** The budgets that a mail must fit: without a token, with one, and to a domain that receives. A token of ours has none for reading. */
const loose: readonly RuleName[] = ['loose_mails_network', 'loose_bytes_network', 'loose_reading_network'];
const withToken: readonly RuleName[] = ['token_mails_delivery', 'token_bytes_delivery', 'token_bytes_network'];
const received: readonly RuleName[] = [
  'received_mails_network',
  'received_bytes_network',
  'received_mails_domain',
  'received_bytes_domain',
  'received_reading_network',
];
/** Budgets of all networks together. */
const together: Readonly<Partial<Record<RuleName, RuleName>>> = {
  loose_mails_network: 'loose_mails',
  loose_bytes_network: 'loose_bytes',
};

const rulesFor = ({ deliveryId, domain }: Stranger): readonly RuleName[] =>
  domain !== undefined ? received : deliveryId === null ? loose : withToken;

function keyOf({ network, deliveryId, domain }: Stranger, name: RuleName): string {
  const { per } = budgets[name];
  return (per === 'delivery' ? deliveryId : per === 'domain' ? domain : per === 'network' ? network : '') ?? '';
}

const amountOf = (name: RuleName, bytes: number): number =>
  ({ bytes, mails: 1, ms: 0 })[budgets[name].unit as 'bytes' | 'mails' | 'ms'];

/** Networks that are remembered for a good signature. */
const MOST_GOOD = 1000;

export type MxBudgets = ReturnType<typeof createMxBudgets>;

export function createMxBudgets({ clock, usedUp }: { clock: Clock; usedUp: UsedUp }) {
  /** Networks from which a feedback loop has sent what it signed: they have their own part whatever others send. Only DNS and the provider's key lead here. */
  const good = new LRUCache<string, true>({ max: MOST_GOOD });
  const allowances = new Map<RuleName, Allowance>();
  function allowanceOf(name: RuleName): Allowance {
    // A broadcast has more deliveries with an answer in an hour than are counted one by one. Their tokens are ours, so none is made up.
    const beyond = /_(?:delivery|domain)$/.test(name) ? 'uncounted' : 'shared';
    const allowance = allowances.get(name) ?? new Allowance(budgets[name], { beyond });
    allowances.set(name, allowance);
    return allowance;
  }

  function brokenBy(stranger: Stranger, bytes: number): RuleName | null {
    const now = clock.now();
    for (const name of rulesFor(stranger)) {
      const wanted = allowanceOf(name).usedBy(keyOf(stranger, name), now) + amountOf(name, bytes);
      if (wanted > budgets[name].most) return name;
      const shared = together[name];
      if (shared === undefined || good.has(stranger.network)) continue;
      const most = mostForOne(budgets[name].most, budgets[shared].most, allowanceOf(shared).usedBy('', now));
      if (wanted > most) return shared;
    }
    return null;
  }

  /** Calls `act` for each budget that the mail counts in. */
  function eachOf(
    stranger: Stranger,
    bytes: number,
    act: (one: Allowance, key: string, amount: number, unit: string) => void,
  ): void {
    for (const name of rulesFor(stranger)) {
      const shared = together[name];
      const [amount, { unit }] = [amountOf(name, bytes), budgets[name]];
      act(allowanceOf(name), keyOf(stranger, name), amount, unit);
      if (shared !== undefined) act(allowanceOf(shared), '', amount, unit);
    }
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
      eachOf(stranger, bytes, (one, key, amount) => one.spend(key, amount, now));
    },
    /** Takes back what a mail was counted for that could not be written; `then` is when it came. */
    takeBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      eachOf(stranger, bytes, (one, key, amount) => one.giveBack(key, amount, then, now));
    },
    /** Gives back the part of a mail that is not kept after reading; `then` is when the mail came. */
    giveBack(stranger: Stranger, bytes: number, then: number): void {
      const now = clock.now();
      eachOf(stranger, bytes, (one, key, amount, unit) => {
        if (unit === 'bytes') one.giveBack(key, amount, then, now);
      });
    },
    /** Notes how long the reading process was busy with a mail. */
    noteReading(stranger: Stranger, ms: number): void {
      for (const name of rulesFor(stranger))
        if (budgets[name].unit === 'ms') allowanceOf(name).spend(stranger.network, ms, clock.now());
    },
    /** Notes that a feedback loop has sent this, by its signature. */
    noteGood({ network }: Stranger): void {
      good.set(network, true);
    },
  };
}
