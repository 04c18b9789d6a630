/**
 * Lanes, their control, the pool and the workers as they are in the engine, over hosts that exist in simulated time only: how many
 * connections each lets in, whether it is there, how long it takes. Counts what the hosts see and what the engine does for it.
 */
import type { Log } from '../../src/base/log.ts';
import { readLimitRules } from '../../src/config/limit-rules.ts';
import type { Occurrence } from '../../src/messages/delivery/record.ts';
import { LimitBook } from '../../src/messages/limits/book.ts';
import { type NoPassage, type Passage, mailKeyOf } from '../../src/mta/attempt/attempt.ts';
import type { OpenResult } from '../../src/mta/connection/open-session.ts';
import { noTimings } from '../../src/mta/connection/phases.ts';
import { defaultPoolLimits, type Lease, type LeaseRequest, Pool } from '../../src/mta/connection/pool.ts';
import type { Session } from '../../src/mta/connection/session.ts';
import { Group, type Job } from '../../src/mta/due-queue.ts';
import type { Engine } from '../../src/mta/engine.ts';
import { createAside, type Aside } from '../../src/mta/lanes/aside.ts';
import { LaneControl } from '../../src/mta/lanes/lane-control.ts';
import { wholeLane } from '../../src/mta/lanes/node-parts.ts';
import { hostKey } from '../../src/mta/names.ts';
import { Placing } from '../../src/mta/placing.ts';
import type { MailOperator, Site } from '../../src/mta/sites/sites.ts';
import { createWorker } from '../../src/mta/worker.ts';
import { Lanes } from '../../src/scheduling/lanes.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { ACCOUNT, NOW, deliveryState } from '../support/harness/mail-rows.ts';
import { accepted, deferred, factsOf } from '../support/harness/outcomes.ts';

/** The shipped rules about answers. */
export const { answers } = readLimitRules();

/** Limits in memory only. */
export const limitsInMemory = (clock: FakeClock): LimitBook =>
  new LimitBook(
    {
      db: {
        prepared: { all: () => Promise.resolve([]) } as never,
        commit: { transact: () => Promise.resolve() } as never,
      },
      clock,
      log: quietLog,
      announce: () => undefined,
      changed: () => undefined,
    },
    { node: null },
  );

/** Lanes over parts of an engine that a test gives; the others do nothing. */
export function controlIn(given: object): LaneControl {
  const { clock = new FakeClock(NOW) } = given as { clock?: FakeClock };
  return new LaneControl({
    clock,
    log: quietLog,
    limits: limitsInMemory(clock),
    parts: { of: () => wholeLane },
    lanes: {
      view: (name: string) => ({ name, waiting: 0, slots: 0 }),
      waitsForSlot: () => false,
      pump: () => undefined,
    },
    aside: { has: () => false },
    dueQueue: { wake: () => undefined },
    placing: { moveOn: () => undefined },
    options: { lane: { initial: 2, max: 10 }, answers, shaping: [] },
    ...given,
  } as unknown as Engine);
}

export interface HostPlan {
  /** Connections that it lets in. */
  cap: number;
  isUp: boolean;
  dialMs: number;
  serviceMs: number;
}

/** The counts that a host has seen. */
export class SimulatedHost implements HostPlan {
  cap = Infinity;
  isUp = true;
  dialMs = 20;
  serviceMs = 50;
  /** Mails that it takes over one connection. */
  mailMax: number | null = null;
  open = 0;
  readonly dials: number[] = [];
  readonly refusals: number[] = [];
}

export const quietLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => quietLog,
};
const EPOCH = 1;

export class LaneWorld {
  readonly clock = new FakeClock(NOW);
  readonly hosts = new Map<string, SimulatedHost>();
  readonly delivered = new Map<string, number[]>();
  readonly sites = new Map<string, Site>();
  attempts = 0;
  /** Mails that were made ready, and connections that were asked for. */
  prepared = 0;
  takes = 0;
  claims = 0;
  errors: unknown[] = [];
  readonly pool: Pool;
  readonly control: LaneControl;
  readonly lanes: Lanes<Job>;
  readonly aside: Aside;
  private readonly placing: Placing;
  private count = 0;

