/** Takes the octets of a mail from a session: how much memory mails may have while they come, and how slowly they may come. */
import type { Clock, Timer } from '../base/clock.ts';
import { LOOKS, Patience } from '../net/patience.ts';
import type { LimitName, ListenerLimits } from './listener-limits.ts';
import { Tally } from './tally.ts';

/** Octets of mails in memory that are being received, in all and by network. */
export class MailMemory {
  total = 0;
  readonly byNetwork = new Tally();

  add(network: string, bytes: number): void {
    this.total += bytes;
    this.byNetwork.add(network, bytes);
  }
}

/** A mail that has come, cut at `keepBytes`; `size` is that of all of it. */
export interface TakenMail {
  bytes: () => Buffer;
  size: number;
  /** The limit on memory that it went over, after which the rest was dropped. */
  full: LimitName | null;
}

const BLOCK_BYTES = 16 * 1024;

/** Collects octets in blocks. A mail of lines with one dot each comes in pieces of two octets, and as an object a piece takes fifty times that. */
class Octets {
  length = 0;
  private readonly blocks: Buffer[] = [];
  private block = Buffer.alloc(0);

  add(part: Buffer): void {
    for (let from = 0; from < part.length;) {
      const used = this.length % BLOCK_BYTES;
      if (used === 0) this.blocks.push((this.block = Buffer.allocUnsafe(BLOCK_BYTES)));
      const copied = part.copy(this.block, used, from);
      from += copied;
      this.length += copied;
    }
  }

  whole(): Buffer {
    return Buffer.concat(this.blocks, this.length);
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
  { stream, network, tooSlow }: { stream: AsyncIterable<Buffer>; network: string; tooSlow: () => void },
  use: (mail: TakenMail) => Promise<Result>,
): Promise<Result> {
  const octets = new Octets();
  let size = 0;
  let full: LimitName | null = null;
  const pace = watchPace({ clock, limits }, () => size, tooSlow);
  try {
    for await (const chunk of stream) {
      size += chunk.length;
      const part = chunk.subarray(0, Math.max(0, keepBytes - octets.length));
      if (memory.total + part.length > limits.heldBytes) full ??= 'heldBytes';
      else if (memory.byNetwork.of(network) + part.length > limits.heldBytesPerNetwork) full ??= 'heldBytesPerNetwork';
      if (full !== null || part.length === 0) continue;
      octets.add(part);
      memory.add(network, part.length);
    }
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
