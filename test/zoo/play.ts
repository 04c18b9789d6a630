/** One scenario at work: receivers, DNS and a sender, what is measured of them, and the bars they are held against. */
import type { Says } from './profiles.ts';
import type { Names } from './names.ts';
import type { Dial, Host, Receiver } from './receiver.ts';
import type { Bar, Row } from './row.ts';
import type { Sender, Usage } from './sender.ts';
import { untrue, type Said } from './witness.ts';
import { worded, type Meaning } from './wording.ts';
import type { Behaviour } from './behaviour.ts';

export interface Scenario {
  name: string;
  /** One sentence: what the receiver does. */
  about: string;
  /** Also played against Postfix, which sends all to the first host. */
  withPostfix?: boolean;
  /** Measures processor time or throughput, so no other scenario may run at the same time. */
  alone?: boolean;
  env?: Record<string, string>;
  /** Settings of `delivery`. */
  delivery?: Readonly<Record<string, unknown>>;
  /** Takes hours: played in simulated time only, in steps of so many ms at most. */
  stepMs?: number;
  run(play: Play): Promise<void>;
}

/** The words of every true reason, and of a false one. */
export interface Truth {
  says: RegExp;
  never?: RegExp;
  /** `queue lanes` has to tell it, too. */
  inLanes?: boolean;
}

/** How time passes: on the wall, or as fast as a simulated clock can be moved. */
export type Pass = (ms: number) => Promise<void>;

export interface Surroundings {
  pass: Pass;
  /** How often what is waited for is looked at. */
  lookEveryMs: number;
  scenario: Scenario;
  names: Names;
  receiver: Receiver;
  sender: Sender;
  /** Which wording of each meaning. */
  wording: number;
  tell: (text: string) => void;
}

const MOST_ASKED = 20;
const MOST_EXAMPLES = 3;

export class Play {
  readonly names: Names;
  readonly receiver: Receiver;
  readonly sender: Sender;
  /** A share of a known rate that was used, where a scenario sets it. */
  allowanceUsed: number | null = null;
  private readonly scenario: Scenario;
  private readonly wording: number;
  private readonly tell: (text: string) => void;
  private readonly passing: Pass;
  private readonly lookEveryMs: number;
  private readonly bars: Bar[] = [];
  private readonly acceptedAt = new Map<string, number>();
  private readonly reasons: Row['reasons'] = { asked: 0, untrue: 0, examples: [] };
  private readonly began: { at: number; usage: Usage };
  private readonly heard: Said[] = [];
  private watched: { to: readonly string[]; everyMs: number; answerMs: number } | null = null;
  private addresses = 0;
  private sent = 0;

  constructor({ pass, lookEveryMs, scenario, names, receiver, sender, wording, tell }: Surroundings) {
    this.scenario = scenario;
    this.names = names;
    this.receiver = receiver;
    this.sender = sender;
    this.wording = wording;
    this.tell = tell;
    this.passing = pass;
    this.lookEveryMs = lookEveryMs;
    this.began = { at: receiver.now(), usage: sender.usage() };
  }

  /** A host on a separate address. */
  host(behaviour: Behaviour = {}): Promise<Host> {
    // Postfix sends everything to 127.0.0.1, which is the host that runs from the start.
    return this.receiver.host(
      `127.3.${String(this.addresses >> 8)}.${String((this.addresses++ & 255) + 1)}`,
      behaviour,
    );
  }

  words(meaning: Meaning, number = 0): string {
    return worded(meaning, number + this.wording);
  }

  said({ meaning, number }: Says): string {
    return this.words(meaning, number);
  }

  async send(to: readonly string[]): Promise<void> {
    const now = this.receiver.now();
    for (const one of to) this.acceptedAt.set(one, now);
    this.sent += to.length;
    await this.sender.send(to);
  }

  /** Sends one after the other at an even rate. */
  async trickle(to: readonly string[], perSecond: number): Promise<void> {
    const began = this.receiver.now();
    for (const [n, one] of to.entries()) {
      const due = began + (n * 1000) / perSecond;
      const wait = due - this.receiver.now();
      if (wait > 0) await this.passing(wait);
      await this.send([one]);
    }
  }

  async pass(seconds: number): Promise<void> {
    const end = this.receiver.now() + seconds * 1000;
    for (let left = seconds * 1000; left > 0; left = end - this.receiver.now()) {
      await this.passing(Math.min(left, this.watched?.everyMs ?? left));
      await this.witness();
    }
  }

  /** From now on asks each of these that waits for its reason, again and again, and holds that against what happens then. */
  watch(to: readonly string[], everySeconds = 3, answerSeconds = 0): void {
    this.watched = { to, everyMs: everySeconds * 1000, answerMs: answerSeconds * 1000 };
  }

  private async witness(): Promise<void> {
    const { clock } = this.receiver;
    for (const to of this.watched?.to ?? []) {
      if (this.receiver.taken.has(to) || !this.acceptedAt.has(to)) continue;
      const at = this.receiver.now();
      const found = await this.sender.inspect?.why(to);
      if (found === undefined || found.reason === 'finished' || found.reason === 'being_sent') continue;
      const until = found.until === null ? null : Date.parse(found.until) - clock.now() + this.receiver.now();
      this.heard.push({ ...found, at, to, until });
    }
  }