  constructor(most = 10, maxPerHost = defaultPoolLimits.maxPerHost) {
    const { clock } = this;
    this.pool = new Pool(
      {
        clock,
        random: () => 0.5,
        lanesWaiting: (host) => [...this.control.lanesWanting(host), ...this.aside.lanesWaiting(host)],
        wake: (lane, host, room) => {
          this.aside.wake(lane, host, room);
          this.control.wake(lane);
        },
      },
      { ...defaultPoolLimits, maxPerHost },
    );
    this.aside = createAside({ clock }, (lane, jobs) => {
      for (const job of jobs) this.lanes.offer(lane, job);
    });
    let engine: Engine | null = null;
    this.lanes = new Lanes<Job>({
      work: (lane) => createWorker((engine ??= this.engineOfWorkers()))(lane),
      slots: (lane) => this.placing.slotsOf(lane),
      maxSlots: () => 1000,
      hasReserve: true,
      failed: (_, error) => this.errors.push(error),
    });
    this.control = controlIn({
      clock,
      pool: this.pool,
      lanes: this.lanes,
      options: { lane: { initial: 2, max: most }, answers, shaping: [] },
    });
    this.placing = new Placing({
      db: { prepared: { all: () => Promise.resolve([]) } },
      clock,
      log: quietLog,
      sites: {
        known: (domain: string) => this.sites.get(domain) ?? null,
        find: () => Promise.reject(new Error('unknown')),
      },
      sources: {
        named: false,
        choose: () => ({ name: null, pool: 'default', ehlo: '', ipv4: null, ipv6: null }),
        isFree: () => true,
      },
      poolOf: () => Promise.resolve('default'),
      holds: { ofLane: () => null },
      limits: { counts: { needStreams: false } },
      control: this.control,
      pool: this.pool,
      aside: this.aside,
      dueQueue: {
        done: (job: Job, dueAt: number | null) => {
          if (dueAt !== null) this.later(job, dueAt);
        },
        rest: (job: Job, until: number) => {
          this.later(job, until);
        },
      },
      owners: { isOurs: () => true },
      lanes: this.lanes,
      isStopping: false,
      prepare: {
        begin: async () => {
          this.prepared++;
          await new Promise((resolve) => setImmediate(resolve));
          const [wanted, mail] = [{ messageId: 'msg_1' }, Promise.resolve(ready)];
          return { kind: 'preparing', wanted, mail, heldNow: () => Promise.resolve(null) };
        },
      },
    } as unknown as Engine);
  }

  host(name: string): SimulatedHost {
    const host = this.hosts.get(name) ?? new SimulatedHost();
    this.hosts.set(name, host);
    return host;
  }

  /** Mail for a domain whose hosts these are; `operator`: the lane is that one's. */
  mail(domain: string, count: number, hosts: readonly string[], operator: MailOperator | null = null): void {
    if (!this.sites.has(domain))
      this.sites.set(domain, {
        kind: 'site',
        name: operator?.name ?? domain,
        hosts: hosts.map((name) => ({ name, port: 25, addresses: [] })),
        relay: null,
        operator,
      });
    for (const name of hosts) this.host(name);
    for (let at = 0; at < count; at++) {
      const id = `d${String(this.count++)}`;
      const group = Object.assign(new Group(domain, 0, ACCOUNT), { buffered: 1 });
      this.placing.place({ id, class: 0, share: ACCOUNT, domain, group });
    }
  }

  deliveredTo(domain: string): number {
    return this.delivered.get(domain)?.length ?? 0;
  }

  /** Lets simulated time pass, or as much of it as something happens in. */
  async run(ms: number, isEnough: () => boolean = () => false): Promise<void> {
    const end = this.clock.now() + ms;
    for (;;) {
      await settleEventLoop();
      if (isEnough()) return;
      const next = this.clock.nextAt();
      if (next === null || next > end) break;
      this.clock.advance(next - this.clock.now());
    }
    this.clock.advance(end - this.clock.now());
    await settleEventLoop();
  }

  private later(job: Job, at: number): void {
    this.clock.after(Math.max(1, at - this.clock.now()), () => {
      this.placing.place(job);
    });
  }

  private engineOfWorkers(): Engine {
    const engine = {
      clock: this.clock,
      options: { epoch: EPOCH },
      leaseMs: 3_600_000,
      extraTime: () => ({ startedAt: 0, until: 0 }),
      recorder: {
        record: async (occurrences: readonly Occurrence[]) => {
          this.claims += occurrences.filter(({ change }) => change.kind === 'claimed').length;
          await Promise.resolve();
          return occurrences.map(({ change }) => ({
            applied: true,
            state: deliveryState({
              claimEpoch: EPOCH,
              attemptCount: 1,
              dueAt: change.kind === 'outcome' && 'retryAt' in change.outcome ? change.outcome.retryAt : null,
            }),
          }));
        },
      },
      placing: this.placing,
      attempts: {
        findIdle: (job: Job) => {
          const site = this.siteOf(job);
          for (const { name } of site.hosts) {
            const taken = this.take(this.requestFor(site, name));
            if (taken.kind === 'leased') return this.connected(site, name, taken.lease);
            if (taken.kind === 'dial') return null;
          }
          return null;
        },
        find: (job: Job) => this.findPassage(this.siteOf(job)),
        release: (found: Passage) => {
          if (found.kind === 'connected') found.connection.lease.giveBack();
        },
        attempt: async (job: Job, _: unknown, __: unknown, found: Passage) => {
          const site = this.siteOf(job);
          const part = mailKeyOf(job);
          this.attempts++;
          delete job.pacedLane;
          if (found.kind !== 'connected') {
            const facts = factsOf({ smtpCode: null, enhancedCode: null, smtpReply: 'connect: refused' });
            const outcome = { ...deferred(this.clock.now() + 60_000), facts };
            return { kind: 'done', outcome: this.control.learn(site.name, part, outcome), followUps: [] };
          }
          const { lease, host } = found.connection;
          const isOver = await (lease.session as unknown as SimulatedSession).carry();
          lease.giveBack();
          if (isOver) {
            this.pool.broke(hostKey(host), 'mail: reset');
            const facts = factsOf({ smtpCode: null, enhancedCode: null, smtpReply: 'mail: reset' });
            const outcome = { ...deferred(this.clock.now() + 60_000), facts };
            return { kind: 'done', outcome: this.control.learn(site.name, part, outcome), followUps: [] };
          }
          this.pool.carried(hostKey(host));
          const times = this.delivered.get(job.domain) ?? [];
          this.delivered.set(job.domain, times);
          times.push(this.clock.monotonic());
          return { kind: 'done', outcome: this.control.learn(site.name, part, accepted()), followUps: [] };
        },
        fail: () => {
          throw new Error('every mail can be made');
        },
      },
      failed: (error: unknown) => this.errors.push(error),
      unwritten: () => this.errors.push('an outcome was not written'),
    };
    return engine as unknown as Engine;
  }

