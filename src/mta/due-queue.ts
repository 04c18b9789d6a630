/**
 * The part of the queue that is in memory. A million waiting deliveries stay on disk; for each group (domain, class, account) that
 * has something waiting, memory holds when it falls due and the ids of the next few that are due. A group that runs low is read
 * again from its first row on; rows whose ids are in memory are skipped. Groups are found by hints, which come with the notifier, and by
 * a scan, which jumps from one group to the next in the partial index `deliveries_due`.
 *
 * A read begins at the group's floor, before which it has no rows, and ends a little after the next scan. So it does not walk over entries that
 * PostgreSQL keeps while a transaction elsewhere holds an old snapshot: those of finished mail, and those of ended claims.
 *
 * Groups that have jobs in memory are bounded in number, since a domain takes a few KB there with its lane, host and answers of DNS. While so
 * many have jobs, other groups wait for a place, accounts and classes in turns. A group whose jobs are done is read on a while before it
 * gives up its place, and those whose jobs do not go would keep theirs, so `makeRoom` asks for jobs that may rest on disk.
 *
 * Of several nodes each reads only the domains that are its own. When domains have moved, the groups of those that went are forgotten, and a
 * scan finds those that came; a job that is in a lane already is forgotten there, before its claim.
 */
import type { Timer } from '../base/clock.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Engine } from './engine.ts';
import type { SourcePreference } from './sources/sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import { DueHeap } from '../scheduling/due-heap.ts';
import type { LaneJob } from '../scheduling/lanes.ts';
import { Places, turnOf } from '../scheduling/places.ts';
import type { Connection } from '../storage/connection.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { statement } from '../storage/sql.ts';
import { integer, text } from '../storage/table.ts';

/** The waiting mail of one account, in one class, for one domain. */
export class Group {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  readonly turn: string;
  /** Jobs in memory: waiting in a lane or with a worker. */
  buffered = 0;
  /** True if there may be due rows that are not in memory. */
  hasMore = false;
  isBeingRead = false;
  /** How often it was read on since it had its place. */
  readsInPlace = 0;
  /** The group has no rows that fall due before this time. */
  floor = Infinity;
  /** When the first row that is not due yet falls due; null if none is known. */
  nextDueAt: number | null = null;
  /** The group is not read before then: its destination keeps its mail back. */
  restUntil = -Infinity;
  /** True once its domain belongs to another node: the group is forgotten here. */
  hasMoved = false;

  constructor(domain: string, order: number, account: string) {
    this.domain = domain;
    this.class = order;
    this.account = account;
    this.turn = turnOf({ class: order, share: account });
  }
}

export interface Job extends LaneJob {
  readonly domain: string;
  readonly group: Group;
  /** The sources that it asks for, once that is known. */
  preference?: SourcePreference;
  /** The source of the lane it waits in; null for the system's address. */
  source?: string | null;
  /** The lane that has counted it among the mails that it may begin in a minute, an hour or a day. */
  pacedLane?: string;
  /** Its mail, while it is made ready ahead of its turn; only the worker reads it. */
  ahead?: object;
}

/** How much earlier than a hint says its rows may fall due, in ms: that of another server has the time of another clock. */
const FLOOR_SLACK_MS = 2_000;
/** Rows that fall due later than this after a read, in ms, are found by the next scan. */
const READ_AHEAD_MS = SWEEP_MS + 10_000;
/** The jobs of a group in memory after a read. A lane of 10 connections works through this many in some tens of milliseconds. */
const WINDOW = 96;
/** A group with fewer jobs than this in memory is read again. */
const LOW = 32;
/** Jobs in memory altogether, about 250 bytes each. Beyond that only groups without any job are read, and only a little. */
const MOST_JOBS = 20_000;
/** Rows for a group while memory is full: mail for a slow destination, however much, never keeps out mail for another. */
const WINDOW_WHEN_FULL = 2;
/** How often a group is read on in its place while others wait for one. */
const MOST_READS_IN_PLACE = 32;
const MAKE_ROOM_MS = 1_000;
const GROUPS_AT_ONCE = 32;
const SCAN_PAGE = 2_000;
const RETRY_READING_MS = 1_000;