  /** How many seconds it took until `test` held; Infinity where it did not within the time. */
  async until(test: () => boolean | Promise<boolean>, seconds: number, what: string): Promise<number> {
    const began = this.receiver.now();
    let told = began;
    let looked = began;
    for (;;) {
      const now = this.receiver.now();
      if (await test()) return (now - began) / 1000;
      if (now - began > seconds * 1000) return Infinity;
      if (now - told > 10_000) {
        this.tell(
          `${what}: ${((now - began) / 1000).toFixed(0)} s; ${String(this.receiver.taken.size)} of ${String(this.sent)} mails delivered, ${String(this.receiver.dials.length)} dials`,
        );
        told = now;
      }
      await this.passing(this.lookEveryMs);
      if (this.watched !== null && now - looked >= this.watched.everyMs) {
        looked = now;
        await this.witness();
      }
    }
  }

  /** Of these, how many the receiver has taken. */
  taken(to: readonly string[]): number {
    return to.filter((one) => this.receiver.taken.has(one)).length;
  }

  /** Seconds from acceptance of each that was taken; Infinity for those that were not. */
  seconds(to: readonly string[]): number[] {
    return to
      .map((one) => ((this.receiver.taken.get(one)?.[0] ?? Infinity) - (this.acceptedAt.get(one) ?? NaN)) / 1000)
      .sort((a, b) => a - b);
  }

  attemptsSince(at: number): number {
    return this.receiver.attempts.filter((attempt) => attempt.at >= at).length;
  }

  refused(from = 0, to = Infinity): Dial[] {
    return this.receiver.dials.filter(({ at, refused }) => refused && at >= from && at < to);
  }

  /** The most within any one second. */
  worstSecond(dials: readonly Dial[]): number {
    let first = 0;
    return dials.reduce((most, { at }, last) => {
      while (at - (dials[first]?.at ?? at) > 1000) first++;
      return Math.max(most, last - first + 1);
    }, 0);
  }

  atMost(what: string, value: number, limit: number): void {
    this.bar({ what, value, limit: `at most ${String(limit)}`, held: value <= limit });
  }

  atLeast(what: string, value: number, limit: number): void {
    this.bar({ what, value, limit: `at least ${String(limit)}`, held: value >= limit });
  }

  private bar(bar: Bar): void {
    this.bars.push(bar);
    this.tell(
      `${bar.held ? 'holds' : 'FAILS'}: ${bar.what}: ${String(Math.round(bar.value * 100) / 100)} (${bar.limit})`,
    );
  }

  /** Asks some of those that wait for their reason. */
  async ask(to: readonly string[], truth: Truth): Promise<void> {
    const { inspect } = this.sender;
    if (inspect === null) return;
    const waiting = to.filter((one) => !this.receiver.taken.has(one));
    const step = Math.max(1, Math.floor(waiting.length / MOST_ASKED));
    for (const one of waiting.filter((_, at) => at % step === 0).slice(0, MOST_ASKED)) {
      const { status, reason, message } = await inspect.why(one);
      if (reason === 'finished' || reason === 'being_sent') continue;
      this.hold(truth, `${one} (${status}) `, `${reason}: ${message}`);
    }
    if (truth.inLanes === true && waiting.length > 0)
      this.hold(truth, 'queue lanes: ', JSON.stringify(await inspect.lanes()));
  }

  private hold({ says, never }: Truth, who: string, text: string): void {
    this.reasons.asked++;
    if (says.test(text) && never?.test(text) !== true) return;
    this.note(who + text);
  }

  private note(example: string): void {
    this.reasons.untrue++;
    if (this.reasons.examples.length < MOST_EXAMPLES) this.reasons.examples.push(example);
  }

  end(error: string | null): Row {
    const { receiver, acceptedAt, reasons } = this;
    const { answerMs = 0 } = this.watched ?? {};
    for (const { said, why } of untrue(this.heard, receiver, { end: receiver.now(), answerMs }))
      this.note(
        `${said.to} at ${String(Math.round(said.at - this.began.at))} ms: ${said.reason}: ${said.message} (${why})`,
      );
    reasons.asked += this.heard.length;
    const twice = [...receiver.taken.values()].filter((times) => times.length > 1).length;
    this.atMost('mails taken twice', twice, 0);
    if (reasons.asked > 0) this.atMost('untrue reasons', reasons.untrue, 0);
    const times = this.seconds([...receiver.taken.keys()].filter((to) => acceptedAt.has(to)));
    const usage = this.sender.usage();
    const refused = this.refused();
    const at = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? NaN;
    return {
      scenario: this.scenario.name,
      sender: this.sender.name,
      mails: this.sent,
      delivered: times.length,
      dials: receiver.dials.length,
      dialsRefused: refused.length,
      worstSecond: this.worstSecond(refused),
      attemptsPerMail: receiver.attempts.length / Math.max(1, this.sent),
      seconds: { p50: at(0.5), p99: at(0.99), last: at(1) },
      allowanceUsed: this.allowanceUsed,
      reasons,
      cores: (usage.cpuMs - this.began.usage.cpuMs) / (receiver.now() - this.began.at),
      megabytesWritten: (usage.bytesWritten - this.began.usage.bytesWritten) / 1e6,
      bars: this.bars,
      error,
    };
  }
}

/** `n` addresses of a domain. */
export const people = (domain: string, n: number, name = 'u'): string[] =>
  Array.from({ length: n }, (_, at) => `${name}${String(at)}@${domain}`);
