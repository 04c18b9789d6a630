/** The connections that the receiver of `npm run torture -- nodes` sees from the nodes, each of which gives its name with EHLO. All of it is one site to them. */
import type { Receiver, Session, Taken } from './receiver.ts';

/** A connection that another one replaces may be seen to end this much later. */
const SETTLE_MS = 50;
/** A connection that has not said its name for so long belongs to a process that is stopped. */
const NAMELESS_MS = 5000;

/** The node whose connection it is; null before it has said its name. */
const nodeOf = ({ name }: Session): string | null => name?.split('.')[0] ?? null;

/** One copy of a mail that arrived. Times are of `performance.now()`. */
export interface Arrival {
  /** The node that brought it; null if it did not say its name. */
  node: string | null;
  /** X-Message-Id. */
  id: string;
  domain: string;
  at: number;
}

/** The site: its connections at the same time, and what each node brought. */
export class SiteWatch {
  readonly arrivals: Arrival[] = [];
  private most = 0;
  private readonly sessions: Session[] = [];
  private readonly open = new Set<Session>();
  /** Nodes of which the others know that they are gone, though their connections may be open. */
  private readonly lost = new Set<string>();
  private readonly ofLost = new WeakSet<Session>();
  /** Nodes that cannot reach the site. */
  private readonly unreached = new Set<string>();

  constructor(receiver: Receiver) {
    receiver.onOpened = (session) => {
      this.sessions.push(session);
      this.open.add(session);
      setTimeout(() => this.count(session.openedAt), SETTLE_MS);
    };
    receiver.onTaken = (session, mail) => this.note(session, mail);
    receiver.onMoment = (_, session) => this.unreached.has(nodeOf(session) ?? '');
  }

  /** Ends each connection of this node from now on, wherever it is, until it is let through again. */
  cut(node: string): void {
    this.unreached.add(node);
  }

  letThrough(node: string): void {
    this.unreached.delete(node);
  }

  /** From now on the connections of this node are not counted, and those that it has never again. */
  lose(node: string): void {
    this.lost.add(node);
    for (const session of this.open) if (nodeOf(session) === node) this.ofLost.add(session);
  }

  /** Connections that this node opens from now on are counted. */
  find(node: string): void {
    if (this.lost.has(node)) this.lose(node);
    this.lost.delete(node);
  }

  /** Returns the most connections that were open at the same time since the last call, idle ones too. Those of lost nodes are not counted. */
  takeMost(): number {
    const { most } = this;
    this.most = 0;
    return most;
  }

  /** Returns how many connections of a node were open at this time or later. */
  openSince(node: string, time: number): number {
    return this.sessions.filter((session) => nodeOf(session) === node && session.closedAt >= time).length;
  }

  /** Returns how many mails a node brought in this time. */
  broughtBy(node: string, from = -Infinity, to = Infinity): number {
    return this.arrivals.filter((one) => one.node === node && one.at >= from && one.at <= to).length;
  }

  private note(session: Session, { id, recipient }: Taken): void {
    const domain = recipient.slice(recipient.indexOf('@') + 1);
    this.arrivals.push({ node: nodeOf(session), id, domain, at: performance.now() });
  }

  /** Counts the connections that were open at this time and still are. */
  private count(at: number): void {
    let found = 0;
    for (const session of this.open) {
      if (session.closedAt < Infinity) this.open.delete(session);
      else if (session.openedAt <= at && this.counts(session)) found++;
    }
    this.most = Math.max(this.most, found);
  }

  private counts(session: Session): boolean {
    const node = nodeOf(session);
    if (node === null) return performance.now() - session.openedAt < NAMELESS_MS;
    return !this.lost.has(node) && !this.ofLost.has(session);
  }
}
