/** Bounds port 25 by hour, network and delivery (base/budgets.ts). Tokens, receiving domains and all else count apart: no flood costs a bounce. */
import { LRUCache } from 'lru-cache';
import { Allowance, mostForOne } from '../scheduling/allowance.ts';
import { budgets, type BudgetName } from '../base/budgets.ts';
import { siteOf } from '../net/ip.ts';
import { deliveryOf, unsubscribedDelivery, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { InboundContext, ReceivingDomain } from './context.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** The sender's network, as large as one customer of a provider usually has, and the delivery that a recipient names with a token of ours, or null. */
export interface Stranger {
  network: string;
  deliveryId: string | null;
  /** The domain that it writes to; absent for mail to our own addresses. */
  receiving?: ReceivingDomain;
}

/** Returns the delivery that a local part names with a token of ours, or null. */
export const deliveryIn = (keys: readonly ReturnPathKey[], local: string): string | null =>
  deliveryOf(keys, local) ?? unsubscribedDelivery(keys, local);

export function strangerOf(keys: readonly ReturnPathKey[], ip: string, recipients: readonly string[]): Stranger {
  const named = recipients.map((one) => deliveryIn(keys, one.slice(0, Math.max(0, one.lastIndexOf('@')))));
  return { network: siteOf(ip), deliveryId: named.find((id) => id !== null) ?? null };
}

type RuleName = Extract<
  BudgetName,
  `loose_${string}` | `token_${string}` | `received_${'mails' | 'bytes' | 'reading'}_${string}`
>;
type Amounts = Record<'mails' | 'bytes' | 'ms', number>;

/** Networks that are remembered for a good signature. */
const MOST_GOOD = 1000;

export type MxBudgets = ReturnType<typeof createMxBudgets>;

export function createMxBudgets({ clock, usedUp }: Pick<InboundContext, 'clock' | 'usedUp'>) {
  /** Networks from which a feedback loop has sent what it signed: they have their own part whatever others send. Only DNS and the provider's key lead here. */
  const good = new LRUCache<string, true>({ max: MOST_GOOD });
  /** `together`: the budget of all networks. */
  const count = (name: RuleName, together?: RuleName) => ({
    name,
    ...budgets[name],
    // A broadcast has more deliveries with an answer in an hour than are counted one by one. Their tokens are ours, so none is made up.
    unit: budgets[name].unit as keyof Amounts,
    used: new Allowance(budgets[name], { beyond: /_(?:delivery|domain)$/.test(name) ? 'uncounted' : 'shared' }),
    shared:
      together === undefined
        ? null
        : { name: together, most: budgets[together].most, used: new Allowance(budgets[together]) },
  });
  /** The budgets that a mail must fit. A token of ours has none for reading. */
  const loose = [
    count('loose_mails_network', 'loose_mails'),
    count('loose_bytes_network', 'loose_bytes'),
    count('loose_reading_network'),
  ];
  const withToken = [count('token_mails_delivery'), count('token_bytes_delivery'), count('token_bytes_network')];
  const received = [
    count('received_mails_network'),
    count('received_bytes_network'),
    count('received_mails_domain'),
    count('received_bytes_domain'),
    count('received_reading_network'),
  ];

  const countsOf = ({ deliveryId, receiving }: Stranger) =>
    receiving !== undefined ? received : deliveryId === null ? loose : withToken;

  function brokenBy(stranger: Stranger, amounts: Amounts): RuleName | null {
    const now = clock.now();
    for (const { name, per, unit, most, used, shared } of countsOf(stranger)) {
      const wanted = used.usedBy(keyOf(stranger, per), now) + amounts[unit];
      if (wanted > most) return name;
      if (shared === null || good.has(stranger.network)) continue;
      if (wanted > mostForOne(most, shared.most, shared.used.usedBy('', now))) return shared.name;
    }
    return null;
  }

  /** Calls `act` for each budget that these amounts count in. */
  function each(stranger: Stranger, amounts: Amounts, act: (used: Allowance, key: string, amount: number) => void) {
    for (const { per, unit, used, shared } of countsOf(stranger)) {
      act(used, keyOf(stranger, per), amounts[unit]);
      if (shared !== null) act(shared.used, '', amounts[unit]);
    }
  }

  function spend(stranger: Stranger, amounts: Amounts): void {
    const now = clock.now();
    each(stranger, amounts, (used, key, amount) => used.spend(key, amount, now));
  }

  function giveBack(stranger: Stranger, amounts: Amounts, then: number): void {
    const now = clock.now();
    each(stranger, amounts, (used, key, amount) => used.giveBack(key, amount, then, now));
  }

  return {
    /** Returns null if a mail that takes this many bytes may come in; without a size, if any mail may. */
    refusal(stranger: Stranger, bytes = 0): SmtpRefusal | null {
      const broken = brokenBy(stranger, { mails: 1, bytes, ms: 0 });
      if (broken === null) return null;
      usedUp(broken);
      return refuse(452, '4.7.1 too much mail of this kind for now: try again later');
    },
    spend: (stranger: Stranger, bytes: number): void => spend(stranger, { mails: 1, bytes, ms: 0 }),
    /** Takes back what a mail was counted for that could not be written; `then` is when it came. */
    takeBack: (stranger: Stranger, bytes: number, then: number): void =>
      giveBack(stranger, { mails: 1, bytes, ms: 0 }, then),
    /** Gives back the part of a mail that is not kept after reading; `then` is when the mail came. */
    giveBack: (stranger: Stranger, bytes: number, then: number): void =>
      giveBack(stranger, { mails: 0, bytes, ms: 0 }, then),
    /** Notes how long the reading process was busy with a mail. */
    noteReading: (stranger: Stranger, ms: number): void => spend(stranger, { mails: 0, bytes: 0, ms }),
    /** Notes that a feedback loop has sent this, by its signature. */
    noteGood({ network }: Stranger): void {
      good.set(network, true);
    },
  };
}

const keyOf = ({ network, deliveryId, receiving }: Stranger, per: string): string =>
  (per === 'delivery' ? deliveryId : per === 'domain' ? receiving?.name : network) ?? '';
