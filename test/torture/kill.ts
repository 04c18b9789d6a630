/**
 * `npm run torture -- kill`: kills the appliance with SIGKILL under load, in every phase of a message in turn, and counts what arrived. No mail
 * that was answered with 202 may be missing, and no bounce that was answered with 250; a second copy is allowed only of what was the last mail of a
 * connection at a kill (promise 3 of docs/delivery.md); every delivery is told to the webhook; and the books balance after every start.
 *
 *   --kills N       how often
 *   --seed N        the order of the phases and the delays
 *   --report FILE   writes what was found as JSON
 *
 * The receiver, the webhook endpoint and the clients are in this process, which kills at the moment that it sees.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { startAppliance, type Appliance } from '../bench/appliance.ts';
import { freePort, until } from '../bench/peers.ts';
import { bounce, sender, startHook, type Sent } from './load.ts';
import { beyondPromise, planOf, type Phase } from './phases.ts';
import { randomFrom } from './random.ts';
import { startReceiver, type Taken } from './receiver.ts';
import { emptyPhases, tallyText, type Tally } from './tally.ts';

const { values: options } = parseArgs({
  options: {
    kills: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    report: { type: 'string' },
  },
});
const kills = Number(options.kills);
const CONNECTIONS = 10;
const SENDERS = 8;
/** Longest run before a kill is armed, in milliseconds: there has to be mail in every state. */
const LONGEST_RUN_MS = 600;
/** For a moment to come; afterwards the kill comes at whatever moment it is. */
const MOMENT_PATIENCE_MS = 10_000;
/** After so many kills a phase has to have been met. */
const MANY = 10;
/** Latest kill after a moment whose own work follows it at once, in milliseconds. */
const LATEST_MS = 3;
/** For one mail of what waits after the last kill, on a machine that has others to serve. */
const SLOWEST_MS = 50;
/** A body that comes in more than one piece. */
const LARGE = 300_000;

const random = randomFrom(Number(options.seed));
const receiver = await startReceiver();
const hook = await startHook();
const mxPort = await freePort();
const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-'));
const sent: Sent = { accepted: new Set(), unanswered: new Map(), hadCommitted: 0, hadNotCommitted: 0 };
const windows = new Map<string, number>();
const tallies = emptyPhases();
const problems: string[] = [];
/** Mails whose outcome has been written, and which have not bounced yet. */
const settled: Taken[] = [];
const bounced = { acknowledged: new Set<string>(), waiting: [] as Taken[] };
let key = '';

receiver.onSettled = (mail) => {
  settled.push(mail);
  // The newest are enough to choose from.
  if (settled.length > 100) settled.shift();
};

const start = (): Promise<Appliance> =>
  startAppliance({
    dataDir,
    env: {
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(CONNECTIONS),
      POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s',
      POSTHORN_SMTP__MX__HOST: '127.0.0.1',
      POSTHORN_SMTP__MX__PORT: String(mxPort),
      POSTHORN_WEBHOOKS__ALLOW_HTTP: 'true',
      POSTHORN_WEBHOOKS__ALLOW_CIDRS: '["127.0.0.0/8"]',
    },
  });

async function setUp(appliance: Appliance): Promise<void> {
  const scopes = 'send,message:read,webhook';
  const made = appliance.cli('keys', 'create', '--name', 'torture', '--scopes', scopes, '--json');
  key = (made as { key: string }).key;
  appliance.cli('domains', 'add', 'torture.test', '--trust', '--json');
  await ask(appliance, 'POST', '/v1/webhooks', { url: hook.url, events: ['delivered'], concurrency: 4 });
}

