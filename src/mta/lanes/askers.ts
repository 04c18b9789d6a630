/**
 * Whose an answer is that asks for less (a rate, overload, too many connections) in the lane of an operator, which serves many
 * organisations: one recipient domain's, or the operator's. It is the operator's where three domains in a row get one, with nothing
 * accepted between. It slows the whole lane, too, where only that domain's mail was accepted lately, since the lane serves no other
 * now, and a rate does where no other domain is known to be served; an accepted mail of another domain then takes that back. Pure: time is handed in, in ms.
 */
import { DOMAINS } from './rests.ts';

/** How long an accepted mail says that its domain is served, in ms. */
const LATELY_MS = 60_000;

interface Acceptance {
  domain: string;
  at: number;
}

/** Made with each lane, of which there are thousands; most of them have no operator. */
const none: readonly never[] = [];

export class Askers {
  /** Domains with such an answer since the last accepted mail. */
  private asked: readonly string[] = none;
  /** The two domains whose mail was accepted last, and when. */
  private accepted: readonly Acceptance[] = none;
  /** The one domain whose answers slow the lane. */
  private alone: string | null = null;

  /** Counts such an answer. Tells whether it is one domain's, and leaves the lane as it is. */
  isOneDomains(domain: string, isRate: boolean, now: number): boolean {
    if (this.asked.length < DOMAINS && !this.asked.includes(domain)) this.asked = [...this.asked, domain];
    const isOperators = this.asked.length >= DOMAINS;
    const lately = this.accepted.filter(({ at }) => now - at < LATELY_MS);
    const isCold = lately.length === 0;
    const isAlone = isCold ? isRate && this.asked.length === 1 : lately.every((one) => one.domain === domain);
    this.alone = isOperators ? null : isAlone ? domain : this.alone;
    return !isOperators && !isAlone;
  }

  /** Counts an accepted mail. Tells whether it takes back what the answers of one other domain have set. */
  isTakenBack(domain: string, now: number): boolean {
    this.asked = none;
    const [last] = this.accepted;
    if (last?.domain === domain) last.at = now;
    else this.accepted = [{ domain, at: now }, ...this.accepted.slice(0, 1)];
    if (this.alone === null || this.alone === domain) return false;
    this.alone = null;
    return true;
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    this.accepted = this.accepted.map(({ domain, at }) => ({ domain, at: at + ms }));
  }
}