/**
 * Groups that have jobs in memory at a time, for each connection that may be open, and at least: a connection that becomes free finds its next
 * mail there. With 1,000 or 2,000 two accounts with mail to hosts that never answer keep a third one waiting for a place.
 */
const GROUPS_A_CONNECTION = 2;
const LEAST_GROUPS = 4_000;

const keyOf = (domain: string, order: number, account: string): string => `${domain} ${String(order)} ${account}`;

export class DueQueue {
  /** `db.maintenance` finds the groups: under an old snapshot that takes long, and the next rows of a group must not wait for it. */
  private readonly engine: Engine;
  private readonly groups = new Map<string, Group>();
  private readonly bufferedIds = new Set<string>();
  /** Groups to be read: those whose jobs have just been done, and those that have a few. */
  private readonly drained = new Set<Group>();
  private readonly low = new Set<Group>();
  /** Places of groups with jobs in memory, and groups to be read without any. A broadcast to however many domains leaves places for other mail. */
  private readonly places: Places<Group>;
  /** The groups by the time at which something falls due; an entry that is out of date reports its group once for nothing. */
  private readonly later = new DueHeap<Group>();
  private timer: Timer | null = null;
  private timerAt = Infinity;
  private isReading = false;
  /** Set while room is made, and for a second afterwards. */
  private isMakingRoom = false;
  private roomTimer: Timer | null = null;
  private pause: Timer | null = null;
  private isStopped = false;

  constructor(engine: Engine) {
    this.engine = engine;
    const most = Math.max(LEAST_GROUPS, GROUPS_A_CONNECTION * engine.options.maxConnections);
    this.places = new Places(() => most, { hasReserve: true });
  }

  /** Finds every group that has something waiting. Costs a few microseconds a group. */
  async scan(): Promise<void> {
    for (const group of this.groups.values()) group.restUntil = -Infinity;
    let after: GroupRow | null = null;
    do {
      const page: GroupRow[] = await readGroups(this.engine.db.maintenance, after, SCAN_PAGE);
      for (const row of page)
        if (this.engine.owners.isOurs(row.domain))
          this.noteDue(this.groupOf(row.domain, row.class, row.account_id), row.due_at);
      after = page.length < SCAN_PAGE ? null : (page.at(-1) ?? null);
    } while (after !== null && !this.isStopped);
  }

  /** Forgets the groups of domains that are not ours any more, and finds those that are now. */
  async domainsMoved(): Promise<void> {
    for (const [key, group] of this.groups) {
      if (this.engine.owners.isOurs(group.domain)) continue;
      group.hasMoved = true;
      this.groups.delete(key);
      this.low.delete(group);
      this.drained.delete(group);
      this.places.leave(group.turn, group);
    }
    await this.scan();
  }

  hint(hints: readonly DueHint[]): void {
    for (const { domain, class: order, accountId, dueAt, deliveryId } of hints)
      if (this.engine.owners.isOurs(domain)) this.noteDue(this.groupOf(domain, order, accountId), dueAt, deliveryId);
  }

  /** Forgets a job whose row was rewritten; `dueAt` is when it falls due again, or null. */
  done(job: Job, dueAt: number | null): void {
    const { group } = job;
    this.unbuffer(job);
    if (dueAt !== null) this.noteDue(group, dueAt);
    this.requestRead(group, true);
    this.forgetIfIdle(group);
    this.startReading();
  }

  /** Forgets the job and leaves its group alone until then, or until the next scan. Nothing is written. */
  rest(job: Job, until: number): void {
    const { group } = job;
    this.unbuffer(job);
    group.restUntil = Math.max(group.restUntil, until);
    group.hasMore = true;
    this.noteDue(group, until);
    this.startReading();
  }

  /** Returns whether a waiting group could use the place of this job. */
  needsPlaceOf({ group }: Job): boolean {
    return this.places.someWaits(group.turn);
  }

  wake(): void {
    for (const group of this.groups.values()) {
      if (group.restUntil === -Infinity) continue;
      group.restUntil = -Infinity;
      group.hasMore = true;
      this.requestRead(group);
    }
  }

