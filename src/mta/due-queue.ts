/**
 * The part of the queue that is in memory. A million waiting deliveries stay on disk; for each group (domain, class, account) that
 * has something waiting, memory holds when it falls due and the ids of the next few that are due. A group that runs low is read
 * again from the partial index `deliveries_due` (due-rows.ts). Groups are found by jumping from one to the next in that index,
 * and from the hints that come with the notifier.
 *
 * A group is read in passes: from its beginning to the last row that is due. Rows whose ids are in memory are skipped.
 * Rows that were committed behind the cursor are found by the next pass, which a hint asks for, or the end of a pass that
 * began in the middle.
 *
 * While a transaction elsewhere holds an old snapshot (any pg_dump), PostgreSQL keeps the index entries of rows that changed since, and
 * reading walks over them: those of finished mail before the rows that are due, those of ended claims (whose due time was the end of
 * their lease) behind them. So a pass begins at the group's floor, and reads beyond the present only if it is not known what falls due
 * next. Both are kept right by hints; a scan, which gives the first row of each group, corrects them if a hint was lost.
 *
 * Groups that have jobs in memory are bounded in number, since a domain takes a few KB there with its lane, host and answers of DNS. While so
 * many have jobs, other groups wait for a place, accounts and classes in turns. A group whose jobs are done is read on a while before it
 * gives up its place, and those whose jobs do not go would keep theirs, so `makeRoom` asks for jobs that may rest on disk.
 *
 * Of several nodes each reads only the domains that are its own. When domains have moved, the groups of those that went are forgotten, and a
 * scan finds those that came; a job that is in a lane already is forgotten there, before its claim.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { LaneJob } from '../scheduling/lanes.ts';
import { PlaceLine } from '../scheduling/place-line.ts';
import { Places, turnOf } from '../scheduling/places.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Connection } from '../storage/connection.ts';
import { beginRead, isIdle, keyOf, newGroup, type Group, type Read } from './due-group.ts';
import { readDueRows, readGroups, type DueRow, type GroupRow } from './due-rows.ts';
import { DueTimer } from './due-timer.ts';
import type { SourcePreference } from './sources/sources.ts';

/** A delivery in memory: what is needed to find its lane and its turn. */
export interface Job extends LaneJob {
  readonly domain: string;
  /** The group that it was read from. */
  readonly group: Group;
  /** The sources that it asks for, once that is known. */
  preference?: SourcePreference;
  /** The source of the lane it waits in; null for the system's address. */
  source?: string | null;
  /** The site at which it is counted among the mails that its source may send today. */
  quotaSite?: string;
  /** The lane that has counted it among the mails that it may begin in a minute. */
  pacedLane?: string;
}

export interface DueQueueDeps {
  /** `maintenance` finds the groups: under an old snapshot that takes long, and the next rows of a group must not wait for it. */
  db: { prepared: Connection; maintenance: Connection };
  clock: Clock;
  /** Groups that have jobs in memory at a time. */
  mostGroups: number;
  /** Returns whether this node delivers the mail of a domain. */
  isOurs(domain: string): boolean;
  /** Tells all nodes, this one included, when mail falls due whose domain has moved meanwhile. */
  tell(hints: readonly DueHint[]): void;
  /** Takes a job that is due. */
  offer(job: Job): void;
  /** Asks for `rest` of jobs that do not go soon: groups wait for a place. Is called again and again as long as that lasts. */
  makeRoom(): Promise<void>;
  /** Reports that reading failed; it is tried again after a while. */
  failed(error: unknown): void;
}

/** How much earlier than a hint says its rows may fall due, in ms: that of another server has the time of another clock. */
const FLOOR_SLACK_MS = 2_000;
/** Rows read for a group at a time. A lane of 10 connections works through this many in some tens of milliseconds. */
const ROWS_AT_ONCE = 64;
/** A group with fewer jobs than this in memory is read again. */
const LOW = 32;
/** Jobs in memory altogether, about 250 bytes each. Beyond that only groups without any job are read, and only a little. */
const MOST_JOBS = 20_000;
/** Rows for a group while memory is full: mail for a slow destination, however much, never keeps out mail for another. */
const ROWS_WHEN_FULL = 2;
/** How often a group is read on in its place while others wait for one. */
const MOST_READS_IN_PLACE = 32;
const MAKE_ROOM_MS = 1_000;
/** Groups read by one statement. */
const GROUPS_AT_ONCE = 32;
const SCAN_PAGE = 2_000;
const RETRY_READING_MS = 1_000;

