/**
 * `npm run torture -- nodes`: three servers on one PostgreSQL with a synchronous standby, under load by HTTP and SMTP at all of them, with mail to
 * many domains of one site. In each round one fault: nodes are killed, paused, cut from the database or the mail hosts, drained or restarted,
 * a clock is moved, or the database crashes, fails over or loses its standby. No mail that was answered with 202 or 250 may be missing; second copies are allowed only for what was on the wire
 * at a lost node; a reader by cursor must see each event once and in order, and each webhook endpoint at least once; the site's connections
 * keep to its limit; the books must balance; the waiting mail of every domain must move again within 15 seconds; and the nodes that a fault
 * does not meet must answer throughout.
 *
 *   --rounds N     how many faults
 *   --seed N       their order, targets and times
 *   --only WORDS   only faults with these words in their names
 *   --apart        nodes that cannot see each other's processes
 *   --from DIR     the nodes run another built tree at first, and are replaced one by one before the rounds; one is killed meanwhile
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { until } from '../bench/peers.ts';
import { startClients, type Clients } from './node-clients.ts';
import { NodeCluster, type TortureNode } from './node-cluster.ts';
import { faultPlan, faults, nodesHit, type Fault } from './node-faults.ts';
import { startHooks } from './node-hooks.ts';
import { judgeAnswers, judgeCalls, judgeCopies, judgeEvents, type Hit } from './node-judge.ts';
import { SiteWatch } from './node-site.ts';
import { longestStandstill, nodesBefore, waitingMails } from './node-standstill.ts';
import { nodesTallyText, roundText, type Round } from './node-tally.ts';
import { upgrade } from './node-upgrade.ts';
import { randomFrom } from './random.ts';
import { startReceiver } from './receiver.ts';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '16' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    apart: { type: 'boolean', default: false },
    from: { type: 'string' },
  },
});
const SEED = Number(options.seed);
const NODES = 3;
/** Connections that the site allows; a node may have one before it knows of the others. */
const LIMIT = 8;
const DOMAINS = Array.from({ length: 24 }, (_, at) => `dest${String(at)}.test`);
const ENDPOINTS = 3;
/** The receiver answers a final dot so slowly, in ms, that the limit is reached while mail is made up for. */
const SLOWNESS_MS = { least: 20, most: 80 };
/** The exit code of a node that others have removed (docs/operating.md). */
const TAKEN_OVER = 69;
const CALM_MS = 1500;
const LOOK_MS = 250;
/** A domain whose mail stands still for longer was forgotten, and found by the sweep of every 30 seconds. */
const FORGOTTEN_MS = 28_000;
const WHOLE_MS = 120_000;
/** For one mail of what waits at the end, on a machine that has others to serve. */
const SLOWEST_MS = 50;
/** Connections that closed so long before a node was lost may have had an outcome that was not written. */
const UNWRITTEN_MS = 1000;

const root = mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-nodes-'));
chmodSync(root, 0o755);
const problems: string[] = [];
const random = randomFrom(SEED);
const played = faults.filter(({ name }) => name.includes(options.only ?? ''));
const plan = [...(options.from === undefined ? [] : [upgrade]), ...faultPlan(Number(options.rounds), random, played)];

const receiver = await startReceiver();
receiver.slowness = () => SLOWNESS_MS.least + Math.random() * (SLOWNESS_MS.most - SLOWNESS_MS.least);
const site = new SiteWatch(receiver);
const hooks = await startHooks(ENDPOINTS);
const env = {
  POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }),
  POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(LIMIT),
  POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s',
  POSTHORN_WEBHOOKS__ALLOW_HTTP: 'true',
  POSTHORN_WEBHOOKS__ALLOW_CIDRS: '["127.0.0.0/8"]',
};
const cluster = new NodeCluster(root, {
  env,
  areApart: options.apart,
  dir: options.from === undefined ? null : path.resolve(options.from),
});
const hits: Hit[] = [];
/** The answers, events and copies with their times, kept where there are problems. */
let trace: object = {};
let allowedCopies = 0;

