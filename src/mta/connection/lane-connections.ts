/** Counts the connections of each lane, whatever host they lead to: receivers count those that are idle, too. */
import type { Connection } from './pooled-host.ts';

interface Counted {
  /** Connections that are open, being opened or being closed. */
  open: number;
  /** The idle ones, longest idle first. */
  readonly idle: Set<Connection>;
  readonly closing: Set<Promise<void>>;
}

const nothing: Readonly<Counted> = { open: 0, idle: new Set(), closing: new Set() };

export class LaneConnections {
  private readonly lanes = new Map<string, Counted>();

  count(lane: string, by: 1 | -1): void {
    const counted = this.lanes.get(lane) ?? { open: 0, idle: new Set(), closing: new Set() };
    counted.open += by;
    if (counted.open === 0) this.lanes.delete(lane);
    else this.lanes.set(lane, counted);
  }

  open(lane: string): number {
    return this.of(lane).open;
  }

  /** Returns the lanes with more than one connection. */
  withSeveral(): string[] {
    return [...this.lanes].flatMap(([lane, { open }]) => (open > 1 ? [lane] : []));
  }

  /** Notes that another lane uses the connection from now on. */
  move(connection: Connection, lane: string): void {
    if (connection.lane === lane) return;
    this.count(connection.lane, -1);
    this.count(lane, 1);
    connection.lane = lane;
  }

  keepIdle(connection: Connection): void {
    this.lanes.get(connection.lane)?.idle.add(connection);
  }

  removeIdle(connection: Connection): void {
    this.lanes.get(connection.lane)?.idle.delete(connection);
  }

  longestIdle(lane: string): Connection | null {
    const [first = null] = this.of(lane).idle;
    return first;
  }

  /** Counts the connection until it is closed. */
  closes(lane: string, closed: Promise<void>): void {
    const closing = this.lanes.get(lane)?.closing;
    closing?.add(closed);
    void closed.then(() => {
      closing?.delete(closed);
      this.count(lane, -1);
    });
  }

  /** Resolves when a connection that is being closed is gone; null if none is. */
  freed(lane: string): Promise<void> | null {
    const { closing } = this.of(lane);
    return closing.size === 0 ? null : Promise.race(closing);
  }

  private of(lane: string): Readonly<Counted> {
    return this.lanes.get(lane) ?? nothing;
  }
}
