/**
 * `npm run torture:nodes`: three servers on one PostgreSQL with a synchronous standby, under load by HTTP and SMTP at all of them. In each
 * round one fault: a node is killed, paused or cut from the database, the database crashes or fails over, or all nodes restart in turn. No
 * mail that was answered with 202 or 250 may be missing; second copies are allowed only for what was on the wire at a lost leader; a reader
 * by cursor must see each event once and in order; the books must balance; waiting mail must move again within 15 seconds; and the nodes
 * that a fault does not meet must answer throughout.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { until } from '../bench/peers.ts';
import { startClients, type Asked, type Clients } from './node-clients.ts';
import { NodeCluster, type TortureNode } from './node-cluster.ts';
import { faultPlan, type Fault } from './node-faults.ts';
import { nodesTallyText, type Round } from './node-tally.ts';
import { randomFrom } from './random.ts';
import { startReceiver } from './receiver.ts';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
  },
});
const SEED = Number(options.seed);
const NODES = 3;
const CONNECTIONS = 10;
/** Waiting mail must move again so soon after its leader died. */
const TAKEOVER_MS = 15_000;
/** The exit code of a node that others have removed (docs/operating.md). */
const TAKEN_OVER = 69;
const CALM_MS = 1500;
const WHOLE_MS = 120_000;
/** For one mail of what waits at the end, on a machine that has others to serve. */
const SLOWEST_MS = 50;

const root = mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-nodes-'));
chmodSync(root, 0o755);
const problems: string[] = [];
const random = randomFrom(SEED);
const plan = faultPlan(Number(options.rounds), random).map((fault) => ({ fault, lot: random() }));

const receiver = await startReceiver();
const arrivals: number[] = [];
receiver.onMoment = (moment) => {
  if (moment === 'after the dot') arrivals.push(performance.now());
  return false;
};
const cluster = new NodeCluster(root, {
  POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }),
  POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(CONNECTIONS),
  POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s',
});
let allowedCopies = 0;

/** Returns the longest time without an arrival since `from`. */
function longestGap(from: number): number {
  const times = [from, ...arrivals.filter((at) => at >= from)];
  return Math.max(...times.map((at, place) => at - (times[place - 1] ?? at)));
}

function targetOf(fault: Fault, leader: TortureNode, lot: number): TortureNode {
  if (fault.whom !== 'other') return leader;
  const others = cluster.nodes.filter((node) => node !== leader);
  return others[Math.floor(lot * others.length)] ?? leader;
}

/** Plays one fault, waits until all is whole and mail arrives, and judges what the clients saw. */
async function playRound(fault: Fault, lot: number, clients: Clients): Promise<Round> {
  await cluster.whole(WHOLE_MS);
  await sleep(CALM_MS);
  const leader = await cluster.leader();
  if (leader === null) throw new Error('no node leads');
  const target = targetOf(fault, leader, lot);
  const from = performance.now();
  const firstAsked = clients.asked.length;
  if (target === leader || fault.whom === 'each') allowedCopies += CONNECTIONS;
  await fault.run(cluster, target, random);
  await cluster.whole(WHOLE_MS);
  const seen = arrivals.length;
  await until(() => arrivals.length > seen + CONNECTIONS, 'mail after the fault', WHOLE_MS);
  const gapMs = longestGap(from);
  const name = `${fault.name} (${target.name})`;
  if (gapMs > TAKEOVER_MS) problems.push(`${name}: no mail arrived for ${String(Math.round(gapMs))} ms`);
  judgeAnswers(name, fault, target, clients.asked.slice(firstAsked));
  return { fault: fault.name, node: fault.whom === 'leader' || fault.whom === 'other' ? target.name : null, gapMs };
}

