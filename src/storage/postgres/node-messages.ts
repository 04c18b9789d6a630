/**
 * Messages between nodes by NOTIFY, sent after the commit that they tell of, alone and gathered for some milliseconds: inside a group of writes it
 * would hold a lock of the whole database until the group is on the disk.
 */
import type { Clock } from '../../base/clock.ts';
import type { NodeMessage } from '../nodes.ts';
import type { PostgresConnection } from './connection.ts';

export const CHANNEL = 'posthorn_nodes';
const GATHERED_MS = 5;
/** PostgreSQL takes payloads of less than 8,000 bytes; the rest is for the frame. */
const MOST_BYTES = 7000;

export class NodeMessages {
  private readonly connection: Pick<PostgresConnection, 'all'>;
  private readonly clock: Pick<Clock, 'after'>;
  private readonly waiting = new Set<string>();
  private readonly listeners = new Set<(message: NodeMessage | null) => void>();
  private isSending = false;
  /** The epoch of this node, by which it knows its own messages. */
  epoch = 0;

  constructor(connection: Pick<PostgresConnection, 'all'>, clock: Pick<Clock, 'after'>) {
    this.connection = connection;
    this.clock = clock;
  }

  tell(message: NodeMessage): void {
    for (const one of fitting(message)) this.waiting.add(JSON.stringify(one));
    if (this.isSending) return;
    this.isSending = true;
    this.clock.after(GATHERED_MS, () => void this.send());
  }

  listen(listener: (message: NodeMessage | null) => void): void {
    this.listeners.add(listener);
  }

  /** Takes a payload of the channel. Those of other programs are left alone. */
  arrived(payload: string): void {
    const read = parsed(payload);
    if (read === null || read.from === this.epoch) return;
    for (const message of read.messages) this.each(message);
  }

  /** Tells the listeners here what no message has told. */
  missed(about: string): void {
    this.each({ about, hint: null });
  }

  /** Sends a message now; resolves when it is sent or lost. */
  async flush(message: NodeMessage): Promise<void> {
    this.waiting.add(JSON.stringify(message));
    await this.send();
  }

  /** Messages may have been lost: the connection was. */
  lost(): void {
    this.each(null);
  }

  private each(message: NodeMessage | null): void {
    for (const listener of this.listeners) listener(message);
  }

  private async send(): Promise<void> {
    while (this.waiting.size > 0) {
      let bytes = 0;
      const some: string[] = [];
      for (const one of this.waiting) {
        bytes += Buffer.byteLength(one) + 1;
        if (some.length > 0 && bytes > MOST_BYTES) break;
        this.waiting.delete(one);
        some.push(one);
      }
      const payload = `{"from":${String(this.epoch)},"messages":[${some.join(',')}]}`;
      // A message that is lost with its connection is found by the polls of those who would have heard it.
      await this.connection.all('SELECT pg_notify(?, ?)', [CHANNEL, payload]).catch(() => undefined);
    }
    this.isSending = false;
  }
}

/** Divides a hint that is a list until it fits; one that does not fit says only that there is something to look for. */
function fitting(message: NodeMessage): NodeMessage[] {
  const { about, hint = null } = message;
  if (Buffer.byteLength(JSON.stringify(hint)) < MOST_BYTES) return [{ about, hint }];
  if (!Array.isArray(hint) || hint.length < 2) return [{ about, hint: null }];
  const half = Math.ceil(hint.length / 2);
  return [hint.slice(0, half), hint.slice(half)].flatMap((part: unknown[]) => fitting({ about, hint: part }));
}

function parsed(payload: string): { from: number; messages: NodeMessage[] } | null {
  try {
    const read = JSON.parse(payload) as { from?: unknown; messages?: unknown } | null;
    if (typeof read?.from !== 'number' || !Array.isArray(read.messages)) return null;
    return { from: read.from, messages: read.messages as NodeMessage[] };
  } catch {
    return null;
  }
}
