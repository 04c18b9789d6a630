/** The operation that explains where mail for a domain goes: hosts, lane, TLS policy, source, limits. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { TlsaRecord } from '../net/resolver.ts';
import { parseMailbox } from '../mail/address.ts';
import type { Resolved } from '../mta/lane-reports.ts';
import type { Host } from '../mta/sites/sites.ts';
import type { OperatorDeps } from './deps.ts';
import { serverRoute } from './server-route.ts';

/** `route`: `mx`, `smarthost`, `simulator`, `discard`, `hold`, or `nowhere` with the reason in `problem`. */
async function resolutionOf({ mta, config }: OperatorDeps, domain: string) {
  const { destination, needs, lane: report } = await mta.reports.resolve(domain);
  const nothing = { lane: null, operator: null, hosts: [], sts: null, source: null, limits: null };
  const head = { object: 'resolution' as const, domain };
  if (destination.kind === 'nowhere' || destination.kind === 'unresolved') {
    const { route } = destination;
    const problem = 'enhanced' in route ? `${route.enhanced} ${route.text}` : 'text' in route ? route.text : route.kind;
    return { ...head, route: 'nowhere', problem, ...nothing };
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
    hosts: destination.hosts.map((host, at) => hostRecord(host, needs[at])),
    sts: sts === null ? null : { mode: sts.mode, mx: sts.mx, max_age: sts.maxAge },
    /** The next source of the default pool, or null if the system chooses the address. */
    source: report?.source ?? null,
    limits: {
      connections: report?.limit ?? Math.min(most.initialConcurrency, operator?.maxConnections ?? Infinity),
      per_minute: report?.perMinute ?? null,
      messages_per_connection: operator?.messagesPerConnection ?? connection.maxMessages,
    },
  };
}

export const resolveOperations = {
  resolve: serverRoute({
    body: z.strictObject({ domain: z.string().min(1).max(253) }),
    async run(deps, { domain: written }) {
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

function hostRecord({ name, port, preference, addresses }: Host, need: Resolved['needs'][number] | undefined) {
  const place = { name, port, preference: preference ?? null, addresses: addresses.map(({ ip }) => ip) };
  if (need === undefined || need.kind === 'refused')
    return { ...place, tls: 'never: no mail goes there', policy: need?.text ?? '', tlsa: [] };
  const { mode, verify, policy, tlsa } = need.need;
  // The TLSA records that its certificate has to match, as in a zone file; none if DANE does not apply.
  return { ...place, tls: verify === 'no' ? mode : `${mode}, verified`, policy, tlsa: tlsa.map(zoneText) };
}

const zoneText = ({ usage, selector, matchingType, certificate }: TlsaRecord): string =>
  `${[usage, selector, matchingType].map(String).join(' ')} ${certificate.toString('hex')}`;
