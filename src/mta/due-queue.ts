/**
 * Small windows onto the queue. A million waiting deliveries stay on disk; in memory is, for each group (domain, class,
 * account) that has something waiting, when it falls due, and the ids of the next few that are due. A window is refilled from
 * the partial index `deliveries_due` when it runs low; which groups there are is found by jumping from one to the next in
 * that index, never by a scan, and from the hints that come with the notifier.
 *
 * A group is read in passes: from its beginning to the first row that is not due yet. What is held in memory already is
 * skipped; rows that were committed behind the reading position are found by the next pass from the beginning, which a hint
 * or the end of a pass that began in the middle calls for. A hint of one new row takes the place of a pass where the group has
 * nothing else to be read.
 */
import { DueHeap } from '../scheduling/due-heap.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { LaneJob } from '../scheduling/lanes.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Connection } from '../storage/connection.ts';
import type { Wish } from './sources/sources.ts';

/** A delivery in memory: what is needed to find its lane and its turn. */
export interface Job extends LaneJob {
  readonly domain: string;
  /** Its group, for giving it back. */
  readonly group: Group;
  /** Which sources it asks for, once that is known. */
  wish?: Wish;
  /** The source of the lane it waits in; null for the system's address. */
  source?: string | null;
  /** The site at which it has a place among the mails that its source may send today. */
  placeAt?: string;
  /** The lane that has counted it among the mails that it may begin in a minute. */
  turnIn?: string;
}

interface Group {
  domain: string;
  class: number;
  account: string;
  /** Jobs in memory: waiting in a lane or in work. */
  held: number;
  /** Where the pass goes on, or null at the beginning. */
  cursor: { dueAt: number; id: string } | null;
  /** There may be due rows not seen yet. */
  dirty: boolean;
  /** When the first row that is not due yet falls due; null where the last pass saw none. */
  nextDueAt: number | null;
  /** Not read before then: its destination holds its mail. */
  restUntil: number;
  reading: boolean;
}

export interface DueQueue {
  /** Finds every group that has something waiting. Cheap: a few microseconds a group. */
  scan(): Promise<void>;
  /** Something has become due. */
  hint(hints: readonly DueHint[]): void;
  /** A job is done with, its row rewritten; `dueAt` is when it falls due again, or null. */
  done(job: Job, dueAt: number | null): void;
  /** Mail of this job's group waits: the group is left alone until then, or until the next scan. Nothing is rewritten. */
  rest(job: Job, until: number): void;
  /** Something that groups wait for may have ended: they are read again. */
  wake(): void;
  stop(): void;
  /** Groups known and jobs in memory, for metrics. */
  sizes(): { groups: number; jobs: number };
}

export interface DueQueueDeps {
  db: { prepared: Connection };
  clock: Clock;
  /** Takes a job that is due. */
  offer(job: Job): void;
  /** Reading failed; it is tried again after a while. */
  failed(error: unknown): void;
}

/** Rows read for a group at a time. A lane of 10 connections works through this many in some tens of milliseconds. */
const WINDOW = 64;
/** A group is read again when it holds fewer than this. */
const LOW = 32;
/** Jobs in memory altogether, about 250 bytes each. Beyond that a group is read only if it holds nothing, and only a little. */
const MOST_JOBS = 20_000;
/** So that mail for a slow or dead destination, however much, never keeps out mail for another. */
const SMALL_WINDOW = 2;
/** Groups read by one statement. */
const GROUPS_AT_ONCE = 32;
const SCAN_PAGE = 2_000;
const RETRY_READING_MS = 1_000;
/** Entries the heap of due times may have beside one for each group, before those that were overtaken are thrown out. */
const MOST_OVERTAKEN = 1_000;

