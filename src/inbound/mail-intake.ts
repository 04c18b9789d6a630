/** Takes the octets of a mail from a session: how much memory mails may have while they come, and how slowly they may come. */
import type { Clock, Timer } from '../base/clock.ts';
import { ROOM_FOR_HEAD } from '../mail/submitted.ts';
import { LOOKS, Patience } from '../net/patience.ts';
import type { LimitName, ListenerLimits } from './listener-limits.ts';

/** Amounts by name; what falls to nothing is forgotten. */
export class Tally {
  private readonly amounts = new Map<string, number>();

  of(name: string): number {
    return this.amounts.get(name) ?? 0;
  }

  add(name: string, amount: number): void {
    const sum = this.of(name) + amount;
    if (sum > 0) this.amounts.set(name, sum);
    else this.amounts.delete(name);
  }
}

/** Octets of mails in memory that are being received, in all and by network. */
export class MailMemory {
  total = 0;
  readonly byNetwork = new Tally();

  add(network: string, bytes: number): void {
    this.total += bytes;
    this.byNetwork.add(network, bytes);
  }
}

/** Calls `take` with the octets of a mail until its end; rejects if the client leaves before that. */
export type ReadMail = (take: (octets: Buffer) => void) => Promise<void>;

/** A mail that has come, cut at `keepBytes`; `size` is that of all of it. */
export interface TakenMail {
  bytes: () => Buffer;
  size: number;
  /** The limit on memory that it went over, after which the rest was dropped. */
  full: LimitName | null;
}

const BLOCK_BYTES = 16 * 1024;

/** Smaller pieces are copied: each is an object, which takes some hundred octets beside its own. */
const LEAST_BYTES = 2048;

/** Collects octets: large pieces as they are, small ones in blocks, since a client may send its mail octet by octet. */
class Octets {
  length = 0;
  private readonly pieces: Buffer[] = [];
  private block = Buffer.alloc(0);
  private used = 0;

  add(part: Buffer): void {
    this.length += part.length;
    if (part.length >= LEAST_BYTES) {
      this.flush();
      this.pieces.push(part);
      return;
    }
    if (this.used + part.length > this.block.length) {
      this.flush();
      this.block = Buffer.allocUnsafe(BLOCK_BYTES);
    }
    this.used += part.copy(this.block, this.used);
  }

  /** Returns all of it, once; nothing is kept here then. */
  whole(): Buffer {
    this.flush();
    const pieces = this.pieces.splice(0);
    if (pieces.length === 1 && pieces[0] !== undefined) return pieces[0];
    const whole = Buffer.allocUnsafeSlow(ROOM_FOR_HEAD + this.length);
    let at = ROOM_FOR_HEAD;
    for (const piece of pieces) at += piece.copy(whole, at);
    return whole.subarray(ROOM_FOR_HEAD);
  }

  /** Puts what is in the block among the pieces; the rest of the block is used for what comes next. */
  private flush(): void {
    if (this.used === 0) return;
    this.pieces.push(this.block.subarray(0, this.used));
    this.block = this.block.subarray(this.used);
    this.used = 0;
  }
}

/** How a mail is held while it arrives: how much of it, and in which memory. */
export interface MailHold {
  memory: MailMemory;
  keepBytes: number;
  limits: ListenerLimits;
}

export interface IntakeDeps extends MailHold {
  clock: Clock;
}

/**
 * Reads a mail to its end and hands it to `use`; its octets count as memory in use until that is done. Rejects if the client leaves in the
 * middle. Calls `tooSlow` when the mail has fallen behind the pace.
 */
export async function takeMail<Result>(
  { clock, limits, memory, keepBytes }: IntakeDeps,
  { read, network, tooSlow }: { read: ReadMail; network: string; tooSlow: () => void },
  use: (mail: TakenMail) => Promise<Result>,
): Promise<Result> {
  const octets = new Octets();
  let size = 0;
  let full: LimitName | null = null;
  const pace = watchPace({ clock, limits }, () => size, tooSlow);
  try {
    await read((piece) => {
      size += piece.length;
      const part = piece.subarray(0, Math.max(0, keepBytes - octets.length));
      if (memory.total + part.length > limits.heldBytes) full ??= 'memory';
      else if (memory.byNetwork.of(network) + part.length > limits.heldBytesPerNetwork) full ??= 'memory_network';
      if (full !== null || part.length === 0) return;
      octets.add(part);
      memory.add(network, part.length);
    });
    pace.cancel();
    return await use({ bytes: () => octets.whole(), size, full });
  } finally {
    pace.cancel();
    memory.add(network, -octets.length);
  }
}

/** Calls `tooSlow` once. Time in which this process was too busy to look is not counted. */
function watchPace(
  { clock, limits }: Pick<IntakeDeps, 'clock' | 'limits'>,
  bytes: () => number,
  tooSlow: () => void,
): Timer {
  const step = limits.dataIdleMs / LOOKS;
  const patience = new Patience({ idleMs: limits.dataIdleMs, leastPace: limits.dataPace });
  const look = (): void => {
    if (patience.isOver(step, bytes())) tooSlow();
    else timer = clock.after(step, look, { background: true });
  };
  let timer = clock.after(step, look, { background: true });
  return { cancel: () => timer.cancel() };
}
