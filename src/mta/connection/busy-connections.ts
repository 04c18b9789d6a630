/**
 * The connections that are being opened and those that carry a mail: how long their hosts have kept us waiting, and giving them up. The
 * pool has them here from the dial, or from the loan of an idle one, until they are given back.
 */
import type { Connection } from './pooled-host.ts';

/** The text in the attempt's record for a connection that others needed more. */
const GAVE_WAY = 'given up: it kept us waiting while other destinations had no connection';

export class BusyConnections {
  private readonly leased = new Set<Connection>();
  private readonly opening = new Map<AbortController, { since: number; lane: string }>();

  /** Notes that the lane opens a connection; `controller` aborts that. `since` is on the monotonic clock, in ms. */
  opens(controller: AbortController, lane: string, since: number): void {
    this.opening.set(controller, { since, lane });
  }

  /** Notes that a connection is open, or could not be opened. */
  opened(controller: AbortController): void {
    this.opening.delete(controller);
  }

  lend(connection: Connection): void {
    this.leased.add(connection);
  }

  giveBack(connection: Connection): void {
    this.leased.delete(connection);
  }

  /** Counts, for each lane, the connections whose host has kept us waiting in one phase since before this time. */
  waitingLong(before: number): Map<string, number> {
    const counts = new Map<string, number>();
    const count = (lane: string, since: number): void => {
      if (since <= before) counts.set(lane, (counts.get(lane) ?? 0) + 1);
    };
    for (const { lane, since } of this.opening.values()) count(lane, since);
    for (const { lane, session } of this.leased) count(lane, session.waitingSince ?? Infinity);
    return counts;
  }

  /**
   * Drops connections that have been waited for in one phase since before this time, except for `most` of them: those that waited
   * longest go first, none behind its final dot. Returns how many were dropped.
   */
  dropWaiting(before: number, most: number): number {
    const waiting: { since: number; drop: () => void }[] = [];
    for (const [controller, { since }] of this.opening) {
      const drop = (): void => controller.abort(GAVE_WAY);
      waiting.push({ since, drop });
    }
    for (const { session } of this.leased) {
      const drop = (): void => session.abandon(false, GAVE_WAY);
      waiting.push({ since: session.waitingSince ?? Infinity, drop });
    }
    const late = waiting.filter(({ since }) => since <= before).sort((a, b) => a.since - b.since);
    const dropped = late.slice(0, Math.max(0, late.length - most));
    for (const { drop } of dropped) drop();
    return dropped.length;
  }

  /** Drops every one, as the program stops; see `Session.abandon`. */
  abandon(evenPastDot: boolean): void {
    for (const controller of this.opening.keys()) controller.abort('given up: the program stops');
    for (const { session } of this.leased) session.abandon(evenPastDot);
  }
}