export function createDueQueue(deps: DueQueueDeps): DueQueue {
  const { clock } = deps;
  const groups = new Map<string, Group>();
  const heldIds = new Set<string>();
  /** Groups to be read that hold nothing: they go first, since a lane may be idle for want of them. */
  const empty = new Set<Group>();
  /** Groups to be read that hold a few. */
  const low = new Set<Group>();
  let dues = new DueHeap<Group>();
  let timer: Timer | null = null;
  let timerAt = Infinity;
  let reading = false;
  /** Set while reading pauses after a failure. */
  let pause: Timer | null = null;
  let stopped = false;

  function groupOf(domain: string, order: number, account: string): Group {
    const key = `${domain} ${String(order)} ${account}`;
    let group = groups.get(key);
    if (group === undefined) {
      group = {
        domain,
        class: order,
        account,
        held: 0,
        cursor: null,
        dirty: false,
        nextDueAt: null,
        restUntil: -Infinity,
        reading: false,
      };
      groups.set(key, group);
    }
    return group;
  }

  function noteDue(group: Group, dueAt: number): void {
    if (dueAt <= clock.now()) {
      group.dirty = true;
      want(group);
    } else if (group.nextDueAt === null || dueAt < group.nextDueAt) {
      group.nextDueAt = dueAt;
      dues.add(dueAt, group);
      if (dues.size > groups.size + MOST_OVERTAKEN) throwOutOvertaken();
      setTimer();
    }
  }

  /** A group whose time moves forward again and again leaves an entry behind each time. */
  function throwOutOvertaken(): void {
    dues = new DueHeap();
    for (const group of groups.values()) if (group.nextDueAt !== null) dues.add(group.nextDueAt, group);
  }

  const isResting = (group: Group): boolean => group.restUntil > clock.now();

  function want(group: Group): void {
    if (stopped || group.reading || isResting(group) || group.held >= LOW || (!group.dirty && group.cursor === null))
      return;
    if (group.held === 0) {
      low.delete(group);
      empty.add(group);
    } else low.add(group);
    readSoon();
  }

  const isFull = (): boolean => heldIds.size >= MOST_JOBS;
  const mayRead = (): boolean => !stopped && pause === null && (empty.size > 0 || (low.size > 0 && !isFull()));

  function readSoon(): void {
    if (!reading && mayRead()) void readWanted();
  }

  /** One timer for the earliest group; a group whose time has moved since is simply read once for nothing. */
  function setTimer(): void {
    const at = dues.nextAt();
    if (at === null || stopped || timerAt <= at) return;
    timer?.cancel();
    timerAt = at;
    timer = clock.after(at - clock.now(), wake);
  }

  function wake(): void {
    timerAt = Infinity;
    const now = clock.now();
    for (let group = dues.takeDue(now); group !== undefined; group = dues.takeDue(now)) {
      if (group.nextDueAt !== null && group.nextDueAt <= now) {
        group.nextDueAt = null;
        group.dirty = true;
      }
      // A row of a group that rests fell due: the group is read when its rest ends.
      if (isResting(group)) noteDue(group, group.restUntil);
      else want(group);
    }
    setTimer();
  }

  async function readWanted(): Promise<void> {
    reading = true;
    while (mayRead()) {
      const some = takeSome();
      for (const group of some) group.reading = true;
      const error = await readGroups(some);
      for (const group of some) group.reading = false;
      if (error !== null) pauseReading(some, error);
      else for (const group of some) afterReading(group);
    }
    reading = false;
  }

  function takeSome(): Group[] {
    const some: Group[] = [];
    for (const group of empty) {
      if (some.length >= GROUPS_AT_ONCE) return some;
      empty.delete(group);
      some.push(group);
    }
    if (isFull()) return some;
    for (const group of low) {
      if (some.length >= GROUPS_AT_ONCE) return some;
      low.delete(group);
      some.push(group);
    }
    return some;
  }

  /** Reads and offers; answers what went wrong, or null. */
  async function readGroups(some: readonly Group[]): Promise<unknown> {
    const now = clock.now();
    const window = isFull() ? SMALL_WINDOW : WINDOW;
    for (const group of some) if (group.cursor === null) group.dirty = false;
    try {
      const rows = await readDue(deps.db.prepared, some, window);
      some.forEach((group, i) => {
        takeRows(group, rows[i] ?? [], now, window);
      });
      return null;
    } catch (error) {
      return error;
    }
  }

  /** What could not be read is read again, from the beginning, when storage has had time to recover. */
  function pauseReading(some: readonly Group[], error: unknown): void {
    deps.failed(error);
    if (stopped) return;
    pause ??= clock.after(RETRY_READING_MS, () => {
      pause = null;
      readSoon();
    });
    for (const group of some) {
      group.cursor = null;
      group.dirty = true;
      want(group);
    }
  }

  function takeRows(group: Group, rows: readonly DueRow[], now: number, window: number): void {
    const began = group.cursor;
    for (const row of rows) {
      if (row.due_at > now) {
        group.cursor = null;
        if (began !== null) group.dirty = true;
        noteDue(group, row.due_at);
        return;
      }
      group.cursor = { dueAt: row.due_at, id: row.id };
      if (!heldIds.has(row.id)) hold(group, row.id);
      if (isResting(group)) {
        group.cursor = null;
        return;
      }
    }
    if (rows.length >= window) return;
    group.cursor = null;
    if (began !== null) group.dirty = true;
  }

  function hold(group: Group, id: string): void {
    heldIds.add(id);
    group.held++;
    deps.offer({ id, class: group.class, share: group.account, domain: group.domain, group });
  }

  function afterReading(group: Group): void {
    want(group);
    forget(group);
  }

  /** A group with nothing in memory and nothing to come is forgotten; a hint or a scan brings it back. */
  function forget(group: Group): void {
    if (group.held > 0 || group.dirty || group.cursor !== null || group.nextDueAt !== null || group.reading) return;
    groups.delete(`${group.domain} ${String(group.class)} ${group.account}`);
  }

  /**
   * One new row of a group of which all that is due is in memory: it comes after them, and a reading would find just this. Under
   * little load, where every mail would have a reading of its own, that is a way to the database less for each.
   */
  function takeNew(group: Group, id: string, dueAt: number): boolean {
    if (stopped || group.reading || group.dirty || group.cursor !== null || group.held >= WINDOW) return false;
    if (dueAt > clock.now() || isResting(group) || isFull()) return false;
    if (!heldIds.has(id)) hold(group, id);
    return true;
  }

  async function scan(): Promise<void> {
    for (const group of groups.values()) group.restUntil = -Infinity;
    let after: ScanRow | null = null;
    do {
      const page: ScanRow[] = await scanGroups(deps.db.prepared, after, SCAN_PAGE);
      for (const row of page) noteDue(groupOf(row.domain, row.class, row.account_id), row.due_at);
      after = page.length < SCAN_PAGE ? null : (page.at(-1) ?? null);
    } while (after !== null && !stopped);
  }

  return {
    scan,
    hint(hints) {
      for (const { domain, class: order, accountId, dueAt, id } of hints) {
        const group = groupOf(domain, order, accountId);
        if (id === undefined || !takeNew(group, id, dueAt)) noteDue(group, dueAt);
      }
    },
    done(job, dueAt) {
      const { group } = job;
      if (heldIds.delete(job.id)) group.held--;
      if (dueAt !== null) noteDue(group, dueAt);
      want(group);
      forget(group);
      readSoon();
    },
    rest(job, until) {
      const { group } = job;
      if (heldIds.delete(job.id)) group.held--;
      group.restUntil = Math.max(group.restUntil, until);
      group.dirty = true;
      noteDue(group, until);
    },
    wake() {
      for (const group of groups.values()) {
        if (group.restUntil === -Infinity) continue;
        group.restUntil = -Infinity;
        group.dirty = true;
        want(group);
      }
    },
    stop() {
      stopped = true;
      timer?.cancel();
      pause?.cancel();
    },
    sizes: () => ({ groups: groups.size, jobs: heldIds.size }),
  };
}