/** Accounts take turns, and the classes of an account. */
const turnOfGroup = (group: Group): string => turnOf({ class: group.class, share: group.account });

export class DueQueue {
  private readonly deps: DueQueueDeps;
  private readonly groups = new Map<string, Group>();
  private readonly bufferedIds = new Set<string>();
  /** Groups to be read whose jobs have just been done. */
  private readonly drained = new Set<Group>();
  /** Groups to be read that have a few. */
  private readonly low = new Set<Group>();
  private readonly timer: DueTimer<Group>;
  private isReading = false;
  /** Of the groups that have jobs in memory; a broadcast, however many domains it goes to, leaves places for other mail. */
  private readonly places: Places;
  /** Groups to be read that have no job in memory: they go first, since a lane may be idle for want of them. */
  private readonly empty: PlaceLine<Group>;
  /** Set while room is made, and for a second afterwards. */
  private isMakingRoom = false;
  private roomTimer: Timer | null = null;
  /** Set while reading pauses after a failure. */
  private pause: Timer | null = null;
  private isStopped = false;
  /** A scan has ended since domains moved: a group of ours that is not in memory has no rows, or a hint comes for each of them. */
  private hasScanned = false;
  /** Counts the times that domains have moved. */
  private moves = 0;

  constructor(deps: DueQueueDeps) {
    this.deps = deps;
    this.places = new Places(() => deps.mostGroups, { hasReserve: true });
    this.empty = new PlaceLine(this.places);
    this.timer = new DueTimer(deps.clock, this.groups, (group, now) => this.fellDue(group, now));
  }

  /** Finds every group that has something waiting. Costs a few microseconds a group. */
  async scan(): Promise<void> {
    const { moves } = this;
    for (const group of this.groups.values()) group.restUntil = -Infinity;
    let after: GroupRow | null = null;
    do {
      const page: GroupRow[] = await readGroups(this.deps.db.maintenance, after, SCAN_PAGE);
      for (const row of page)
        if (this.deps.isOurs(row.domain))
          this.noteDue(this.groupOf(row.domain, row.class, row.account_id, false), row.due_at);
      after = page.length < SCAN_PAGE ? null : (page.at(-1) ?? null);
    } while (after !== null && !this.isStopped);
    if (moves === this.moves) this.hasScanned = true;
  }

  /** Forgets the groups of domains that are not ours any more, and finds those that are now. */
  async domainsMoved(): Promise<void> {
    this.moves++;
    this.hasScanned = false;
    for (const [key, group] of this.groups) {
      if (this.deps.isOurs(group.domain)) continue;
      group.hasMoved = true;
      this.groups.delete(key);
      this.low.delete(group);
      this.drained.delete(group);
      this.empty.delete(turnOfGroup(group), group);
    }
    await this.scan();
  }

  /** Notes that something has become due. */
  hint(hints: readonly DueHint[]): void {
    for (const { domain, class: order, accountId, dueAt } of hints)
      if (this.deps.isOurs(domain)) this.noteDue(this.groupOf(domain, order, accountId, this.hasScanned), dueAt);
  }

  /** Forgets a job whose row was rewritten; `dueAt` is when it falls due again, or null. */
  done(job: Job, dueAt: number | null): void {
    const { group } = job;
    this.unbuffer(job);
    if (dueAt !== null) this.noteOrTell(group, dueAt);
    this.requestRead(group, true);
    this.forgetIfIdle(group);
    this.startReading();
  }

  /** Forgets the job and leaves its group alone until then, or until the next scan. Nothing is written. */
  rest(job: Job, until: number): void {
    const { group } = job;
    this.unbuffer(job);
    group.restUntil = Math.max(group.restUntil, until);
    group.hasUnseen = true;
    // It is behind the cursor, and mail that keeps coming would put off the end of the pass.
    if (!group.isBeingRead) group.cursor = null;
    this.noteOrTell(group, until);
    this.startReading();
  }

  /** Returns whether a waiting group could use the place of this job. */
  needsPlaceOf({ group }: Job): boolean {
    return this.empty.some(turnOfGroup(group));
  }

