/** Lists what a person should look at, for the Overview and `posthorn status`. Facts are read here; a further kind of item is a rule in rules.ts. */
import { z } from 'zod';
import { listAccounts } from '../../accounts/account-store.ts';
import { many } from '../../api/record-schema.ts';
import { contentOf, operatorCaller } from '../../api/inside.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { DomainRecord } from '../../domains/domain-record.ts';
import type { SourceReport } from '../../messages/delivery/why.ts';
import { dialectOf } from '../../storage/sql.ts';
import type { AccountRow } from '../../storage/tables.ts';
import { backups, disk, settingsFault } from '../doctor/machine-checks.ts';
import { createMachine, verdictsOf, type Check, type Verdict } from '../doctor/probes.ts';
import { verdictsOnNodes } from '../doctor/store.ts';
import { heldMail, holdRecord, type HeldMail } from '../holds.ts';
import { readQueue, type WaitingDomain } from '../lanes.ts';
import { readListings } from '../listings.ts';
import { figuresOf, type Figures } from '../node-figures.ts';
import { lostSecrets } from '../sealed-secrets.ts';
import { serverRoute, type OperatorDeps } from '../server-route.ts';
import { sourceFigures } from '../sources.ts';
import { accountArgument, accountNamed } from '../team/accounts.ts';
import {
  accountRules,
  need,
  serverRules,
  type AccountFacts,
  type Deferred,
  Need,
  type NeedFacts,
  type ServerFacts,
} from './rules.ts';

export const needOperations = {
  /** Returns what a person should look at. `server`: false leaves out what concerns the server, which only administrators see. */
  needs: serverRoute({
    answer: z.object({ data: many(Need) }),
    scope: 'message:read',
    forMembers: { server: false },
    body: z.strictObject({ account: accountArgument, server: z.boolean().optional() }),
    async run(deps, { account, server = true }) {
      const rows = account === undefined ? await listAccounts(deps) : [await accountNamed(deps, account)];
      const ofServer = server ? await serverFacts(deps) : null;
      const accounts: AccountFacts[] = [];
      // One after the other: an account takes the time of a few reads.
      for (const row of rows) accounts.push(await accountFacts(deps, row));
      return { data: needsOf({ now: deps.clock.now(), server: ofServer, accounts }) };
    },
  }),
};

/** Kinds of items that people made themselves, and undo themselves. */
const own: ReadonlySet<string> = new Set(['held_by_person', 'limited_by_person', 'stream_pause', 'account_pause']);
const levels = { red: 1, amber: 2, grey: 3 } as const;
const rankOf = ({ kind, level }: Need): number => (own.has(kind) ? 0 : levels[level]);

/** Returns the items: first what people have paused, then what stands still, then what has the most mail. */
export function needsOf(facts: NeedFacts): Need[] {
  const { server, accounts } = facts;
  const named = (one: Need, { name }: AccountFacts): Need =>
    accounts.length === 1 ? one : { ...one, message: `${name}: ${one.message}` };
  const found = [
    ...(server === null ? [] : serverRules.flatMap((rule) => [...rule(server, facts)].map(need))),
    ...accounts.flatMap((of) =>
      accountRules.flatMap((rule) => [...rule(of, facts)].map((one) => named(need(one), of))),
    ),
  ];
  return found.sort((a, b) => rankOf(a) - rankOf(b) || b.mails - a.mails || a.message.localeCompare(b.message));
}

/** The facts that a node knows of its machine. */
interface MachineFacts {
  findings: readonly { check: string; status: 'warning' | 'failed'; why: string }[];
  closedPorts: readonly Omit<ServerFacts['closedPorts'][number], 'node'>[];
  certificate: { file: string; until: number } | null;
}

/** The needs of a node's machine: room, backups, settings that are not in force, ports, the certificate. */
export const machineFigures: Figures<
  Pick<OperatorDeps, 'config' | 'clock' | 'settings' | 'listeners'>,
  MachineFacts