  stop(): void {
    this.isStopped = true;
    for (const timer of [this.timer, this.pause, this.roomTimer]) timer?.cancel();
  }

  sizes(): { groups: number; jobs: number } {
    return { groups: this.groups.size, jobs: this.bufferedIds.size };
  }

  private groupOf(domain: string, order: number, account: string): Group {
    const key = keyOf(domain, order, account);
    let group = this.groups.get(key);
    if (group === undefined) {
      group = new Group(domain, order, account);
      this.groups.set(key, group);
    }
    return group;
  }

  /** Forgets a group with nothing in memory and nothing to come; a hint or a scan brings it back. */
  private forgetIfIdle(group: Group): void {
    const { domain, class: order, account, hasMoved, hasMore, nextDueAt } = group;
    if (!hasMoved && !hasPlace(group) && !hasMore && nextDueAt === null)
      this.groups.delete(keyOf(domain, order, account));
  }

  private buffer(group: Group, id: string): void {
    this.bufferedIds.add(id);
    this.hold(group, () => group.buffered++);
    this.engine.placing.place({ id, class: group.class, share: group.account, domain: group.domain, group });
  }

  private unbuffer({ id, group }: Job): void {
    if (this.bufferedIds.delete(id)) this.hold(group, () => group.buffered--);
  }

  /** Changes what gives a group its place, and takes the place or gives it back. */
  private hold(group: Group, change: () => void): void {
    const had = hasPlace(group);
    change();
    if (hasPlace(group) === had) return;
    if (had) this.places.giveBack(group.turn);
    else this.places.take(group.turn);
  }

  private noteDue(group: Group, dueAt: number, deliveryId?: string): void {
    // The new owner of a domain that has moved finds this by its next scan.
    if (group.hasMoved) return;
    group.floor = Math.min(group.floor, dueAt - FLOOR_SLACK_MS);
    if (dueAt <= this.engine.clock.now()) {
      if (deliveryId !== undefined && this.hasAllBefore(group)) {
        if (!this.bufferedIds.has(deliveryId)) this.buffer(group, deliveryId);
        return;
      }
      group.hasMore = true;
      this.requestRead(group);
    } else if (group.nextDueAt === null || dueAt < group.nextDueAt) {
      group.nextDueAt = dueAt;
      this.later.add(dueAt, group);
      this.setTimer();
    }
  }

  /** Returns whether all due rows of a group are in memory, and one more may be: then what was just written need not be read. */
  private hasAllBefore(group: Group): boolean {
    if (group.hasMore || group.isBeingRead || group.buffered >= WINDOW || this.isFull || this.isStopped) return false;
    if (this.isResting(group)) return false;
    return hasPlace(group) || (this.places.waiting === 0 && this.places.mayHave(group.turn));
  }

  private setTimer(): void {
    const { clock } = this.engine;
    const at = this.later.nextAt();
    if (at === null || this.isStopped || this.timerAt <= at) return;
    this.timer?.cancel();
    this.timerAt = at;
    this.timer = clock.after(at - clock.now(), () => {
      this.timerAt = Infinity;
      const now = clock.now();
      for (let group = this.later.takeDue(now); group !== undefined; group = this.later.takeDue(now))
        this.fellDue(group, now);
      this.setTimer();
    });
  }

  private fellDue(group: Group, now: number): void {
    if (group.nextDueAt !== null && group.nextDueAt <= now) {
      group.nextDueAt = null;
      group.hasMore = true;
    }
    // A row of a group that rests fell due: the group is read when its rest ends.
    if (this.isResting(group)) this.noteDue(group, group.restUntil);
    else this.requestRead(group);
  }

  private isResting({ restUntil }: Group): boolean {
    return restUntil > this.engine.clock.now();
  }

  /** `goesOn`: the group has or had a place until now. */
  private requestRead(group: Group, goesOn = false): void {
    if (this.isStopped || group.hasMoved || group.isBeingRead || !group.hasMore) return;
    if (this.isResting(group) || group.buffered >= LOW) return;
    if (group.buffered > 0) this.low.add(group);
    else {
      this.low.delete(group);
      if (goesOn && group.readsInPlace < MOST_READS_IN_PLACE) this.drained.add(group);
      else if (!this.drained.has(group)) this.places.wait(group.turn, group);
    }
    this.startReading();
  }