  /** Returns whether all due mail of this domain and account waits for a place in memory. */
  awaitsPlace(domain: string, account: string): boolean {
    const groups = [0, 1].flatMap((order) => this.groups.get(keyOf(domain, order, account)) ?? []);
    const due = groups.filter(({ holders, hasUnseen, cursor }) => holders > 0 || hasUnseen || cursor !== null);
    const waits = (group: Group): boolean =>
      group.holders === 0 && !this.isResting(group) && !this.places.mayHave(turnOfGroup(group));
    return due.length > 0 && due.every(waits);
  }

  /** Forgets a job whose domain is not ours any more: its owner finds it in the database. */
  leave(job: Job): void {
    this.unbuffer(job);
    this.startReading();
  }

  /** Ends all rests: the groups are read again. */
  wake(): void {
    for (const group of this.groups.values()) {
      if (group.restUntil === -Infinity) continue;
      group.restUntil = -Infinity;
      group.hasUnseen = true;
      this.requestRead(group);
    }
  }

  stop(): void {
    this.isStopped = true;
    this.timer.stop();
    this.pause?.cancel();
    this.roomTimer?.cancel();
  }

  /** Counts the groups and the jobs in memory, for metrics. */
  sizes(): { groups: number; jobs: number } {
    return { groups: this.groups.size, jobs: this.bufferedIds.size };
  }

  private groupOf(domain: string, order: number, account: string, isNextKnown: boolean): Group {
    const key = keyOf(domain, order, account);
    let group = this.groups.get(key);
    if (group === undefined) {
      group = newGroup(domain, order, account, isNextKnown);
      this.groups.set(key, group);
    }
    return group;
  }

  /** Forgets a group with nothing in memory and nothing to come; a hint or a scan brings it back. */
  private forgetIfIdle(group: Group): void {
    if (!group.hasMoved && isIdle(group)) this.groups.delete(keyOf(group.domain, group.class, group.account));
  }

  private buffer(group: Group, id: string): void {
    this.bufferedIds.add(id);
    group.buffered++;
    this.hold(group);
    this.deps.offer({ id, class: group.class, share: group.account, domain: group.domain, group });
  }

  private unbuffer({ id, group }: Job): void {
    if (!this.bufferedIds.delete(id)) return;
    group.buffered--;
    this.letGo(group);
  }

  private hold(group: Group): void {
    if (group.holders++ === 0) this.places.add(turnOfGroup(group));
  }

  private letGo(group: Group): void {
    if (--group.holders === 0) this.places.remove(turnOfGroup(group));
  }

  /** The domain may have moved, also away and back, while the job was in hand. */
  private noteOrTell(group: Group, dueAt: number): void {
    if (!group.hasMoved) this.noteDue(group, dueAt);
    else this.deps.tell([{ domain: group.domain, class: group.class, accountId: group.account, dueAt }]);
  }

  private noteDue(group: Group, dueAt: number): void {
    group.floor = Math.min(group.floor, dueAt - FLOOR_SLACK_MS);
    if (dueAt > this.deps.clock.now()) this.timer.note(group, dueAt);
    else {
      group.hasUnseen = true;
      this.requestRead(group);
    }
  }

  private fellDue(group: Group, now: number): void {
    if (group.nextDueAt !== null && group.nextDueAt <= now) {
      group.nextDueAt = null;
      group.isNextKnown = false;
      group.hasUnseen = true;
    }
    if (group.hasMoved) return;
    // A row of a group that rests fell due: the group is read when its rest ends.
    if (this.isResting(group)) this.noteDue(group, group.restUntil);
    else this.requestRead(group);
  }

  private isResting({ restUntil }: Group): boolean {
    return restUntil > this.deps.clock.now();
  }

  /** `goesOn`: the group has or had a place until now. */
  private requestRead(group: Group, goesOn = false): void {
    if (this.isStopped || group.hasMoved || group.isBeingRead || this.isResting(group) || group.buffered >= LOW) return;
    if (!group.hasUnseen && group.cursor === null) return;
    if (group.buffered > 0) this.low.add(group);
    else {
      this.low.delete(group);
      if (goesOn && group.readsInPlace < MOST_READS_IN_PLACE) this.drained.add(group);
      else if (!this.drained.has(group)) this.empty.add(turnOfGroup(group), group);
    }
    this.startReading();
  }