/** A node that the fault did not meet answers well; while the database is away, with 503 and when to come again. */
function judgeAnswers(name: string, fault: Fault, target: TortureNode, asked: readonly Asked[]): void {
  if (fault.whom === 'each') return;
  const bad = asked.filter(({ node, status, hasRetryAfter }) => {
    if (status >= 200 && status < 300) return false;
    if (fault.whom === 'database') return !(status === 503 && hasRetryAfter);
    return node !== target.name;
  });
  const kinds = new Map<string, number>();
  for (const { node, status, code } of bad) {
    const kind = `${node} answered ${status === 0 ? 'nothing' : `${String(status)} ${code}`}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  for (const [kind, times] of kinds) problems.push(`${name}: ${kind}, ${String(times)} times`);
}

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
  const allArrived = (): boolean => [...clients.accepted.keys()].every((id) => receiver.copies.has(id));
  await until(allArrived, 'every accepted mail', 90_000 + missing * SLOWEST_MS).catch(noteProblem);
  const isFinished = async (): Promise<boolean> => finished((await cluster.command('books', '--json')) as Books);
  await until(isFinished, 'the end of the queue', 90_000).catch(noteProblem);
  await clients.stopReading();
}

/** The reader must have seen each event that the database has once, in the order of the numbers. */
async function judgeEvents(seen: readonly string[]): Promise<void> {
  const rows = await cluster.pair.primary.query<{ id: string; type: string }>(
    'SELECT id, type FROM events ORDER BY sequence',
    'posthorn',
  );
  const set = new Set(seen);
  if (set.size < seen.length) problems.push(`${String(seen.length - set.size)} events were seen twice`);
  const types = new Set(rows.filter(({ id }) => set.has(id)).map(({ type }) => type));
  const expected = rows.filter(({ type }) => types.has(type)).map(({ id }) => id);
  const missed = expected.filter((id) => !set.has(id)).length;
  if (missed > 0) problems.push(`${String(missed)} of ${String(expected.length)} events were not seen`);
  if (missed === 0 && set.size === seen.length && expected.some((id, at) => id !== seen[at]))
    problems.push('events were not seen in the order of their numbers');
}

/** Each second copy must be explained by an attempt whose end is not known. */
async function judgeCopies(accepted: ReadonlyMap<string, string>): Promise<number> {
  const doubled = [...receiver.copies].filter(([, copies]) => copies > 1);
  const rows = await cluster.pair.primary.query<{ message_id: string; n: string }>(
    "SELECT message_id, count(*) AS n FROM attempts WHERE outcome = 'uncertain' GROUP BY message_id",
    'posthorn',
  );
  const uncertain = new Map(rows.map(({ message_id: id, n }) => [id, Number(n)]));
  for (const [mark, copies] of doubled) {
    const unknown = uncertain.get(accepted.get(mark) ?? mark) ?? 0;
    // A mail by SMTP whose 250 was lost is known by its mark only.
    if (unknown < copies - 1 && accepted.has(mark))
      problems.push(`${mark} came ${String(copies)} times, and ${String(unknown)} attempts are uncertain`);
  }
  const second = doubled.reduce((sum, [, copies]) => sum + copies - 1, 0);
  if (second > allowedCopies) problems.push(`${String(second)} second copies, ${String(allowedCopies)} are allowed`);
  return second;
}

async function run(): Promise<void> {
  await cluster.start(NODES);
  const made = await cluster.command('keys', 'create', '--name', 't', '--scopes', 'send,event:read', '--json');
  await cluster.command('domains', 'add', 'torture.test', '--trust', '--json');
  const { key } = made as { key: string };
  const clients = startClients({
    nodes: cluster.nodes,
    key,
    random: Math.random,
    httpSenders: NODES * 2,
    smtpSenders: 1,
  });
  await until(() => arrivals.length > CONNECTIONS, 'the first mails', 60_000);
  const rounds: Round[] = [];
  for (const [at, { fault, lot }] of plan.entries()) {
    if (options.only !== undefined && !fault.name.includes(options.only)) continue;
    const round = await playRound(fault, lot, clients).catch((error: unknown) => {
      problems.push(`${fault.name}: ${String(error)}`);
      return null;
    });
    if (round === null) break;
    rounds.push(round);
    const { accepted } = clients;
    console.error(
      `${String(at + 1)}/${String(plan.length)} ${fault.name}: ${String(accepted.size)} accepted, no mail for ${(round.gapMs / 1000).toFixed(1)} s`,
    );
  }
  await settle(clients).catch(noteProblem);
  const lost = [...clients.accepted.keys()].filter((id) => !receiver.copies.has(id));
  if (lost.length > 0) problems.push(`${String(lost.length)} accepted mails are lost: ${lost.slice(0, 5).join(' ')}`);
  await judgeEvents(clients.events);
  const secondCopies = await judgeCopies(clients.accepted);
  const tally = { seed: SEED, rounds, accepted: clients.accepted.size, lost: lost.length, secondCopies, allowedCopies };
  console.log(nodesTallyText({ ...tally, events: clients.events.length, asked: clients.asked }));
}

try {
  await run();
} finally {
  const codes = await cluster.stop();
  receiver.stop();
  const ends = [...codes, ...cluster.nodes.flatMap((node) => node.ends)];
  for (const how of ends)
    if (how !== 0 && how !== 'SIGKILL' && how !== TAKEN_OVER) problems.push(`a node ended with ${String(how)}`);
}
if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  console.error(`folder kept: ${root}`);
  process.exitCode = 1;
} else rmSync(root, { recursive: true, force: true });
