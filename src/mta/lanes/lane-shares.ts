/**
 * Divides what a receiver takes between the nodes that send to it. A node may always have one connection for a lane; for more it
 * reserves them in a row of the table `lanes`, which the others count (node-shares.ts). So all nodes together have at most the
 * lane's limit of connections and one more for each node but the first. Pure.
 */

/** The announcement of a node about a lane. */
export interface LaneClaim {
  /** The number of the node's run. */
  readonly epoch: number;
  /** Mails that wait or are being sent there; 0 where the node needs no connection any more. */
  readonly demand: number;
  /** The connections that it has reserved: never fewer than it uses, and at least 1. */
  readonly connections: number;
  /** The connections that the lane may have over all nodes, as far as this node knows. */
  readonly allowed: number;
}

/** The part of a lane that a node may use. */
export interface LaneShare {
  /** Connections that it may have open, idle ones included. */
  readonly connections: number;
  /** Connections that other nodes have reserved. */
  readonly others: number;
  /** The fraction of the mails a minute that an operator allows: a number up to 1. */
  readonly fraction: number;
}

/** The share of a node that is alone: all of every limit. */
export const wholeLane: LaneShare = { connections: Infinity, others: 0, fraction: 1 };

/** The shares of this node, as the engine asks for them. */
export interface LaneShares {
  of(lane: string): LaneShare;
  /** Reads and announces the share of the lane soon, since its limit has changed. */
  soon(lane: string): void;
}

/** The state of a lane at a node when it looks. */
export interface LaneLook {
  readonly epoch: number;
  /** Connections that it may have so far, and those that are open, being opened or being closed. */
  readonly had: number;
  readonly open: number;
  /** Mails that wait or are being sent. */
  readonly demand: number;
  readonly allowed: number;
  /** The operator limits the mails a minute. */
  readonly hasRate: boolean;
  /** Every other server has announced what it has. */
  readonly mayRaise: boolean;
}

/** Returns whether the lane needs a row. One connection needs none, but a rate is divided from the first mail on. */
export const isWanted = ({ demand, hasRate }: Pick<LaneLook, 'demand' | 'hasRate'>): boolean =>
  demand > 1 || (hasRate && demand > 0);

/**
 * Decides at one look what the node may use from now on, and what it announces; the claim is null where it needs no row. Connections that
 * its share no longer covers are announced as its own until they are closed.
 */
export function decideShare(
  look: LaneLook,
  others: readonly LaneClaim[],
): { share: LaneShare; claim: LaneClaim | null } {
  const { epoch, had, open, allowed } = look;
  const isOver = !isWanted(look);
  // Without mail the lane keeps the connections that are open still, and the others may have those that it closes.
  const kept = isOver ? Math.max(1, Math.min(had, open)) : had;
  const own = { epoch, demand: isOver ? 0 : roughly(look.demand), connections: kept, allowed };
  const fair = shareOf(others, own);
  const share = look.mayRaise ? fair : { ...fair, connections: Math.min(fair.connections, kept) };
  const connections = Math.max(share.connections, open);
  return { share, claim: isOver && connections <= 1 ? null : { ...own, connections } };
}

/**
 * Decides what the node with the claim `own` may use. Fewer connections than it has are its fair share at once; more only as far as
 * the others have not reserved them. `own.demand` is 0 where it wants no more than it has open.
 */
export function shareOf(others: readonly LaneClaim[], own: LaneClaim): LaneShare {
  const allowed = Math.max(1, Math.min(own.allowed, ...others.map((one) => one.allowed)));
  const reserved = others.reduce((sum, { connections }) => sum + connections, 0);
  const demand = others.reduce((sum, one) => sum + one.demand, own.demand);
  const fair = fairShare([own, ...others], own, allowed);
  const connections = own.connections > fair ? fair : Math.max(own.connections, Math.min(fair, allowed - reserved));
  return { connections, others: reserved, fraction: demand === 0 ? 1 : own.demand / demand };
}

/** Each node has one connection; the others are divided by demand, and what is left over goes to the largest remainders. */
function fairShare(claims: readonly LaneClaim[], own: LaneClaim, allowed: number): number {
  const wanted = claims.reduce((sum, claim) => sum + weightOf(claim), 0);
  // Where no node wants more, each keeps what it has.
  if (wanted === 0) return Math.max(1, Math.min(own.connections, allowed));
  const spare = Math.max(0, allowed - claims.length);
  const parts = claims.map((claim) => {
    const exact = (spare * weightOf(claim)) / wanted;
    return { epoch: claim.epoch, whole: Math.floor(exact), rest: exact - Math.floor(exact) };
  });
  const left = spare - parts.reduce((sum, { whole }) => sum + whole, 0);
  const luckiest = parts.toSorted((a, b) => b.rest - a.rest || a.epoch - b.epoch).slice(0, left);
  const mine = parts.find(({ epoch }) => epoch === own.epoch)?.whole ?? 0;
  return 1 + mine + (luckiest.some(({ epoch }) => epoch === own.epoch) ? 1 : 0);
}

const weightOf = ({ demand }: LaneClaim): number => Math.max(0, demand - 1);

const EXACT_DEMAND = 16;

/** Rounds a large demand to a power of two, so that shares do not change with each mail. */
export const roughly = (demand: number): number =>
  demand <= EXACT_DEMAND ? demand : 2 ** Math.round(Math.log2(demand));
