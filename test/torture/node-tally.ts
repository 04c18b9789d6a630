/** Writes the findings of `npm run torture -- nodes` as text. Pure. */
import type { Asked } from './node-clients.ts';

export interface Round {
  /** The fault, and the nodes that it met where it did not meet all. */
  name: string;
  /** The longest time in which mail waited for the domains that a node had before the fault, and none to them arrived, in ms. */
  nodeStandstillMs: number;
  /** The same for a single domain: its mail may also wait behind that of others. */
  domainStandstillMs: number;
  /** The most connections to the site at the same time. */
  connections: number;
}

export interface NodesTally {
  seed: number;
  rounds: readonly Round[];
  accepted: number;
  lost: number;
  secondCopies: number;
  /** Connections that were open at nodes when they were lost: so many second copies are allowed. */
  allowedCopies: number;
  /** Calls of webhook endpoints with events that they had been called with. */
  repeatedCalls: number;
  /** How often a node was killed, stopped or cut off. */
  losses: number;
  /** How many connections to the site there may be at the same time. */
  allowedConnections: number;
  /** Mails that each node brought to the receiver. */
  brought: ReadonlyMap<string, number>;
  events: number;
  asked: readonly Asked[];
}

/** Returns the longest time without a good answer of a node, in ms, from the requests that were made there. */
export function longestDowntime(asked: readonly Asked[], isGood: (one: Asked) => boolean): number {
  let longest = 0;
  let since: number | null = null;
  for (const one of asked.toSorted((a, b) => a.at - b.at)) {
    if (!isGood(one)) since ??= one.at;
    else if (since !== null) {
      longest = Math.max(longest, one.at + one.ms - since);
      since = null;
    }
  }
  return longest;
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

export const roundText = (round: Round, at: number): string =>
  `${String(at + 1).padStart(3)} ${round.name.padEnd(44)} standstill of a node's domains ${seconds(round.nodeStandstillMs)}, of a domain ${seconds(round.domainStandstillMs)}; at most ${String(round.connections)} connections`;

export function nodesTallyText(tally: NodesTally): string {
  const { rounds, asked } = tally;
  const names = [...new Set(asked.map(({ node }) => node))].sort();
  const isGood = ({ status }: Asked): boolean => status >= 200 && status < 300;
  return [
    ...rounds.map(roundText),
    ...names.map((name) => {
      const of = asked.filter(({ node }) => node === name);
      const good = of.filter(isGood);
      const slowest = Math.max(0, ...good.map(({ ms }) => ms));
      return `${name}: ${String(tally.brought.get(name) ?? 0)} mails brought; ${String(of.length)} requests, ${String(of.length - good.length)} without success; longest time away ${seconds(longestDowntime(of, isGood))}, slowest good answer ${seconds(slowest)}`;
    }),
    `connections at the same time: ${String(Math.max(0, ...rounds.map(({ connections }) => connections)))} (${String(tally.allowedConnections)} allowed); webhook calls repeated: ${String(tally.repeatedCalls)}`,
    `${String(rounds.length)} rounds, ${String(tally.losses)} nodes killed, stopped or cut off: ${String(tally.accepted)} accepted, ${String(tally.lost)} lost, ${String(tally.secondCopies)} second copies (${String(tally.allowedCopies)} allowed), ${String(tally.events)} events in order, seed ${String(tally.seed)}`,
  ].join('\n');
}
