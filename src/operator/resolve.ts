/** The operation that explains where mail for a domain goes: hosts, lane, TLS policy, source, limits. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { TlsaRecord } from '../net/resolver.ts';
import { parseMailbox } from '../mail/address.ts';
import type { OperatorDeps, ResolvedDomain } from './deps.ts';
import { serverRoute } from './server-route.ts';

export interface ResolveRecord {
  object: 'resolution';
  domain: string;
  /** `mx`, `smarthost`, `simulator`, `discard`, `hold`, or `nowhere` with the reason in `problem`. */
  route: string;
  problem: string | null;
  /** The lane its mail waits in. */
  lane: string | null;
  operator: string | null;
  hosts: {
    name: string;
    port: number;
    preference: number | null;
    addresses: string[];
    tls: string;
    policy: string;
    /** The TLSA records that its certificate has to match, as in a zone file; none if DANE does not apply. */
    tlsa: string[];
  }[];
  sts: { mode: string; mx: readonly string[]; max_age: number } | null;
  /** The next source of the default pool, or null if the system chooses the address. */
  source: string | null;
  limits: { connections: number; per_minute: number | null; messages_per_connection: number } | null;
}

async function resolutionOf({ mta, config }: OperatorDeps, domain: string): Promise<ResolveRecord> {
  const resolved = await mta.resolve(domain);
  const { destination } = resolved;
  const nothing = { lane: null, operator: null, hosts: [], sts: null, source: null, limits: null };
  const head = { object: 'resolution' as const, domain };
  if (destination.kind === 'nowhere' || destination.kind === 'unresolved') {
    const { kind, enhanced, text } = destination.route;
    return { ...head, route: 'nowhere', problem: [enhanced, text ?? kind].filter(Boolean).join(' '), ...nothing };
  }
  if (destination.kind !== 'site') return { ...head, route: destination.kind, problem: null, ...nothing };
  const { name: lane, operator = null, sts = null, relay } = destination;
  const { connection, lane: most } = config.delivery;
  return {
    ...head,
    route: relay === null ? 'mx' : 'smarthost',
    problem: null,
    lane,
    operator: operator?.name ?? null,
    hosts: destination.hosts.map((host, at) => hostRecord(host, resolved.needs[at])),
    sts: sts === null ? null : { mode: sts.mode, mx: sts.mx, max_age: sts.maxAge },
    source: resolved.lane?.source ?? null,
    limits: {
      connections: resolved.lane?.limit ?? Math.min(most.initialConcurrency, operator?.maxConnections ?? Infinity),
      per_minute: resolved.lane?.perMinute ?? null,
      messages_per_connection: operator?.messagesPerConnection ?? connection.maxMessages,
    },
  };
}

export const resolveOperations = {
  resolve: serverRoute({
    body: z.strictObject({ domain: z.string().min(1).max(253) }),
    async run(deps, { domain: written }): Promise<ResolveRecord & { node: string }> {
      const parsed = parseMailbox(`x@${written.replace(/\.$/, '')}`);
      // Other texts, such as an address, would look like a domain that DNS does not have.
      if (parsed.kind === 'bad')
        throw new Problem('invalid_field', `not a domain name: ${parsed.why}`, { field: 'domain' });
      const { domain } = parsed.mailbox;
      const owner = deps.owners.ownerOf(domain);
      return { ...(await resolutionOf(deps, domain)), node: owner?.name ?? deps.nodes.name };
    },
  }),
};

type Hosts = Extract<ResolvedDomain['destination'], { kind: 'site' }>['hosts'];

function hostRecord(
  { name, port, preference, addresses }: Hosts[number],
  need: ResolvedDomain['needs'][number] | undefined,
): ResolveRecord['hosts'][number] {
  const place = { name, port, preference: preference ?? null, addresses: addresses.map(({ ip }) => ip) };
  if (need === undefined || need.kind === 'refused')
    return { ...place, tls: 'never: no mail goes there', policy: need?.text ?? '', tlsa: [] };
  const { mode, verify, policy, tlsa } = need.need;
  return { ...place, tls: verify === 'no' ? mode : `${mode}, verified`, policy, tlsa: tlsa.map(zoneText) };
}

const zoneText = ({ usage, selector, matchingType, certificate }: TlsaRecord): string =>
  `${[usage, selector, matchingType].map(String).join(' ')} ${certificate.toString('hex')}`;
