/** Operations about the installation: its certificate, backups and books, its nodes, and where mail for a domain goes. */
import { balance } from '../messages/store/books.ts';
import { each, flag, many, maybe, maybeWhole, ofKind, text, time, whole } from '../api/record-schema.ts';
import { backupState } from '../backup/folder.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { certificateFacts, type CertificateState } from '../config/certificate.ts';
import { serverRoute, storeRoute, type OperatorDeps, type StoreDeps } from './server-route.ts';
import { z } from 'zod';
import { Problem, notFound, invalid } from '../base/problem.ts';
import type { TlsaRecord } from '../net/resolver.ts';
import { parseMailbox } from '../mail/address.ts';
import type { Resolved } from '../mta/lane-reports.ts';
import type { Host } from '../mta/sites/sites.ts';
import type { NodeRecord, Nodes } from '../storage/nodes.ts';
import { deliveryStatuses } from '../storage/tables.ts';
import { takersOf } from '../storage/owners.ts';

const nodeArgument = z.string().min(1).max(100);
const kept = ['epoch', 'name', 'state', 'version'];

const Node = ofKind('node', {
  epoch: whole(),
  name: text(),
  state: z.enum(['leading', 'running', 'draining', 'silent', 'command']),
  leads: flag('True if it does the chores. One that drains still leads until it is stopped.'),
  /** True if it takes mail and webhook calls: it has the role `delivery`, and it is not drained, or all others that deliver are too. */
  delivers: flag(),
  version: text(),
  ...each(time(), 'since', 'last_sign_of_life_at'),
  this: flag('True for the node that answers.'),
});
type Node = z.infer<typeof Node>;

const Resolution = ofKind('resolution', {
  domain: text(),
  route: text('`mx`, `smarthost`, `simulator`, `discard`, `hold`, or `nowhere` with the reason in `problem`.'),
  ...each(maybe(), 'problem', 'lane', 'operator'),
  hosts: many(
    z.object({
      ...each(text(), 'name', 'tls', 'policy'),
      port: whole(),
      preference: maybeWhole(),
      addresses: many(text()),
      tlsa: many(text()).describe('As in a zone file: what its certificate has to match; none if DANE does not apply.'),
    }),
  ),
  sts: z.object({ mode: text(), mx: many(text()), max_age: whole() }).nullable(),
  source: maybe('The next source of the default pool, or null if the system chooses the address.'),
  limits: z.object({ connections: whole(), per_minute: maybeWhole(), messages_per_connection: whole() }).nullable(),
  node: text(),
});
type Resolution = Omit<z.infer<typeof Resolution>, 'node'>;

const Certificate = ofKind('certificate', {
  ...each(text(), 'file', 'issuer'),
  names: many(text()),
  self_signed: flag(),
  ...each(time(), 'not_before', 'not_after'),
  days_left: whole(),
  error: maybe('The present files cannot be used, and this certificate is an older one.'),
});

const BackupState = ofKind('backup_state', {
  dir: text(),
  count: whole(),
  newest: z.object({ name: text(), created_at: time(), bytes: whole(), keys: flag() }).nullable(),
  error: maybe(),
});

