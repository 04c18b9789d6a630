/**
 * The zoo in simulated time: the whole program in this process on a test's clock, so that an hour among receivers takes seconds
 * and no figure depends on the machine. The sockets are real.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { copyData, startTestApp, TestClock, type TestApp } from '../support/harness/app.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import type { Names } from './names.ts';
import { Play, type Pass, type Scenario } from './play.ts';
import { startReceiver, type Receiver } from './receiver.ts';
import { told, type Row } from './row.ts';
import type { SeenEvent, Sender } from './sender.ts';

export async function simulate(
  scenario: Scenario,
  wording = 0,
  tell: (text: string) => void = () => undefined,
): Promise<Row> {
  const clock = new TestClock();
  const receiver = await startReceiver(clock);
  const resolver = new FakeResolver();
  try {
    const options = { mailPort: receiver.port, clock, resolver, settings: { delivery: scenario.delivery ?? {} } };
    const running = { app: await startTestApp(options) };
    const folders: string[] = [];
    const restart = async (): Promise<void> => {
      // As a power cut leaves it, and without what the first one writes while it stops.
      const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-zoo-'));
      folders.push(folder);
      await copyData(running.app.folder, folder);
      await running.app.stop();
      running.app = await startTestApp({ ...options, folder });
    };
    try {
      const play = new Play({
        scenario,
        names: namesOf(resolver),
        receiver,
        sender: senderOf(running, restart),
        pass: passing(running, receiver, scenario.stepMs),
        lookEveryMs: 1000,
        wording,
        tell,
      });
      const error = await scenario.run(play).then(() => null, told);
      return play.end(error);
    } finally {
      // The stop would wait for sessions that a host keeps open, and the simulated clock does not move.
      await receiver.close();
      await running.app.stop();
      for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    }
  } finally {
    await receiver.close();
  }
}

/** DNS without latency: what takes time there is played by `npm run bench -- zoo`. */
function namesOf(resolver: FakeResolver): Names {
  const zones = resolver.zones;
  let faults: Names['faults'] = [];
  return {
    latencyMs: 0,
    get faults() {
      return faults;
    },
    set faults(now) {
      faults = now;
      const isServfail = (key: string): boolean => faults.some(({ of, does }) => does === 'SERVFAIL' && of.test(key));
      resolver.zones = Object.fromEntries(
        Object.entries(zones).map(([key, records]) => [key, isServfail(key) ? 'SERVFAIL' : records]),
      );
    },
    domain(name, hosts) {
      zones[`${name} MX`] = Object.keys(hosts).map((host, at) => `${String(10 * (at + 1))} ${host}`);
      for (const [host, address] of Object.entries(hosts)) zones[`${host} A`] = address === null ? [] : [address];
    },
  };
}

function senderOf(running: { app: TestApp }, restart: Sender['restart']): Sender {
  const ids = new Map<string, string>();
  const events = async (...types: string[]): Promise<SeenEvent[]> => {
    const all: SeenEvent[] = [];
    for (let after = ''; ;) {
      const { body } = await running.app.get<{ data: SeenEvent[]; has_more: boolean; next_cursor: string }>(
        `/v1/events?type=${types.join(',')}&limit=1000${after}`,
      );
      all.push(...body.data);
      if (!body.has_more) return all;
      after = `&after=${encodeURIComponent(body.next_cursor)}`;
    }
  };
  return {
    name: 'Posthorn',
    async send(to) {
      if (to.length > PER_CALL) {
        for (let at = 0; at < to.length; at += PER_CALL) await this.send(to.slice(at, at + PER_CALL));
        return;
      }
      const mail = {
        from: 'hi@acme.test',
        subject: 'Order',
        text: 'Good day.',
        recipients: to.map((one) => ({ to: one })),
      };
      const { status, text, body } = await running.app.request<{ data: { to: string; id: string }[] }>(
        'POST',
        '/v1/messages',
        mail,
      );
      if (status !== 202) throw new Error(text);
      for (const { to: one, id } of body.data) ids.set(one, id);
    },
    async flush(domain) {
      await running.app.operator.call('queue.flush', { domain });
    },
    bounced: async () => (await events('bounced')).length,
    usage: () => ({ cpuMs: NaN, bytesWritten: NaN }),
    inspect: {
      why: (to) => running.app.why(ids.get(to) ?? ''),
      events,
      lanes: () => running.app.operator.call('queue.lanes', {}),
    },
    restart,
    stop: () => running.app.stop(),
  };
}

const PER_CALL = 1000;

/** So many rounds without a write, a dial or a command: then nothing moves until time does. */
const CALM_ROUNDS = 6;
/** The same while mail is due, or claimed while no host owes a reply: it may be at work in a thread, composed or signed. */
const CALM_ROUNDS_DUE = 40;
const TURNS_A_ROUND = 5;
/** Without a moment of rest for so long, something spins. */
const MOST_ROUNDS = 20_000;
/** Time moves to the next timer, but no further than this at once. */
const LONGEST_STEP_MS = 1000;

function passing(running: { app: TestApp }, receiver: Receiver, longestStepMs = LONGEST_STEP_MS): Pass {
  let ours = 0;
  /** Waits its turn behind every write that was asked for, and tells how many mails are claimed, and how many are due. */
  const waiting = async (): Promise<{ claimed: number; due: number }> => {
    ours++;
    return running.app.app.db.commit.transact(async (tx) => {
      const [row] = await tx.all<{ claimed: number; due: number }>(
        'SELECT COUNT(claim_epoch) AS claimed, COUNT(*) - COUNT(claim_epoch) AS due FROM deliveries WHERE due_at <= ? OR claim_epoch IS NOT NULL',
        [running.app.clock.now()],
      );
      return row ?? { claimed: 0, due: 0 };
    });
  };
  const calm = async (): Promise<void> => {
    let before = '';
    let all = 0;
    for (let rounds = 0, enough = CALM_ROUNDS; rounds < enough; rounds++) {
      if (++all > MOST_ROUNDS) throw new Error('The program never comes to rest: something in it spins.');
      const { claimed, due } = await waiting();
      const writes = running.app.app.db.commit.stats.units - ours;
      const now = [
        claimed,
        due,
        writes,
        receiver.dials.length,
        receiver.attempts.length,
        receiver.commands,
        receiver.taken.size,
      ].join();
      if (now !== before) rounds = 0;
      before = now;
      enough = claimed + due > 0 && receiver.pending === 0 ? CALM_ROUNDS_DUE : CALM_ROUNDS;
      for (let turn = 0; turn < TURNS_A_ROUND; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return async (ms) => {
    const { clock } = running.app;
    const end = clock.monotonic() + ms;
    await calm();
    while (clock.monotonic() < end) {
      const next = (clock.nextAt() ?? Infinity) - clock.now();
      clock.advance(Math.min(Math.max(next, 1), longestStepMs, end - clock.monotonic()));
      await calm();
    }
  };
}