async function targetOf(fault: Fault): Promise<TortureNode> {
  const [lot, leader] = [random(), await cluster.leader()];
  const found = fault.whom === 'leader' ? leader : cluster.nodes[Math.floor(lot * cluster.nodes.length)];
  if (found == null) throw new Error('no node leads');
  return found;
}

/** Plays one fault, waits until all is whole and every domain's mail arrives, and judges what the clients saw. */
async function playRound(fault: Fault, clients: Clients): Promise<Round> {
  await cluster.whole(WHOLE_MS);
  await sleep(CALM_MS);
  const target = await targetOf(fault);
  const hit = nodesHit(fault, cluster, target).map(({ name }) => name);
  const name = `${fault.name}${hit.length === 0 ? '' : ` (${hit.join(', ')})`}`;
  const problem = (text: string): void => void problems.push(`${name}: ${text}`);
  const from = performance.now();
  const firstAsked = clients.asked.length;
  const noted: Hit = { nodes: hit, from, to: Infinity };
  hits.push(noted);
  await fault.run({ cluster, target, random, site, problem });
  await cluster.whole(WHOLE_MS);
  const ended = performance.now();
  const isMadeUp = seldom(() => hasMadeUp(clients, ended));
  await until(isMadeUp, 'all mail that was accepted until the end of the fault', WHOLE_MS);
  const to = performance.now();
  for (const one of hit) {
    allowedCopies += site.openSince(one, from - UNWRITTEN_MS);
    site.find(one);
  }
  noted.to = to;
  const had = nodesBefore(site.arrivals, from);
  const nodes = longestStandstill(
    waitingMails(clients.accepted, site.arrivals, (domain) => had.get(domain) ?? ''),
    from,
    to,
  );
  if (nodes.ms > fault.withinMs)
    problem(`no mail to the domains of ${String(nodes.group)} arrived for ${String(Math.round(nodes.ms))} ms`);
  const domains = longestStandstill(waitingMails(clients.accepted, site.arrivals), from, to);
  if (domains.ms > FORGOTTEN_MS)
    problem(`no mail to ${String(domains.group)} arrived for ${String(Math.round(domains.ms))} ms`);
  judgeAnswers(fault, hit, clients.asked.slice(firstAsked), problem);
  const connections = site.takeMost();
  if (connections > LIMIT + NODES - 1) problem(`${String(connections)} connections at once`);
  return { name, nodeStandstillMs: nodes.ms, domainStandstillMs: domains.ms, connections };
}

/** Looks four times a second, so that looking takes nothing from what is looked at. */
const seldom = (look: () => boolean | Promise<boolean>) => async (): Promise<boolean> => {
  await sleep(LOOK_MS);
  return look();
};

/** Returns whether all mail has arrived that was accepted until then. */
const hasMadeUp = ({ accepted }: Clients, until: number): boolean =>
  [...accepted].every(([mark, { at }]) => at > until || receiver.copies.has(mark));

interface Books {
  balanced: boolean;
  lines: { status: string; found: number }[];
  faults: string[];
}

/** Returns whether no mail waits any more. Throws if the books do not balance. */
function finished({ balanced, faults, lines }: Books): boolean {
  if (!balanced) throw new Error(faults.join('; '));
  const waiting = ['queued', 'sent', 'deferred', 'scheduled'];
  return lines.every(({ status, found }) => found === 0 || !waiting.includes(status));
}

const noteProblem = (error: unknown): void => void problems.push(String(error));