export const serverStateOperations = {
  books: storeRoute({
    answer: z.object({
      balanced: flag(),
      accepted: whole(),
      lines: many(z.object({ status: z.enum(deliveryStatuses), ...each(whole(), 'counted', 'found') })),
      faults: many(text()),
    }),
    async run({ db }) {
      return await balance(db.reader);
    },
  }),
  /** Reports on the backups, for the dashboard; null on PostgreSQL, whose backups are its own. `posthorn backup create` makes them, in a separate process. */
  'backup.state': storeRoute({
    answer: BackupState.nullable(),
    async run({ config, clock }) {
      if (isPostgresUrl(config.storage.url)) return null;
      const state = await backupState(config.backup.dir, clock.now());
      const head = { object: 'backup_state' as const, dir: state.dir };
      if (state.kind === 'unreadable') return { ...head, count: 0, newest: null, error: state.text };
      const { count, newest } = state;
      const record =
        newest === null
          ? null
          : {
              name: newest.name,
              created_at: rfc3339(newest.at),
              bytes: newest.bytes,
              keys: newest.hasKeys,
            };
      return { ...head, count, newest: record, error: null };
    },
  }),
  /** Reads the files of the certificate now. The server itself notes a change in the audit. */
  'tls.reload': serverRoute({
    answer: Certificate,
    run({ clock, certificate }) {
      certificate.look();
      return Promise.resolve(certificateRecord(certificate.state(), clock.now()));
    },
  }),
  resolve: serverRoute({
    answer: Resolution,
    body: z.strictObject({ domain: z.string().min(1).max(253) }),
    async run(deps, { domain: written }) {
      const parsed = parseMailbox(`x@${written.replace(/\.$/, '')}`);
      // Other texts, such as an address, would look like a domain that DNS does not have.
      if (parsed.kind === 'bad') throw invalid('domain', `not a domain name: ${parsed.why}`);
      const { domain } = parsed.mailbox;
      const owner = deps.owners.ownerOf(domain);
      return { ...(await resolutionOf(deps, domain)), node: owner?.name ?? deps.nodes.name };
    },
  }),
  /** Returns the servers and the commands that write by themselves, the one that leads first. */
  'nodes.list': storeRoute({
    answer: z.object({ data: many(Node) }),
    run: ({ nodes, clock }) =>
      Promise.resolve({ data: nodes === null ? [] : nodes.list().map((one) => nodeRecord(one, nodes, clock.now())) }),
  }),
  /** Has a node give its mail and webhooks to the others, refuse new SMTP sessions and answer 503 at /readyz; it still answers requests. */
  'nodes.drain': storeRoute({
    answer: Node,
    act: { says: 'drained the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument }),
    run: (deps, { node }, act) => setDraining(deps, node, true, (record) => act.on({ object: node, after: record })),
  }),
  'nodes.resume': storeRoute({
    answer: Node,
    act: { says: 'ended the draining of the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument }),
    run: (deps, { node }, act) => setDraining(deps, node, false, (record) => act.on({ object: node, after: record })),
  }),
  /** Ends a node: what it writes fails from then on, and its process stops when it notices. The others take over its mail. */
  'nodes.remove': storeRoute({
    answer: Node,
    act: { says: 'removed the node {name}', type: 'node', named: 'name', keeps: kept },
    body: z.strictObject({ node: nodeArgument, force: z.boolean().optional() }),
    async run(deps, { node, force = false }, act) {
      act.on({ object: node });
      const { nodes, found } = findNode(deps, node);
      const record = nodeRecord(found, nodes, deps.clock.now());
      act.on({ before: record });
      if (found.epoch === nodes.epoch)
        throw new Problem('invalid_state', `${found.name} is the node that you ask: stop it instead`, {
          field: 'node',
        });
      if (record.state !== 'silent' && !force)
        throw new Problem(
          'invalid_state',
          `the node ${found.name} lives: stop it there, or remove it by force, which ends what it is doing`,
          { field: 'node' },
        );
      await nodes.remove(found.epoch);
      return record;
    },
  }),
};

function certificateRecord({ file, cert, fault }: CertificateState, now: number) {
  const { names, issuer, isSelfSigned, notBefore, notAfter } = certificateFacts(cert);
  return {
    object: 'certificate' as const,
    file,
    names,
    issuer,
    self_signed: isSelfSigned,
    not_before: rfc3339(notBefore),
    not_after: rfc3339(notAfter),
    days_left: Math.floor((notAfter - now) / DAY_MS),
    error: fault,
  };
}

async function resolutionOf({ mta, config }: OperatorDeps, domain: string): Promise<Resolution> {
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
    source: report?.source ?? null,
    limits: {
      connections: report?.limit ?? Math.min(most.initialConcurrency, operator?.maxConnections ?? Infinity),
      per_minute: report?.perMinute ?? null,
      messages_per_connection: operator?.messagesPerConnection ?? connection.maxMessages,
    },
  };
}

function hostRecord({ name, port, preference, addresses }: Host, need: Resolved['needs'][number] | undefined) {
  const place = { name, port, preference: preference ?? null, addresses: addresses.map(({ ip }) => ip) };
  if (need === undefined || need.kind === 'refused')
    return { ...place, tls: 'never: no mail goes there', policy: need?.text ?? '', tlsa: [] };
  const { mode, verify, policy, tlsa } = need.need;
  return { ...place, tls: verify === 'no' ? mode : `${mode}, verified`, policy, tlsa: tlsa.map(zoneText) };
}

const zoneText = ({ usage, selector, matchingType, certificate }: TlsaRecord): string =>
  `${[usage, selector, matchingType].map(String).join(' ')} ${certificate.toString('hex')}`;

/** Three signs of life are missing. */
const SILENT_AFTER_MS = 6000;

async function setDraining(
  deps: StoreDeps,
  node: string,
  isDraining: boolean,
  note: (record: object) => void,
): Promise<Node> {
  note({ name: node });
  const { nodes, found } = findNode(deps, node);
  await nodes.setDraining(found.epoch, isDraining);
  const record = nodeRecord({ ...found, isDraining }, nodes, deps.clock.now());
  note(record);
  return record;
}

/** Finds a node by its name or epoch. Throws a `Problem` if there is none, or if there can be only one. */
function findNode({ nodes, db }: StoreDeps, wanted: string): { nodes: Nodes; found: NodeRecord } {
  if (nodes === null || db.engine === 'sqlite')
    throw new Problem(
      'invalid_state',
      'a database of SQLite has one server, so that this is for PostgreSQL: stop the server instead',
    );
  const servers = nodes.list().filter(({ isCommand }) => !isCommand);
  const found = servers.find(({ name, epoch }) => name === wanted || String(epoch) === wanted);
  if (found === undefined)
    throw notFound('node', `there is no node ${JSON.stringify(wanted)}: see \`posthorn nodes list\``);
  return { nodes, found };
}

function nodeRecord(node: NodeRecord, nodes: Pick<Nodes, 'epoch' | 'list'>, now: number): Node {
  return {
    object: 'node',
    epoch: node.epoch,
    name: node.name,
    state: nodeState(node),
    leads: node.isLeader,
    delivers: epochsThatDeliver(nodes.list()).has(node.epoch),
    version: node.version,
    since: rfc3339(node.since),
    last_sign_of_life_at: rfc3339(now - node.quietMs),
    this: node.epoch === nodes.epoch,
  };
}

/** Returns the nodes that take mail and webhook calls now. */
export const epochsThatDeliver = (all: readonly NodeRecord[]): ReadonlySet<number> =>
  new Set(takersOf(all.filter(({ isCommand }) => !isCommand)).map(({ epoch }) => epoch));

export function nodeState({ isCommand, isDraining, isLeader, quietMs }: NodeRecord): Node['state'] {
  if (isCommand) return 'command';
  if (quietMs >= SILENT_AFTER_MS) return 'silent';
  if (isDraining) return 'draining';
  return isLeader ? 'leading' : 'running';
}
