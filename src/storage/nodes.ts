/**
 * The servers of Posthorn that use one database: its nodes. On SQLite there is one. On PostgreSQL each has a row while it may write: all accept,
 * deliver and call webhooks (owners.ts), and the one that joined first leads: it does what only one may do. When the row of a node is removed,
 * because it ended or died, its writes fail from then on.
 */

export interface NodeRecord {
  /** The number of its run. */
  readonly epoch: number;
  readonly name: string;
  readonly version: string;
  /** It finishes what it has begun and takes nothing new: it starts or stops, or an operator has asked for that. */
  readonly isDraining: boolean;
  readonly isLeader: boolean;
  /** It sends mail and calls webhooks: the role `delivery` of the setting `node.roles`. */
  readonly isDelivering: boolean;
  /** A command that writes by itself. It never leads, and its row lasts as long as it runs. */
  readonly isCommand: boolean;
  /** When it joined, in milliseconds. */
  readonly since: number;
  /** Milliseconds since its last sign of life, by the clock of the database. */
  readonly quietMs: number;
  /** Its description of itself: JSON, as `NodeSelf.facts`. */
  readonly facts: string;
}

/** The description that a server gives of itself when it joins. */
export interface NodeSelf {
  readonly name: string;
  readonly version: string;
  /** JSON: `roles`, the setting `node.roles`, and what other nodes compare with their own, such as digests of settings that must agree. */
  readonly facts: string;
}

/** Returns the roles in the facts of a node; one that names none delivers. */
export const rolesIn = (facts: string): readonly unknown[] =>
  (JSON.parse(facts) as { roles?: readonly unknown[] }).roles ?? ['delivery'];

/** Signs of life are measured by the clock of the database, and rows carry the time of their node: they may differ by this, in ms. */
export const MOST_CLOCK_OFF_MS = 250;
/** A clock that differs more from that of the database is wrong, in ms: its node leaves while that of another node is right. */
export const WRONG_CLOCK_MS = 2000;

/** Says how a clock is wrong. `aheadMs` is less than 0 if it is behind. */
export const wrongClock = (aheadMs: number): string =>
  `the clock of this machine is ${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the database, with which another node agrees`;

/** Returns how far the clock of a node is ahead of the database's, in ms: 0 if that is little or not known, less than 0 if it is behind. */
export function clockOffIn(facts: string): number {
  const { clockOffMs } = JSON.parse(facts) as { clockOffMs?: unknown };
  return typeof clockOffMs === 'number' ? clockOffMs : 0;
}

/** A message between nodes: the name of a notifier and what it carries. Lost while a node cannot reach the database. */
export interface NodeMessage {
  readonly about: string;
  readonly hint: unknown;
}

export interface Nodes {
  readonly epoch: number;
  readonly name: string;
  /** True if this node leads, as of its last sign of life. It only ever begins to; it stops leading by ending. */
  readonly isLeader: boolean;
  /** True while this node may act outside of the database: its last sign of life was sent within ten seconds, and no other may lead. No query. */
  readonly holdsLease: boolean;
  /** Resolves when this node leads. Stays open for ever if it never does. */
  readonly leads: Promise<void>;
  /** True if other servers are there, as of the last sign of life. */
  readonly hasOthers: boolean;
  /** The nodes as of the last sign of life, at most two seconds old, in the order in which they would lead. */
  list(): readonly NodeRecord[];
  /** Tells the other nodes, within some milliseconds. Nothing waits for it. `hint` is JSON of at most 4,000 characters. */
  tell(message: NodeMessage): void;
  /** Calls the listener with each message of another node; with null when messages may have been lost. */
  listen(listener: (message: NodeMessage | null) => void): void;
  /** Calls the listener after a server joined, ended or was asked to drain or to go on. `list()` is the new one then. */
  onChange(listener: () => void): void;
  /** Returns those of these epochs whose nodes have ended: they write nothing any more. */
  ended(epochs: readonly number[]): Promise<number[]>;
  /** Replaces the facts of this node; the others see them from its next sign of life on. */
  describe(facts: string): void;
  /** Asks a node to take nothing new, or to go on. */
  setDraining(epoch: number, isDraining: boolean): Promise<void>;
  /** Ends a node: its writes fail from now on. */
  remove(epoch: number): Promise<void>;
}

/** Returns whether this node takes nothing new. */
export const isDraining = (nodes: Pick<Nodes, 'epoch' | 'list'>): boolean =>
  nodes.list().some((one) => one.isDraining && one.epoch === nodes.epoch);

/** The one node of a database that no other can use. */
export function loneNode(epoch: number, node: NodeSelf & { since: number }): Nodes {
  const roles = { isLeader: true, isDelivering: true, isCommand: false };
  const self = { ...node, ...roles, epoch, isDraining: false, quietMs: 0 };
  return {
    epoch,
    name: node.name,
    isLeader: true,
    holdsLease: true,
    leads: Promise.resolve(),
    hasOthers: false,
    list: () => [self],
    tell: () => undefined,
    listen: () => undefined,
    onChange: () => undefined,
    ended: (epochs) => Promise.resolve(epochs.filter((one) => one < epoch)),
    describe: () => undefined,
    setDraining: () => Promise.resolve(),
    remove: () => Promise.resolve(),
  };
}
