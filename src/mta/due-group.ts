/** A group of the due queue: what waits for one domain, in one class, of one account. */
import { WITHOUT_END, type DuePosition, type GroupToRead } from './due-rows.ts';

/** One group: what is in memory of it, and how far it was read. */
export interface Group {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  /** Jobs in memory: waiting in a lane or with a worker. */
  buffered: number;
  /** Jobs in memory, and one if it is being read: while there are any it has a place among the groups in memory. */
  holders: number;
  /** If the pass goes on, or null at the beginning. */
  cursor: DuePosition | null;
  /** The group has no rows that fall due before this time. Infinity while a pass is reading from the beginning. */
  floor: number;
  /** True if `nextDueAt` is right, so that a pass need not read the rows that are not due yet. */
  isNextKnown: boolean;
  /** When the first row that is not due yet falls due; null if the last pass saw none. */
  nextDueAt: number | null;
  /** True if there may be due rows that no pass has seen: a further pass is needed. */
  hasUnseen: boolean;
  /** True while its next rows are being read. */
  isBeingRead: boolean;
  /** The group is not read before then: its destination keeps its mail back. */
  restUntil: number;
  /** How often it was read on since it had its place. */
  readsInPlace: number;
  /** True once its domain belongs to another node: the group is forgotten here. */
  hasMoved: boolean;
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
  nextDueAt: null,
  hasUnseen: false,
  isBeingRead: false,
  restUntil: -Infinity,
  readsInPlace: 0,
  hasMoved: false,
});

/** Returns whether the group can be forgotten: nothing of it is in memory, and nothing is known to come. */
export const isIdle = ({ buffered, hasUnseen, cursor, nextDueAt, isBeingRead }: Group): boolean =>
  buffered === 0 && !hasUnseen && cursor === null && nextDueAt === null && !isBeingRead;

/** Returns what to read of the group next. */
export function beginRead(group: Group, now: number): Read {
  const { domain, class: order, account, cursor, floor, isNextKnown } = group;
  if (cursor === null) {
    group.hasUnseen = false;
    group.floor = Infinity;
  }
  // A row that falls due during the read makes it unknown again.
  group.isNextKnown = true;
  const after = cursor ?? { dueAt: floor, id: '' };
  return { group, begunAt: now, domain, class: order, account, after, until: isNextKnown ? now : WITHOUT_END };
}