  private get isFull(): boolean {
    return this.bufferedIds.size >= MOST_JOBS;
  }

  private get mayRead(): boolean {
    if (this.isStopped || this.pause !== null) return false;
    return this.drained.size > 0 || this.places.waiting > 0 || (this.low.size > 0 && !this.isFull);
  }

  private startReading(): void {
    if (!this.isReading && this.mayRead) void this.readAll();
  }

  private async readAll(): Promise<void> {
    this.isReading = true;
    while (this.mayRead) {
      const some = this.takeGroups();
      if (some.length === 0) break;
      const hasFailed = await this.readSome(some);
      for (const group of some) {
        this.hold(group, () => (group.isBeingRead = false));
        this.requestRead(group, !hasFailed);
        this.forgetIfIdle(group);
      }
    }
    this.isReading = false;
    if (this.places.waiting > 0) this.askForRoom();
  }

  /** Takes groups that are to be read, and their places: those without a job go first, since a lane may be idle for want of them. */
  private takeGroups(): Group[] {
    const some: Group[] = [];
    const take = (group: Group): void => {
      // One that rests is read when its rest ends.
      if (this.isResting(group)) return;
      some.push(group);
      this.hold(group, () => (group.isBeingRead = true));
    };
    const takeFrom = (groups: Set<Group>): void => {
      for (const group of groups) {
        if (some.length >= GROUPS_AT_ONCE) return;
        groups.delete(group);
        take(group);
      }
    };
    takeFrom(this.drained);
    for (const group of some) group.readsInPlace++;
    while (some.length < GROUPS_AT_ONCE) {
      const next = this.places.next();
      if (next === undefined) break;
      next.item.readsInPlace = 0;
      take(next.item);
    }
    if (!this.isFull) takeFrom(this.low);
    return some;
  }

  private askForRoom(): void {
    if (this.isStopped || this.pause !== null || this.isMakingRoom) return;
    this.isMakingRoom = true;
    void this.engine.placing
      .makeRoom()
      .catch((error: unknown) => this.engine.failed(error))
      .finally(() => {
        if (this.isStopped) return;
        this.roomTimer = this.engine.clock.after(MAKE_ROOM_MS, () => {
          this.isMakingRoom = false;
          this.startReading();
        });
      });
  }

  /** Reads the groups and offers their jobs; returns whether that failed: then they are read when the storage has had time to recover. */
  private async readSome(some: readonly Group[]): Promise<boolean> {
    const { clock, db } = this.engine;
    const most = this.isFull ? WINDOW_WHEN_FULL : WINDOW;
    const now = clock.now();
    const reads = some.map(({ domain, class: order, account, floor: from }) => {
      return { domain, class: order, account, from, until: now + READ_AHEAD_MS };
    });
    // Mail that becomes due during the read lowers the floor and asks for another one.
    for (const group of some) {
      group.hasMore = false;
      group.floor = Infinity;
    }
    try {
      const rows = await readDueRows(db.prepared, reads, most);
      some.forEach((group, at) => this.takeRows(group, rows[at] ?? [], { most, readAt: now }));
      return false;
    } catch (error) {
      this.engine.failed(error);
      some.forEach((group, at) => {
        group.hasMore = true;
        group.floor = Math.min(group.floor, reads[at]?.from ?? -Infinity);
      });
      if (!this.isStopped)
        this.pause ??= clock.after(RETRY_READING_MS, () => {
          this.pause = null;
          this.startReading();
        });
      return true;
    }
  }

  private takeRows(group: Group, rows: readonly DueRow[], { most, readAt }: { most: number; readAt: number }): void {
    if (group.hasMoved) return;
    group.floor = Math.min(group.floor, rows[0]?.due_at ?? readAt, readAt);
    for (const { id, due_at: dueAt } of rows) {
      if (dueAt > this.engine.clock.now()) {
        this.noteDue(group, dueAt);
        return;
      }
      if (!this.bufferedIds.has(id)) this.buffer(group, id);
      if (this.isResting(group)) {
        group.hasMore = true;
        return;
      }
    }
    if (rows.length >= most) group.hasMore = true;
  }
}

