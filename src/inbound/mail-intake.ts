/** The limits of a listener, and how it takes the octets of a mail: how much memory mails may have while they come, and how slowly they may come. */
import type { Clock, Timer } from '../base/clock.ts';
import { ROOM_FOR_HEAD } from '../mail/submitted.ts';
import { LOOKS, Patience } from '../net/patience.ts';
import { MINUTE_MS } from '../base/time.ts';

/** Limits on what all clients together and one network may have at once. */
export type LimitName = 'connections' | 'connections_network' | 'memory' | 'memory_network';

export type ListenerLimits = typeof listenerLimits;

export const listenerLimits = {
  /** With this many open of strangers, the site that has most sessions without a proof or a user loses its oldest one to the next client. */
  connections: 500,
  connectionsPerAddress: 50,
  /** Connections of a /24 or /64. */
  connectionsPerNetwork: 500,
  connectionsPerMinute: 600,
  /** Places of clients, which are of a trusted network or have signed in, beside the `connections` of others. */
  clientConnections: 0,
  clientConnectionsPerMinute: null as number | null,
  /** Refused commands of one session until it is ended. */
  errors: 20,
  /** Failed sign-ins of one session until it is ended. */
  signIns: 10,
  /** Octets of mails in memory that are being received. */
  heldBytes: 256 * 1024 * 1024,
  /** The share of one network in `heldBytes`. */
  heldBytesPerNetwork: 256 * 1024 * 1024,
  idleMs: 30_000,
  greetingToMailMs: 60_000,
  commandMs: 30_000,
  dataMs: 10 * MINUTE_MS,
  /** Time that a mail may stay behind `dataPace`. */
  dataIdleMs: 30_000,
  /** Octets of a mail a second. */
  dataPace: 1024,
  sessionMs: 30 * MINUTE_MS,
};

/** Amounts by name, and in all; what falls to nothing is forgotten. */
export class Tally {
  total = 0;
  private readonly amounts = new Map<string, number>();

  of(name: string): number {
    return this.amounts.get(name) ?? 0;
  }

  add(name: string, amount: number): void {
    const sum = this.of(name) + amount;
    this.total += amount;
    if (sum > 0) this.amounts.set(name, sum);
    else this.amounts.delete(name);
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
  /** Octets of mails in memory that are being received, by network. */
  memory: Tally;
  keepBytes: number;
  limits: ListenerLimits;
}

/** Reads a mail for `use`; its octets count as memory until that is done. Rejects if the client leaves; `tooSlow`: behind the pace. */
export async function takeMail<Result>(
  { clock, limits, memory, keepBytes }: MailHold & { clock: Clock },
  { read, network, tooSlow }: { read: ReadMail; network: string; tooSlow: () => void },
  use: (mail: TakenMail) => Promise<Result>,
): Promise<Result> {
  const octets = new Octets();
  let size = 0;
  let full: LimitName | null = null;
  const pace = watchPace(clock, limits, () => size, tooSlow);
  try {
    await read((piece) => {
      size += piece.length;
      const part = piece.subarray(0, Math.max(0, keepBytes - octets.length));
      if (memory.total + part.length > limits.heldBytes) full ??= 'memory';
      else if (memory.of(network) + part.length > limits.heldBytesPerNetwork) full ??= 'memory_network';
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
  clock: Clock,
  { dataIdleMs, dataPace }: ListenerLimits,
  bytes: () => number,
  tooSlow: () => void,
): Timer {
  const step = dataIdleMs / LOOKS;
  const patience = new Patience({ idleMs: dataIdleMs, leastPace: dataPace });
  const look = (): void => {
    if (patience.isOver(step, bytes())) tooSlow();
    else timer = clock.after(step, look, { background: true });
  };
  let timer = clock.after(step, look, { background: true });
  return { cancel: () => timer.cancel() };
}