> = {
  name: 'machine',
  everyMs: 30_000,
  async read({ config, clock, settings, listeners }) {
    const machine = createMachine(config);
    const [state, diskFound, backupsFound] = await Promise.all([
      machine.backups(clock.now()),
      found('disk', disk({ config, machine })),
      found('backups', backups({ machine, clock, config })),
    ]);
    // A server without any backup may be copied by another tool: the doctor mentions that.
    const hasBackups = state !== null && (state.kind === 'unreadable' || state.newest !== null);
    const certificate = machine.certificate();
    const fault = settingsFault(settings());
    const facts: MachineFacts = {
      findings: [
        ...diskFound,
        ...(fault === null ? [] : faultsAmong('settings', [fault])),
        ...(hasBackups ? backupsFound : []),
      ],
      closedPorts: listeners()
        .filter(({ fault }) => fault !== null)
        .map(({ name, port, fault }) => ({
          name,
          port,
          error: fault?.code ?? null,
          since: rfc3339(fault?.since ?? null),
        })),
      certificate: certificate.kind === 'read' ? { file: certificate.file, until: certificate.until } : null,
    };
    return [['', facts]];
  },
};

const found = async (name: string, check: Check): Promise<MachineFacts['findings']> =>
  faultsAmong(name, await verdictsOf(check));

const faultsAmong = (check: string, verdicts: readonly Verdict[]): MachineFacts['findings'] =>
  verdicts.flatMap(({ status, why }) => (status === 'ok' ? [] : [{ check, status, why }]));

async function serverFacts(deps: OperatorDeps): Promise<ServerFacts> {
  const { config, clock, limits, db, keyring, nodes } = deps;
  const [held, { domains }, sources, machines, listings, lost] = await Promise.all([
    heldMail(deps),
    readQueue(deps),
    figuresOf(deps, sourceFigures),
    figuresOf(deps, machineFigures),
    readListings(db, clock.now()),
    lostSecrets({ read: db.reader, keyring }),
  ]);
  const nodeOf = (name: string): string | null => (nodes.hasOthers ? name : null);
  return {
    held: await withAccountNames(deps, held),
    set: limits.listByHand().map(holdRecord),
    domains,
    blocks: blocksOf(sources.map(({ node, value }) => ({ node: nodeOf(node), sources: value }))),
    dnsTrouble: await dnsTrouble(deps, domains),
    routes: config.delivery.routes,
    closedPorts: machines.flatMap(({ node, value }) =>
      value.closedPorts.map((port) => ({ ...port, node: nodeOf(node) })),
    ),
    certificates: machines.flatMap(({ node, value: { certificate } }) =>
      certificate === null ? [] : [{ ...certificate, node: nodeOf(node) }],
    ),
    findings: [
      ...machines.flatMap(({ node, value }) => value.findings.map((one) => ({ ...one, node: nodeOf(node) }))),
      ...(lost === null ? [] : [{ check: 'secret_key', status: 'failed', why: lost, node: null } as const]),
      ...(await found('nodes', verdictsOnNodes(nodes.list()))).map((one) => ({ ...one, node: null })),
    ],
    listed: listings.checks.filter(({ state: now }) => now === 'listed').map(({ ip, list }) => ({ ip, list })),
  };
}

/** Lists the blocks of sources. A named source that several nodes use has each block once. */
function blocksOf(nodes: readonly { node: string | null; sources: readonly SourceReport[] }[]): ServerFacts['blocks'] {
  const blocks = new Map<string, ServerFacts['blocks'][number]>();
  for (const { node, sources } of nodes)
    for (const { name, blocks: own } of sources)
      for (const { site, since, until, reply } of own)
        blocks.set(`${name ?? `~${node ?? ''}`} ${site}`, {
          source: name,
          node,
          site,
          since: rfc3339(since),
          until: rfc3339(until),
          reply,
        });
  return [...blocks.values()];
}

/** Names the account whose pause, or the pause of whose stream, keeps mail back: the counts have ids only. */
async function withAccountNames(deps: OperatorDeps, held: readonly HeldMail[]): Promise<readonly HeldMail[]> {
  const isPause = ({ by }: HeldMail): boolean => by === 'account_pause' || by === 'stream_pause';
  if (!held.some(isPause)) return held;
  const names = new Map((await listAccounts(deps)).map(({ id, name }) => [id, name]));
  return held.map((one) => {
    if (!isPause(one)) return one;
    const account = `the account ${names.get(one.account_id ?? '') ?? one.target}`;
    const message =
      one.by === 'account_pause'
        ? `Sending is paused for ${account}.`
        : `The stream ${one.target.slice(one.target.indexOf('/') + 1)} of ${account} is paused.`;
    return { ...one, message };
  });
}

