/** Senders of a torture test, what was answered, and whether all of it was finished. */
import { randomUUID } from 'node:crypto';
import type { Appliance } from '../bench/appliance.ts';

export interface Load {
  /** Ids of messages that were answered with 202. */
  accepted: Set<string>;
  /** Requests without an answer that counts, by their idempotency key: they are sent again. */
  unanswered: Map<string, string>;
}

export const newLoad = (): Load => ({ accepted: new Set(), unanswered: new Map() });

/** Sends while it is wanted. A request that got no answer is sent again with its key. */
export async function sender(
  appliance: Pick<Appliance, 'url'>,
  { load, key, wanted }: { load: Load; key: string; wanted: () => boolean },
): Promise<void> {
  while (wanted()) {
    const [again] = load.unanswered;
    const id = again?.[0] ?? randomUUID();
    const body =
      again?.[1] ?? JSON.stringify({ from: 'a@torture.test', to: `${id}@dest.test`, subject: 'x', html: '<p>x</p>' });
    load.unanswered.delete(id);
    try {
      const answer = await fetch(`${appliance.url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': id },
        body,
      });
      const record = (await answer.json()) as { id?: string };
      if (answer.status === 202 && record.id !== undefined) load.accepted.add(record.id);
      else load.unanswered.set(id, body);
    } catch {
      load.unanswered.set(id, body);
    }
  }
}

export interface Books {
  balanced: boolean;
  accepted: number;
  lines: { status: string; found: number }[];
  faults: string[];
}

/** Returns whether no mail waits any more. Throws if the books do not balance. */
export function finished({ balanced, faults, lines }: Books): boolean {
  if (!balanced) throw new Error(faults.join('; '));
  return lines.every(
    ({ status, found }) => found === 0 || !['queued', 'sent', 'deferred', 'scheduled'].includes(status),
  );
}
