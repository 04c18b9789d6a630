/** One timer for the groups that have something due later: it runs for the earliest of them. */
import type { Clock, Timer } from '../base/clock.ts';
import { DueHeap } from '../scheduling/due-heap.ts';

/** The part of a group that the timer reads and writes. */
export interface TimedGroup {
  /** When the first row that is not due yet falls due, in ms; null if no such row is known. */
  nextDueAt: number | null;
}

/** Entries beyond one for each group that the heap may have before it is built again from the groups. */
const MOST_STALE_ENTRIES = 1_000;

export class DueTimer<Group extends TimedGroup> {
  private heap = new DueHeap<Group>();
  private timer: Timer | null = null;
  private timerAt = Infinity;
  private isStopped = false;
  private readonly clock: Clock;
  private readonly groups: ReadonlyMap<string, Group>;
  private readonly fellDue: (group: Group, now: number) => void;

  /** `fellDue` is called with each group whose time has come. */
  constructor(clock: Clock, groups: ReadonlyMap<string, Group>, fellDue: (group: Group, now: number) => void) {
    this.clock = clock;
    this.groups = groups;
    this.fellDue = fellDue;
  }

  /** Notes that something of the group falls due at `dueAt`; a later time than the one it has changes nothing. */
  note(group: Group, dueAt: number): void {
    if (group.nextDueAt !== null && dueAt >= group.nextDueAt) return;
    group.nextDueAt = dueAt;
    this.heap.add(dueAt, group);
    if (this.heap.size > this.groups.size + MOST_STALE_ENTRIES) this.rebuild();
    this.schedule();
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.cancel();
  }

  /** A group whose time moves forward again and again leaves a stale entry behind each time. */
  private rebuild(): void {
    this.heap = new DueHeap();
    for (const group of this.groups.values()) if (group.nextDueAt !== null) this.heap.add(group.nextDueAt, group);
  }

  private schedule(): void {
    const at = this.heap.nextAt();
    if (at === null || this.isStopped || this.timerAt <= at) return;
    this.timer?.cancel();
    this.timerAt = at;
    this.timer = this.clock.after(at - this.clock.now(), () => this.fire());
  }

  /** A stale entry reports its group once for nothing. */
  private fire(): void {
    this.timerAt = Infinity;
    const now = this.clock.now();
    for (let group = this.heap.takeDue(now); group !== undefined; group = this.heap.takeDue(now))
      this.fellDue(group, now);
    this.schedule();
  }
}
