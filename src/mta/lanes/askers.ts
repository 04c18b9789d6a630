/**
 * Decides how much of an operator's lane slows down when a receiver asks for less: a rate, overload, too many connections. Such a
 * lane serves many recipient domains, and the answer may be about one of them or about all.
 *
 * - It is about all where three domains in a row get such an answer, with nothing accepted between.
 * - The whole lane slows down, too, while it serves only the domain that got the answer: no mail of another was accepted lately. For
 *   a rate it is enough that no other domain is known to be served. An accepted mail of another domain takes this back.
 *
 * Pure: time is handed in, in ms.
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

  /** Counts such an answer. Returns whether it is one domain's, and leaves the lane as it is. */
  isOneDomains(domain: string, isRate: boolean, now: number): boolean {
    if (this.asked.length < DOMAINS && !this.asked.includes(domain)) this.asked = [...this.asked, domain];
    const isOperators = this.asked.length >= DOMAINS;
    const lately = this.accepted.filter(({ at }) => now - at < LATELY_MS);
    const isCold = lately.length === 0;
    const isAlone = isCold ? isRate && this.asked.length === 1 : lately.every((one) => one.domain === domain);
    this.alone = isOperators ? null : isAlone ? domain : this.alone;
    return !isOperators && !isAlone;
  }

  /** Counts an accepted mail. Returns whether it takes back what the answers of one other domain have set. */
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
