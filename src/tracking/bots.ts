/** Distinguishes people from machines, by the rules of a data file (config/scanners.yaml): networks and agents. Pure. */
import { isIPv4, isIPv6, SocketAddress, type BlockList } from 'node:net';
import { addressList } from '../net/ip.ts';
import type { ScannerRule } from '../config/data-file.ts';
import type { Hit } from '../messages/delivery/delivery.ts';

export type Bot = NonNullable<Hit['bot']>;

export interface Visitor {
  ip: string | null;
  userAgent: string | null;
  /** HEAD asks for nothing that a person could see. */
  method: string;
}

/** Returns the name of the machine, or null for a person as far as can be seen. */
export type BotOf = (kind: 'open' | 'click', visitor: Visitor) => Bot | null;

interface Matcher {
  rule: ScannerRule;
  /** Null for a rule without one: most use the agent alone. */
  networks: BlockList | null;
  agents: readonly string[];
  exactly: ReadonlySet<string>;
}

export function createBotOf(rules: readonly ScannerRule[]): BotOf {
  const matchers = rules.map(matcherOf);
  return (kind, { ip, userAgent, method }) => {
    const agent = (userAgent ?? '').trim().toLowerCase();
    const address = addressOf(ip);
    for (const matcher of matchers) {
      const { rule } = matcher;
      if (rule.for !== 'both' && rule.for !== kind) continue;
      if (matches(matcher, agent) || isWithin(matcher, address)) return rule.bot;
    }
    return method === 'HEAD' ? 'scanner' : null;
  };
}

const matches = ({ agents, exactly }: Matcher, agent: string): boolean =>
  exactly.has(agent) || agents.some((part) => agent.includes(part));

function matcherOf(rule: ScannerRule): Matcher {
  const networks = rule.networks.length === 0 ? null : addressList(rule.networks);
  const lower = (texts: readonly string[]): string[] => texts.map((text) => text.toLowerCase());
  return { rule, networks, agents: lower(rule.agents), exactly: new Set(lower(rule.exactly)) };
}

const isWithin = ({ networks }: Matcher, address: SocketAddress | null): boolean =>
  networks !== null && address !== null && networks.check(address);

/** Makes the address once for all rules: each is an object of the runtime, which is expensive to collect. */
function addressOf(ip: string | null): SocketAddress | null {
  if (ip === null) return null;
  if (isIPv4(ip)) return new SocketAddress({ address: ip, family: 'ipv4' });
  return isIPv6(ip) ? new SocketAddress({ address: ip, family: 'ipv6' }) : null;
}
