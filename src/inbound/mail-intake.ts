/** The limits of a listener, and how it takes the octets of a mail: how much memory mails may have while they come, and how slowly they may come. */
import { giveBack } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { ROOM_FOR_HEAD } from '../mail/submitted.ts';
import { watchPace } from '../net/patience.ts';
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

/** Calls `take` with the octets of a mail until its end, each time with memory that is the taker's; rejects if the client leaves before that. */
export type ReadMail = (take: (octets: Buffer) => void) => Promise<void>;

/** A mail that has come, cut at `keepBytes`; `size` is that of all of it. */
export interface TakenMail {
  bytes: () => Buffer;
  size: number;
  /** The limit on memory that it went over, after which the rest was dropped. */
  full: LimitName | null;
}

/** Smaller pieces are copied at once: each is an object, which takes some hundred octets beside its own. */
const LEAST_BYTES = 2048;
/** Larger mails are copied into one memory as they come. */
const MOST_BYTES = 4 * 1024 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

/** Collects octets: in large pieces as they are, or in one memory, since a client may send its mail octet by octet. */
class Octets {
  length = 0;
  private readonly announced: number;
  private readonly pieces: Buffer[] = [];
  /** The memory, with room for a longer header; nothing while there are pieces alone. */
  private memory = NOTHING;

  constructor(announced: number) {
    this.announced = announced;
  }

  /** The part may be empty after it. */
  add(part: Buffer): void {
    const { memory, announced, length } = this;
    const size = (this.length += part.length);
    if (memory === NOTHING && part.length >= LEAST_BYTES && size <= MOST_BYTES) {
      this.pieces.push(part);
      return;
    }
    if (memory.length < ROOM_FOR_HEAD + size) {
      if (memory !== NOTHING) this.pieces.push(memory.subarray(ROOM_FOR_HEAD, ROOM_FOR_HEAD + length));
      // The system gives it as it is written to; but what is announced alone takes none.
      const most = memory === NOTHING ? size : 4 * size;
      this.memory = this.inOne(size > MOST_BYTES && announced >= size ? announced : most);
      giveBack([memory]);
    }
    part.copy(this.memory, ROOM_FOR_HEAD + length);
    if (part.length >= LEAST_BYTES) giveBack([part]);
  }

  /** Returns all of it, once; nothing is kept here then. */
  whole(): Buffer {
    const { memory, pieces, length } = this;
    this.memory = NOTHING;
    if (memory !== NOTHING) return memory.subarray(ROOM_FOR_HEAD, ROOM_FOR_HEAD + length);
    if (pieces.length === 1) return pieces.pop() ?? NOTHING;
    return this.inOne(length).subarray(ROOM_FOR_HEAD);
  }

  /** Moves the pieces into one memory with room for so many octets. */
  private inOne(most: number): Buffer {
    const memory = Buffer.allocUnsafeSlow(ROOM_FOR_HEAD + most);
    let at = ROOM_FOR_HEAD;
    const pieces = this.pieces.splice(0);
    for (const piece of pieces) at += piece.copy(memory, at);
    giveBack(pieces);
    return memory;
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
  {
    read,
    network,
    announced = 0,
    tooSlow,
  }: { read: ReadMail; network: string; announced?: number; tooSlow: () => void },
  use: (mail: TakenMail) => Promise<Result>,
): Promise<Result> {
  const octets = new Octets(Math.min(announced, keepBytes));
  let size = 0;
  let full: LimitName | null = null;
  const pace = watchPace(clock, { idleMs: limits.dataIdleMs, leastPace: limits.dataPace }, () => size, tooSlow);
  try {
    await read((piece) => {
      size += piece.length;
      const part = piece.subarray(0, Math.max(0, keepBytes - octets.length));
      if (memory.total + part.length > limits.heldBytes) full ??= 'memory';
      else if (memory.of(network) + part.length > limits.heldBytesPerNetwork) full ??= 'memory_network';
      if (full !== null || part.length === 0) return;
      memory.add(network, part.length);
      octets.add(part);
    });
    pace.cancel();
    return await use({ bytes: () => octets.whole(), size, full });
  } finally {
    pace.cancel();
    memory.add(network, -octets.length);
  }
}
