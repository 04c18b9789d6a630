/** Who misbehaves: addresses with so many faults in a while are shut out for a while. Pure: the time is handed in. */
import { addressBucket } from '../base/ip.ts';

export interface OffenderRule {
  /** Faults until an address is shut out. */
  most: number;
  /** Faults older than this are forgotten, and so long is it shut out, in milliseconds. */
  forMs: number;
}

/** More addresses than this are not remembered: the oldest goes. */
const MOST_KNOWN = 20_000;

export class Offenders {
  private readonly rule: OffenderRule;
  private readonly known = new Map<string, { faults: number; since: number }>();

  constructor(rule: OffenderRule) {
    this.rule = rule;
  }

  /** One fault more; how many it is by now. */
  note(address: string, now: number): number {
    const bucket = addressBucket(address);
    const before = this.known.get(bucket);
    const fresh = before !== undefined && now - before.since < this.rule.forMs ? before : { faults: 0, since: now };
    const entry = { faults: fresh.faults + 1, since: fresh.faults + 1 >= this.rule.most ? now : fresh.since };
    this.known.delete(bucket);
    this.known.set(bucket, entry);
    const [oldest] = this.known.keys();
    if (this.known.size > MOST_KNOWN && oldest !== undefined) this.known.delete(oldest);
    return entry.faults;
  }

  isShutOut(address: string, now: number): boolean {
    const entry = this.known.get(addressBucket(address));
    return entry !== undefined && entry.faults >= this.rule.most && now - entry.since < this.rule.forMs;
  }

  forgive(address: string): void {
    this.known.delete(addressBucket(address));
  }
}