  private siteOf({ domain }: Job): Site {
    const site = this.sites.get(domain);
    if (site === undefined) throw new Error(domain);
    return site;
  }

  private take(request: LeaseRequest): ReturnType<Pool['take']> {
    this.takes++;
    return this.pool.take(request);
  }

  private requestFor({ name: lane, operator }: Site, host: string): LeaseRequest {
    const most = operator?.maxConnections;
    return { key: host, host: `${host}:25`, lane, ...(most === undefined ? {} : { maxPerHost: most }) };
  }

  private connected(site: Site, name: string, lease: Lease): Passage {
    const passed = { outcome: null, isWaiting: false };
    const connection = { at: 0, host: { name, port: 25, addresses: [] }, need: undefined as never, lease, passed };
    return { kind: 'connected', startedAt: this.clock.now(), destination: site, connection };
  }

  /** Tries host after host, as `connectToSite` does. */
  private async findPassage(site: Site): Promise<Passage | NoPassage> {
    const waits = [];
    let hasFailed = false;
    for (const { name } of site.hosts) {
      const request = this.requestFor(site, name);
      const taken = this.take(request);
      if (taken.kind === 'leased') return this.connected(site, name, taken.lease);
      if (taken.kind === 'wait') {
        waits.push(taken.wait);
        if (taken.wait.why !== 'closed' && taken.wait.why !== 'probing') break;
        continue;
      }
      const opened = await this.pool.dial(request, () => this.dial(this.host(name)));
      if (opened.kind === 'leased') return this.connected(site, name, opened.lease);
      if (opened.kind === 'wait') waits.push(opened.wait);
      else {
        const wait = this.pool.count(request.host) > 0 ? this.pool.waitOf(request.host) : null;
        if (wait === null) hasFailed = true;
        else {
          waits.push(wait);
          this.control.noteRefusedConnection(site.name, opened.text);
        }
      }
    }
    if (!hasFailed || waits.some(({ why }) => why !== 'closed')) return { kind: 'wait', hosts: site.hosts, waits };
    const outcome = (): ReturnType<typeof accepted> => deferred(this.clock.now() + 60_000);
    return { kind: 'unreached', startedAt: this.clock.now(), destination: site, outcome };
  }

  private async dial(host: SimulatedHost): Promise<OpenResult> {
    host.dials.push(this.clock.monotonic());
    await this.clock.sleep(host.dialMs);
    if (!host.isUp || host.open >= host.cap) {
      host.refusals.push(this.clock.monotonic());
      const text = host.isUp ? 'too many connections' : 'connection refused';
      return {
        kind: 'failed',
        ip: '',
        phase: 'connect',
        reply: null,
        text,
        tlsBroken: false,
        tlsUnsatisfied: false,
        tls: null,
        timings: noTimings(),
      };
    }
    const session = new SimulatedSession(this.clock, host) as unknown as Session;
    return { kind: 'open', session, ip: '127.0.0.1' };
  }
}

class SimulatedSession {
  messages = 0;
  readonly extensions: { mailMax: number | null };
  readonly waitingSince = null;
  private isOpen = true;
  private readonly clock: FakeClock;
  private readonly host: SimulatedHost;

  constructor(clock: FakeClock, host: SimulatedHost) {
    this.clock = clock;
    this.host = host;
    this.extensions = { mailMax: host.mailMax };
    host.open++;
  }

  usable(): boolean {
    return this.isOpen && this.host.isUp;
  }
  watch(): void {
    // Nothing happens while it is idle.
  }
  abandon(): void {
    this.isOpen = false;
  }
  async carry(): Promise<boolean> {
    await this.clock.sleep(this.host.serviceMs);
    this.messages++;
    return !this.host.isUp;
  }
  async close(): Promise<void> {
    this.isOpen = false;
    await this.clock.sleep(20);
    this.host.open--;
  }
}

const ready = {
  kind: 'ready',
  messageId: 'msg_1',
  requestId: null,
  envelopeFrom: 'b@rp.acme.test',
  recipient: 'ana@dest.test',
  data: [],
  size: 0,
  smtpUtf8: false,
  eightBit: false,
  test: false,
  testOutcome: null,
} as const;
