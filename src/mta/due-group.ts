/** A group of the due queue: what waits for one domain, in one class, of one account. */
import { WITHOUT_END, type DuePosition, type GroupToRead } from './due-rows.ts';

/** One group: what is in memory of it, and how far it was read. */
export interface Group {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  /** Jobs in memory: waiting in a lane or with a worker. */
  buffered: number;
  /** Jobs in memory, and one where it is being read: while there are any it has a place among the groups in memory. */
  holders: number;
  /** Where the pass goes on, or null at the beginning. */
  cursor: DuePosition | null;
  /** The group has no rows that fall due before this time. Infinity while a pass is reading from the beginning. */
  floor: number;
  /** `nextDueAt` is known: a pass need not read rows that are not due yet. */
  isNextKnown: boolean;
  /** There may be due rows that no pass has seen. */
  dirty: boolean;
  /** When the first row that is not due yet falls due; null where the last pass saw none. */
  nextDueAt: number | null;
  /** The group is not read before then: its destination keeps its mail back. */
  restUntil: number;
  reading: boolean;
  /** How often it was read on since it had its place. */
  readsInPlace: number;
  /** Its domain has moved to another node. */
  isGone: boolean;
}

/** A read of a group's next rows. */
export interface Read extends GroupToRead {
  readonly group: Group;
  readonly begunAt: number;
}

/** Returns the key of a group among all groups. */
export const keyOf = (domain: string, order: number, account: string): string =>
  `${domain} ${String(order)} ${account}`;

/** Returns a group of which nothing is in memory. */
export const newGroup = (domain: string, order: number, account: string, isNextKnown: boolean): Group => ({
  domain,
  class: order,
  account,
  buffered: 0,
  holders: 0,
  cursor: null,
  floor: Infinity,
  isNextKnown,
  dirty: false,
  nextDueAt: null,
  restUntil: -Infinity,
  reading: false,
  readsInPlace: 0,
  isGone: false,
});

/** Returns whether nothing of the group is in memory and nothing is to come that is known. */
export const isIdle = ({ buffered, dirty, cursor, nextDueAt, reading }: Group): boolean =>
  buffered === 0 && !dirty && cursor === null && nextDueAt === null && !reading;

/** Returns what to read of the group next. */
export function beginRead(group: Group, now: number): Read {
  const { domain, class: order, account, cursor, floor, isNextKnown } = group;
  if (cursor === null) {
    group.dirty = false;
    group.floor = Infinity;
  }
  // A row that falls due during the read makes it unknown again.
  group.isNextKnown = true;
  const after = cursor ?? { dueAt: floor, id: '' };
  return { group, begunAt: now, domain, class: order, account, after, until: isNextKnown ? now : WITHOUT_END };
}