/** Lets everything finish. */
async function settle(clients: Clients): Promise<void> {
  await cluster.whole(WHOLE_MS);
  await clients.stopSending();
  const missing = [...clients.accepted.keys()].filter((id) => !receiver.copies.has(id)).length;
  await until(
    seldom(() => hasMadeUp(clients, Infinity)),
    'every accepted mail',
    90_000 + missing * SLOWEST_MS,
  ).catch(noteProblem);
  const isFinished = async (): Promise<boolean> => finished((await cluster.command('books', '--json')) as Books);
  await until(seldom(isFinished), 'the end of the queue', 90_000).catch(noteProblem);
  await clients.stopReading();
  const delivered = clients.accepted.size;
  await until(() => hooks.calls.every(({ size }) => size >= delivered), 'every webhook call', 60_000).catch(
    noteProblem,
  );
}

/** Makes the key, the sending domain and the webhook endpoints, and starts the clients. */
async function begin(): Promise<Clients> {
  await cluster.start(NODES);
  const scopes = 'send,event:read,webhook';
  const made = await cluster.command('keys', 'create', '--name', 't', '--scopes', scopes, '--json');
  await cluster.command('domains', 'add', 'torture.test', '--trust', '--json');
  const { key } = made as { key: string };
  for (const url of hooks.urls) {
    const { status } = await fetch(`http://127.0.0.1:${String(cluster.nodes[0]?.httpPort)}/v1/webhooks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ url, events: ['delivered'], concurrency: 4 }),
    });
    if (status !== 201) throw new Error(`a webhook endpoint could not be made: ${String(status)}`);
  }
  const clients = startClients({
    nodes: cluster.nodes,
    key,
    random: Math.random,
    domains: DOMAINS,
    httpSenders: NODES * 2,
    smtpSenders: 1,
  });
  await until(() => site.arrivals.length > DOMAINS.length, 'the first mails', 60_000);
  return clients;
}

async function run(): Promise<void> {
  const clients = await begin();
  const rounds: Round[] = [];
  for (const [at, fault] of plan.entries()) {
    const round = await playRound(fault, clients).catch((error: unknown) => {
      problems.push(`${fault.name}: ${String(error)}`);
      return null;
    });
    if (round === null) break;
    rounds.push(round);
    console.error(`${String(clients.accepted.size)} accepted; ${roundText(round, at)}`);
  }
  await settle(clients).catch(noteProblem);
  const { accepted, events, asked } = clients;
  const { primary } = cluster.pair;
  const lost = [...accepted.keys()].filter((id) => !receiver.copies.has(id));
  if (lost.length > 0) problems.push(`${String(lost.length)} accepted mails are lost: ${lost.slice(0, 5).join(' ')}`);
  await judgeEvents(primary, events, noteProblem);
  const repeatedCalls = await judgeCalls(primary, hooks.calls, noteProblem);
  const secondCopies = await judgeCopies(primary, { arrivals: site.arrivals, accepted, hits }, noteProblem);
  if (secondCopies > allowedCopies)
    problems.push(`${String(secondCopies)} second copies, ${String(allowedCopies)} are allowed`);
  const brought = new Map(cluster.nodes.map(({ name }) => [name, site.broughtBy(name)]));
  for (const [name, mails] of brought) if (mails === 0) problems.push(`${name} brought no mail`);
  trace = { accepted: [...accepted], arrivals: site.arrivals, hits };
  const counts = { accepted: accepted.size, lost: lost.length, secondCopies, allowedCopies, repeatedCalls };
  const losses = hits.reduce((sum, { nodes }) => sum + nodes.length, 0);
  const limits = { losses, allowedConnections: LIMIT + NODES - 1 };
  console.log(nodesTallyText({ seed: SEED, rounds, ...counts, ...limits, brought, events: events.length, asked }));
}

try {
  await run();
} finally {
  await cluster.stop();
  receiver.stop();
  hooks.stop();
  const ends = cluster.nodes.flatMap((node) => node.ends);
  for (const how of ends) if (how !== 0 && how !== TAKEN_OVER) problems.push(`a node ended with ${String(how)}`);
}
if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  writeFileSync(path.join(root, 'trace.json'), JSON.stringify(trace));
  console.error(`folder kept: ${root}`);
  process.exitCode = 1;
} else rmSync(root, { recursive: true, force: true });