async function ask(appliance: Appliance, method: string, where: string, body?: unknown): Promise<unknown> {
  const answer = await fetch(appliance.url + where, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${where}: ${String(answer.status)} ${await answer.text()}`);
  return answer.json();
}

interface Books {
  balanced: boolean;
  lines: { status: string; found: number }[];
  faults: string[];
}

const booksOf = async (appliance: Appliance): Promise<Books> => (await appliance.command('books', '--json')) as Books;

/** Hands in the reports that got no 250; those of a program that is killed meanwhile come again. */
async function report(mails: readonly Taken[], onDot: () => void): Promise<void> {
  for (const mail of mails) {
    bounced.waiting.push(mail);
    if (!(await bounce(mxPort, mail, onDot).catch(() => false))) continue;
    bounced.acknowledged.add(mail.id);
    bounced.waiting = bounced.waiting.filter(({ id }) => id !== mail.id);
  }
}

/** Runs the senders; the function that it returns stops them. */
function load(
  appliance: Appliance,
  hooks: { onAsked: () => void; onAnswered: () => void; size: () => number },
): () => Promise<unknown> {
  let running = true;
  const senders = Array.from({ length: SENDERS }, () =>
    sender(appliance.url, key, sent, { isRunning: () => running, ...hooks }),
  );
  return () => {
    running = false;
    return Promise.all(senders);
  };
}

/** One life of the program, which ends in the phase, or where that does not come, at some moment. */
async function live(appliance: Appliance, phase: Phase): Promise<void> {
  const [runMs, lateMs, coin] = [random() * LONGEST_RUN_MS, random() * LATEST_MS, random()];
  const state: { isArmed: boolean; killed: Promise<unknown> | null } = { isArmed: false, killed: null };
  const kill = (): void => {
    state.killed ??= appliance.kill();
  };
  let reached: (isHit: boolean) => void = () => undefined;
  const moment = new Promise<boolean>((resolve) => (reached = resolve));
  /** At the moment: kills at once, or up to LATEST_MS later; returns whether the moment's own work is left undone. */
  const seen = (one: Phase, isLate = false): boolean => {
    if (!state.isArmed || one !== phase) return state.killed !== null;
    state.isArmed = false;
    reached(true);
    if (!isLate) kill();
    else setTimeout(kill, lateMs);
    return !isLate;
  };
  // Commands that come alone show which of them was the last; the claim is written before MAIL and after EHLO.
  receiver.isPipelining = !['MAIL', 'RCPT', 'DATA'].includes(phase);
  receiver.onMoment = (one) => seen(one, one === 'claim' || one === 'after 250');
  hook.onCall = () => seen('webhook call', coin < 0.5);
  const stop = load(appliance, {
    onAsked: () => void seen('accept before the answer', true),
    onAnswered: () => void seen('accept after the answer'),
    size: () => (phase === 'mid-body' ? LARGE : 10),
  });
  // Connections are opened at the beginning of a life, and claims are written without a mail before them only there.
  if (phase !== 'dial' && phase !== 'claim') await new Promise((resolve) => setTimeout(resolve, runMs));
  state.isArmed = true;
  const reporting =
    phase === 'bounce intake'
      ? report(settled.splice(-3), () => void seen('bounce intake', true)).catch((error: unknown) =>
          problems.push(String(error)),
        )
      : null;
  const patience = setTimeout(reached, MOMENT_PATIENCE_MS, false);
  const isHit = await moment;
  clearTimeout(patience);
  const tally = tallies[phase];
  tally.planned++;
  if (isHit) tally.hit++;
  await new Promise((resolve) => setTimeout(resolve, LATEST_MS + 1));
  const at = performance.now();
  kill();
  await state.killed;
  await stop();
  await reporting;
  // The kernel still hands over what the program had written.
  await until(() => receiver.open() === 0, 'the ends of the connections');
  // A connection that closed in the last second may have had its mail's outcome in a commit that did not come.
  const inFlight = receiver.unsettledSince(at - 1000);
  for (const id of inFlight) windows.set(id, (windows.get(id) ?? 0) + 1);
  tally.inFlight += inFlight.length;
  receiver.onMoment = () => false;
  hook.onCall = () => false;
}

const waits = ['queued', 'sent', 'deferred', 'scheduled'];

/** The last life: everything that was left has to come to its end. */
async function settle(appliance: Appliance): Promise<void> {
  receiver.isPipelining = true;
  const attempt = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => problems.push(error instanceof Error ? error.message : String(error)));
  const stop = load(appliance, { onAsked: () => undefined, onAnswered: () => undefined, size: () => 10 });
  await attempt(until(() => sent.unanswered.size === 0, 'the last answers'));
  await stop();
  const missing = [...sent.accepted].filter((id) => !receiver.copies.has(id)).length;
  const patience = 60_000 + missing * SLOWEST_MS;
  await attempt(
    until(() => [...sent.accepted].every((id) => receiver.copies.has(id)), 'every accepted mail', patience),
  );
  const finished = async (): Promise<boolean> => {
    const { balanced, faults, lines } = await booksOf(appliance);
    if (!balanced) throw new Error(faults.join('; '));
    return lines.every(({ status, found }) => found === 0 || !waits.includes(status));
  };
  await attempt(until(finished, 'the end of the queue', patience));
  await attempt(until(() => [...sent.accepted].every((id) => hook.delivered.has(id)), 'every webhook call', patience));
  await attempt(report(bounced.waiting.splice(0), () => undefined));
  if (bounced.waiting.length > 0) problems.push(`${String(bounced.waiting.length)} bounces are not taken`);
}

/** Returns the mails whose bounce was acknowledged and is not known. */
async function lostBounces(appliance: Appliance): Promise<string[]> {
  const lost: string[] = [];
  for (const id of bounced.acknowledged) {
    const isKnown = async (): Promise<boolean> =>
      ((await ask(appliance, 'GET', `/v1/messages/${id}`)) as { status: string }).status === 'bounced';
    await until(isKnown, 'a bounce').catch(() => lost.push(id));
  }
  return lost;
}

for (const [place, phase] of planOf(kills, random).entries()) {
  const appliance = await start();
  if (place === 0) await setUp(appliance);
  else await balance(appliance, place);
  await live(appliance, phase);
  process.stderr.write(
    `\r${String(place + 1)}/${String(kills)} kills, ${String(sent.accepted.size)} accepted, ${String(receiver.copies.size)} arrived `,
  );
}
process.stderr.write('\n');

async function balance(appliance: Appliance, kill: number): Promise<void> {
  const { balanced, faults } = await booksOf(appliance);
  if (!balanced) problems.push(`after kill ${String(kill)}: ${faults.join('; ')}`);
}

const last = await start();
await balance(last, kills);
await settle(last);
const lostReports = await lostBounces(last);
const code = await last.stop();
if (code !== 0) problems.push(`the last stop ended with ${String(code)}`);
receiver.stop();
hook.stop();

const lost = [...sent.accepted].filter((id) => !receiver.copies.has(id));
const { copies, beyond } = beyondPromise(receiver.copies, windows);
const untold = [...sent.accepted].filter((id) => !hook.delivered.has(id));
if (lost.length > 0) problems.push(`${String(lost.length)} accepted mails are lost, such as ${String(lost[0])}`);
if (beyond.length > 0) problems.push(`copies that promise 3 does not allow of ${beyond.slice(0, 10).join(', ')}`);
if (lostReports.length > 0) problems.push(`acknowledged bounces are lost: ${lostReports.slice(0, 10).join(', ')}`);
for (const [phase, { planned, hit }] of Object.entries(tallies))
  if (planned >= MANY && hit === 0) problems.push(`no kill met the phase: ${phase}`);
const tally: Tally = {
  seed: Number(options.seed),
  kills,
  phases: tallies,
  accepted: sent.accepted.size,
  lost: lost.length,
  secondCopies: copies,
  beyondPromise: beyond.length,
  unanswered: { hadCommitted: sent.hadCommitted, hadNotCommitted: sent.hadNotCommitted },
  bounces: { acknowledged: bounced.acknowledged.size, lost: lostReports.length },
  webhooks: { delivered: hook.delivered.size, missing: untold.length },
  problems,
};
if (options.report !== undefined) writeFileSync(options.report, `${JSON.stringify(tally, null, 2)}\n`);
console.log(tallyText(tally));
if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  console.error(`data folder kept: ${dataDir}`);
  process.exitCode = 1;
} else {
  rmSync(dataDir, { recursive: true, force: true });
  rmSync(`${dataDir}.log`, { force: true });
}