/** The most recipient domains whose DNS is looked at, those with the most mail first. */
const MOST_UNRESOLVED = 100;

async function dnsTrouble(
  { laneFacts }: Pick<OperatorDeps, 'laneFacts'>,
  domains: readonly WaitingDomain[],
): Promise<ServerFacts['dnsTrouble']> {
  const unresolved = domains.filter(({ lane }) => lane === '~unresolved').slice(0, MOST_UNRESOLVED);
  const facts = await laneFacts(unresolved.map(({ domain }) => ({ domain, account: '' })));
  return unresolved.flatMap(({ domain, waiting }, at) => {
    const wait = facts[at]?.waits.find(({ reason }) => reason === 'dns_trouble');
    return wait === undefined ? [] : [{ domain, waiting, message: wait.message, since: rfc3339(wait.since) }];
  });
}

/** The most domains, webhooks and keys that are looked at. */
const MOST = '100';

async function accountFacts(deps: OperatorDeps, account: AccountRow): Promise<AccountFacts> {
  const asking = { caller: operatorCaller(account) };
  const list = async <Row>(operation: string, query: Record<string, string> = {}): Promise<Row[]> => {
    const reply = await deps.inside.ask(asking, operation, { query: { limit: MOST, ...query } });
    return (contentOf(reply) as { data: Row[] }).data;
  };
  const [domains, webhooks, keys, deferred] = await Promise.all([
    list<DomainRecord>('listDomains', { status: 'any' }),
    list<AccountFacts['webhooks'][number]>('listWebhooks'),
    list<AccountFacts['keys'][number]>('listKeys'),
    deferredMail(deps, account.id),
  ]);
  return { id: account.id, name: account.name, domains, webhooks, keys, deferred };
}

/** The newest deferred messages that are grouped; older ones are in the queue's page. */
const MOST_DEFERRED = 2000;

/** Groups deferred mail by recipient domain and answer, from the partial index of messages by status. */
async function deferredMail(deps: OperatorDeps, account: string): Promise<Deferred[]> {
  const { db } = deps;
  const rows = await db.reader.raw<
    { domain: string; code: number | null; enhanced: string | null; reply: string | null; waiting: number }[]
  >(
    `SELECT d.domain, d.smtp_code AS code, d.enhanced_code AS enhanced, MAX(d.smtp_reply) AS reply, COUNT(*) AS waiting FROM (
       SELECT id FROM messages ${dialectOf(db.reader).using('messages_apart')} WHERE account_id = ? AND status = 'deferred' AND
         status IN ('scheduled', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'canceled')
       ORDER BY id DESC LIMIT ?) m
     JOIN deliveries d ON d.message_id = m.id
     WHERE d.status = 'deferred' AND d.due_at IS NOT NULL AND d.held_by IS NULL AND d.domain <> '~simulator'
     GROUP BY d.domain, d.smtp_code, d.enhanced_code ORDER BY waiting DESC LIMIT 100`,
    [account, MOST_DEFERRED],
  );
  if (rows.length === 0) return [];
  return rows.map(({ domain, code, enhanced, reply, waiting }) => ({
    lane: deps.mta.reports.laneOf(domain),
    domain,
    code: causeIn(reply ?? '') ?? enhanced ?? (code === null ? 'no answer' : String(code)),
    waiting,
    reply: `${code === null || reply?.startsWith(String(code)) === true ? '' : `${String(code)} `}${reply ?? 'none'}`,
  }));
}

/** Returns the name that a large receiver gives the cause: `TSS04` in `[TSS04]`, `S3150` in `(S3150)`. */
const causeIn = (reply: string): string | null => /[[(]([A-Z]{1,5}\d{2,6})[\])]/.exec(reply)?.[1] ?? null;