interface DueRow {
  place: number;
  id: string;
  due_at: number;
}

/** The next rows of several groups, each from its cursor on, in order of due time: one statement. */
async function readDue(db: Connection, some: readonly Group[], window: number): Promise<DueRow[][]> {
  const wanted = some.map(({ domain, class: order, account, cursor }) => [
    domain,
    order,
    account,
    cursor?.dueAt ?? -1,
    cursor?.id ?? '',
  ]);
  const rows = await db.all<DueRow>(
    `SELECT g.key AS place, d.id, d.due_at FROM jsonb_each(?) AS g CROSS JOIN deliveries d
     WHERE d.id IN (
       SELECT x.id FROM deliveries x
       WHERE x.domain = g.value->>0 AND x.class = g.value->>1 AND x.account_id = g.value->>2 AND x.due_at IS NOT NULL
         AND (x.due_at, x.id) > (g.value->>3, g.value->>4)
       ORDER BY x.due_at, x.id LIMIT ${String(window)})
     ORDER BY g.key, d.due_at, d.id`,
    [JSON.stringify(wanted)],
  );
  const sorted: DueRow[][] = some.map(() => []);
  for (const row of rows) sorted[row.place]?.push(row);
  return sorted;
}

interface ScanRow {
  domain: string;
  class: number;
  account_id: string;
  due_at: number;
}

/** The groups after `after` with the due time of their first row: each found by one jump in the index. */
function scanGroups(db: Connection, after: ScanRow | null, limit: number): Promise<ScanRow[]> {
  return db.all<ScanRow>(
    `WITH RECURSIVE g(domain, class, account_id, due_at) AS (
       SELECT * FROM (SELECT domain, class, account_id, due_at FROM deliveries
         WHERE due_at IS NOT NULL AND (domain, class, account_id) > (?, ?, ?)
         ORDER BY domain, class, account_id, due_at, id LIMIT 1)
       UNION ALL
       SELECT d.domain, d.class, d.account_id, d.due_at FROM g JOIN deliveries d ON d.id = (
         SELECT x.id FROM deliveries x
         WHERE x.due_at IS NOT NULL AND (x.domain, x.class, x.account_id) > (g.domain, g.class, g.account_id)
         ORDER BY x.domain, x.class, x.account_id, x.due_at, x.id LIMIT 1)
       LIMIT ?)
     SELECT * FROM g`,
    [after?.domain ?? '', after?.class ?? -1, after?.account_id ?? '', limit],
  );
}
