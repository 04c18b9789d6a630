/**
 * The mails of the last minute that a receiver has accepted, and those under way: what a number of mails a minute is held against. There is one
 * count for a lane and, in an operator's lane, one for each recipient domain. Times are handed in, in ms.
 */
import { MINUTE_MS } from '../../base/time.ts';

/** Mails that were accepted within one second, which is counted from the epoch. */
interface AcceptedMails {
  readonly second: number;
  mails: number;
}

/** Longer than a minute, since the receiver's minute begins later than ours. */
const SECONDS = 62;
/** There are thousands of lanes, and most of them accept a mail now and then. */
const none: readonly AcceptedMails[] = [];

export class Traffic {
  /** Oldest first. */
  private accepted: readonly AcceptedMails[] = none;
  private inFlight = 0;
  /** When the next mail may go so that the mails of a minute are spread evenly. */
  private nextAt: number;

  constructor(now: number) {
    this.nextAt = now;
  }

  /** True while mails are under way. */
  get isBusy(): boolean {
    return this.inFlight > 0;
  }

  /** Counts a mail that begins. */
  begin(perMinute: number | null, now: number): void {
    this.inFlight++;
    const gap = perMinute === null ? 0 : MINUTE_MS / perMinute;
    // A mail that begins a little late does not put off all that follow.
    this.nextAt = Math.max(this.nextAt, now - gap) + gap;
  }

  /** Takes back `begin` for a mail that was not begun after all. */
  putBack(perMinute: number | null): void {
    this.end();
    if (perMinute !== null) this.nextAt -= MINUTE_MS / perMinute;
  }

  end(): void {
    this.inFlight = Math.max(0, this.inFlight - 1);
  }

  /** Counts an accepted mail, which has ended. */
  take(now: number): void {
    this.end();
    const second = Math.floor(now / 1000);
    const last = this.accepted.at(-1);
    if (last?.second === second) last.mails++;
    else this.accepted = [...this.accepted.filter((one) => isRecent(one, now)), { second, mails: 1 }];
  }

  /** Returns the mails that were accepted in the last minute, or within so many ms, in whole seconds. */
  lastMinute(now: number, ms = SECONDS * 1000): number {
    return this.accepted.reduce((sum, one) => (isRecent(one, now, ms) ? sum + one.mails : sum), 0);
  }

  /** Returns when the next mail may begin so that they are spread evenly: now or later. */
  spreadAt(now: number): number {
    return Math.max(now, this.nextAt);
  }

  /** Returns when the next mail may begin at a receiver's rate: now or later. */
  readyAt(perMinute: number | null, now: number): number {
    if (perMinute === null) return now;
    const spread = this.spreadAt(now);
    if (this.lastMinute(now) + this.inFlight < perMinute) return spread;
    const oldest = this.accepted.find((one) => isRecent(one, now));
    return Math.max(spread, oldest === undefined ? now + 1000 : (oldest.second + SECONDS) * 1000);
  }

  /** Lets the next mail go at once. */
  forgetSpread(): void {
    this.nextAt = 0;
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    this.nextAt += ms;
    this.accepted = none;
  }
}

const isRecent = ({ second }: AcceptedMails, now: number, ms = SECONDS * 1000): boolean =>
  second > Math.floor((now - ms) / 1000);