const hasPlace = ({ buffered, isBeingRead }: Group): boolean => buffered > 0 || isBeingRead;

/** A group to read: its rows that fall due between two times. */
interface GroupToRead {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  readonly from: number;
  readonly until: number;
}

interface DueRow {
  /** The index of the row's group among those that were read. */
  place: number;
  id: string;
  due_at: number;
}

/** A group, and the due time of its first row. */
interface GroupRow {
  domain: string;
  class: number;
  account_id: string;
  due_at: number;
}

const groupsToRead = rowsParameter({
  place: integer(),
  domain: text(),
  class: integer(),
  account: text(),
  from_at: integer(),
  until: integer(),
});

/** SQLite has no LATERAL; its IN with a limit costs PostgreSQL a scan for each row that it tests. */
const dueRows = statement((sql) =>
  sql.engine === 'sqlite'
    ? `SELECT g.place, d.id, d.due_at FROM ${groupsToRead.table(sql, 'g')} CROSS JOIN deliveries d
     WHERE d.id IN (
       SELECT x.id FROM deliveries x
       WHERE x.domain = g.domain AND x.class = g.class AND x.account_id = g.account AND x.due_at IS NOT NULL
         AND x.due_at BETWEEN g.from_at AND g.until
       ORDER BY x.due_at, x.id LIMIT ?)
     ORDER BY g.place, d.due_at, d.id`
    : `SELECT g.place, d.id, d.due_at FROM ${groupsToRead.table(sql, 'g')} CROSS JOIN LATERAL (
       SELECT x.id, x.due_at FROM deliveries x
       WHERE x.domain = g.domain AND x.class = g.class AND x.account_id = g.account AND x.due_at IS NOT NULL
         AND x.due_at BETWEEN g.from_at AND g.until
       ORDER BY x.due_at, x.id LIMIT ?) d
     ORDER BY g.place, d.due_at, d.id`,
);

/** Reads at most `limit` rows of each group in the order of their due times, with one statement. */
async function readDueRows(db: Connection, groups: readonly GroupToRead[], limit: number): Promise<DueRow[][]> {
  const wanted = groups.map(({ from, ...group }, place) => ({ place, from_at: Math.max(0, from), ...group }));
  const rows = await db.all<DueRow>(dueRows, [groupsToRead.json(wanted), limit]);
  const byGroup: DueRow[][] = groups.map(() => []);
  for (const row of rows) byGroup[row.place]?.push(row);
  return byGroup;
}

/** Reads the groups after `after`. Each costs one jump in the index, so a million rows of one group cost no more than one. */
function readGroups(db: Connection, after: GroupRow | null, limit: number): Promise<GroupRow[]> {
  return db.all<GroupRow>(
    `WITH RECURSIVE g(domain, class, account_id, due_at) AS (
       SELECT * FROM (SELECT domain, class, account_id, due_at FROM deliveries
         WHERE due_at IS NOT NULL AND (domain, class, account_id) > (?, ?, ?)
         ORDER BY domain, class, account_id, due_at, id LIMIT 1) AS first
       UNION ALL
       SELECT d.domain, d.class, d.account_id, d.due_at FROM g JOIN deliveries d ON d.id = (
         SELECT x.id FROM deliveries x
         WHERE x.due_at IS NOT NULL AND (x.domain, x.class, x.account_id) > (g.domain, g.class, g.account_id)
         ORDER BY x.domain, x.class, x.account_id, x.due_at, x.id LIMIT 1))
     SELECT * FROM g LIMIT ?`,
    [after?.domain ?? '', after?.class ?? -1, after?.account_id ?? '', limit],
  );
}

/** Reads the domains with the most waiting mail. It reads the whole index: about 0.1 s for a million rows. */
export async function readFullestDomains(db: Connection, limit: number): Promise<string[]> {
  const rows = await db.all<{ domain: string }>(
    'SELECT domain FROM deliveries WHERE due_at IS NOT NULL GROUP BY domain ORDER BY COUNT(*) DESC, domain LIMIT ?',
    [limit],
  );
  return rows.map(({ domain }) => domain);
}