  private get isFull(): boolean {
    return this.bufferedIds.size >= MOST_JOBS;
  }

  private get mayRead(): boolean {
    if (this.isStopped || this.pause !== null) return false;
    return this.drained.size > 0 || this.empty.all > 0 || (this.low.size > 0 && !this.isFull);
  }

  private startReading(): void {
    if (!this.isReading && this.mayRead) void this.readAll();
  }

  private async readAll(): Promise<void> {
    this.isReading = true;
    while (this.mayRead) {
      const some = this.takeGroups();
      if (some.length === 0) break;
      const error = await this.readSome(some);
      for (const group of some) {
        group.isBeingRead = false;
        this.letGo(group);
      }
      if (error !== null) this.pauseReading(some, error);
      else
        for (const group of some) {
          this.requestRead(group, true);
          this.forgetIfIdle(group);
        }
    }
    this.isReading = false;
    if (this.empty.all > 0) this.askForRoom();
  }

  /** Takes groups that are to be read, and their places. One that rests is read when its rest ends. */
  private takeGroups(): Group[] {
    const some: Group[] = [];
    const take = (group: Group): void => {
      if (this.isResting(group)) return;
      some.push(group);
      group.isBeingRead = true;
      this.hold(group);
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
      const group = this.takeFromLine();
      if (group === null) break;
      take(group);
    }
    if (!this.isFull) takeFrom(this.low);
    return some;
  }

  /** Takes the next group for which there is a place beside those that are about to be read. */
  private takeFromLine(): Group | null {
    const next = this.empty.next();
    if (next === undefined) return null;
    next.item.readsInPlace = 0;
    return next.item;
  }

  private askForRoom(): void {
    if (this.isStopped || this.pause !== null || this.isMakingRoom) return;
    this.isMakingRoom = true;
    void this.deps
      .makeRoom()
      .catch((error: unknown) => this.deps.failed(error))
      .finally(() => {
        if (this.isStopped) return;
        this.roomTimer = this.deps.clock.after(MAKE_ROOM_MS, () => {
          this.isMakingRoom = false;
          this.startReading();
        });
      });
  }

  /** Reads the groups and offers their jobs; returns the error of a failure, or null. */
  private async readSome(some: readonly Group[]): Promise<unknown> {
    const now = this.deps.clock.now();
    const limit = this.isFull ? ROWS_WHEN_FULL : ROWS_AT_ONCE;
    const reads = some.map((group) => beginRead(group, now));
    try {
      const rows = await readDueRows(this.deps.db.prepared, reads, limit);
      reads.forEach((read, i) => this.takeRows(read, rows[i] ?? [], limit));
      return null;
    } catch (error) {
      for (const { group, after } of reads) group.floor = Math.min(group.floor, after.dueAt);
      return error;
    }
  }

  /** Reads the groups again from their beginnings when the storage has had time to recover. */
  private pauseReading(some: readonly Group[], error: unknown): void {
    this.deps.failed(error);
    if (this.isStopped) return;
    this.pause ??= this.deps.clock.after(RETRY_READING_MS, () => {
      this.pause = null;
      this.startReading();
    });
    for (const group of some) {
      group.cursor = null;
      group.isNextKnown = false;
      group.hasUnseen = true;
      this.requestRead(group);
    }
  }

  private takeRows({ group, begunAt, until }: Read, rows: readonly DueRow[], limit: number): void {
    if (group.hasMoved) return;
    const now = this.deps.clock.now();
    const beganAt = group.cursor;
    // The hints of what was committed since the read began have lowered the floor meanwhile.
    if (beganAt === null) group.floor = Math.min(group.floor, rows[0]?.due_at ?? begunAt, begunAt);
    for (const row of rows) {
      if (row.due_at > now) {
        group.cursor = null;
        if (beganAt !== null) group.hasUnseen = true;
        this.noteDue(group, row.due_at);
        return;
      }
      group.cursor = { dueAt: row.due_at, id: row.id };
      if (!this.bufferedIds.has(row.id)) this.buffer(group, row.id);
      if (this.isResting(group)) {
        group.cursor = null;
        group.isNextKnown &&= until === begunAt;
        return;
      }
    }
    if (rows.length >= limit) {
      group.isNextKnown &&= until === begunAt;
      return;
    }
    group.cursor = null;
    if (beganAt !== null) group.hasUnseen = true;
  }
}
