/**
 * Connections that have shown neither a key nor a session, counted by network (an IPv4 /24, an IPv6 /64) and in all: a client
 * that opens many idle connections must not use up descriptors and memory. From the first request with a good key or a session
 * its connection is not counted any more, so that programs may open as many as they need. When there is no room for one more,
 * the network that has most of them gives way, so that a flood from a few networks does not shut out a program that has a key
 * and has not been able to show it yet. A trusted proxy brings connections of
 * many clients; there each request of a stranger counts, by the address that the proxy names, until it is answered.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { budgets, type UsedUp } from '../base/budgets.ts';
import { Crowds } from '../net/crowds.ts';
import { addressList, isListed, networkOf, siteOf } from '../net/ip.ts';
import { Problem } from '../base/problem.ts';
import { clientAddress } from './client-address.ts';

interface NewcomerLimits {
  /** Connections of strangers from one network. */
  perNetwork: number;
  /** Connections of strangers in all. */
  inAll: number;
}

const usual: NewcomerLimits = {
  perNetwork: budgets.http_connections_network.most,
  inAll: budgets.http_connections.most,
};

/** Names a connection by its peer: its socket and the TLS session on it give the same name. */
const nameOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string => `${remoteAddress} ${String(remotePort)}`;

/** One connection of a stranger. */
interface Newcomer {
  socket: Socket;
  /** Requests whose head has arrived and that are not answered yet. */
  underWay: number;
  leave: () => void;
}

export class Newcomers {
  private readonly limits: NewcomerLimits;
  private readonly trusted: ReturnType<typeof addressList>;
  private readonly perNetwork = new Map<string, number>();
  private inAll = 0;
  /** By the name of the connection. */
  private readonly connections = new Map<string, Newcomer>();
  private readonly crowds = new Crowds<Newcomer>();
  /** The same for requests that came through a trusted proxy. */
  private readonly requests = new WeakMap<IncomingMessage, () => void>();

  private readonly usedUp: UsedUp;

  constructor(
    trustedProxies: readonly string[],
    { limits = usual, usedUp = () => undefined }: { limits?: NewcomerLimits; usedUp?: UsedUp } = {},
  ) {
    this.trusted = addressList(trustedProxies);
    this.limits = limits;
    this.usedUp = usedUp;
  }

  /** Number of strangers that are connected. */
  get count(): number {
    return this.inAll;
  }

  /** Counts the connections of a server, and closes those that are too many and those that give way. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const peer = clientAddress(socket.remoteAddress, undefined, this.trusted);
      if (isListed(this.trusted, peer)) return;
      const leave = this.enter(peer, () => this.makeRoom());
      // A refused connection gets no answer: nothing was read yet, and TLS is not established.
      if (leave === null) socket.destroy();
      else this.add(socket, siteOf(peer), leave);
    });
    server.on('request', (req, res) => {
      const newcomer = this.connections.get(nameOf(req.socket));
      if (newcomer === undefined) return;
      newcomer.underWay++;
      res.once('close', () => newcomer.underWay--);
    });
  }

  /** Counts a request that a trusted proxy brings. Throws `rate_limited` if its network has too many under way. */
  request(req: IncomingMessage, res: ServerResponse): void {
    if (
      this.requests.has(req) ||
      !isListed(this.trusted, clientAddress(req.socket.remoteAddress, undefined, this.trusted))
    )
      return;
    const forwarded = req.headers['x-forwarded-for'];
    const ip = clientAddress(
      req.socket.remoteAddress,
      typeof forwarded === 'string' ? forwarded : undefined,
      this.trusted,
    );
    const leave = this.enter(ip);
    if (leave === null)
      throw new Problem('rate_limited', `Too many requests of ${networkOf(ip)} are under way.`, { retryAfter: 10 });
    this.requests.set(req, leave);
    res.once('close', leave);
  }

  /** Stops counting the connection of a request with a good key or a session. */
  stopCounting(req: IncomingMessage): void {
    this.requests.get(req)?.();
    const name = nameOf(req.socket);
    this.connections.get(name)?.leave();
  }

  private add(socket: Socket, site: string, uncount: () => void): void {
    const name = nameOf(socket);
    const newcomer: Newcomer = {
      socket,
      underWay: 0,
      leave: () => {
        uncount();
        this.crowds.remove(site, newcomer);
        if (this.connections.get(name) === newcomer) this.connections.delete(name);
      },
    };
    this.connections.set(name, newcomer);
    this.crowds.add(site, newcomer);
    socket.once('close', newcomer.leave);
  }

  /**
   * Closes one connection of the network that has most: the oldest that waits for its next request or the rest of its head, else
   * the oldest. False if there is none.
   */
  private makeRoom(): boolean {
    const members = this.crowds.largest();
    const leaving = members.find(({ underWay }) => underWay === 0) ?? members[0];
    if (leaving === undefined) return false;
    leaving.leave();
    leaving.socket.destroy();
    return true;
  }

  /** Returns null if there is no room and `makeRoom` makes none. */
  private enter(ip: string, makeRoom: () => boolean = () => false): (() => void) | null {
    const network = networkOf(ip);
    const before = this.perNetwork.get(network) ?? 0;
    const isNetworkFull = before >= this.limits.perNetwork;
    const isFull = this.inAll >= this.limits.inAll;
    if (isNetworkFull || isFull) this.usedUp(isNetworkFull ? 'http_connections_network' : 'http_connections');
    if (isNetworkFull || (isFull && !makeRoom())) return null;
    // The connection that was closed may have been of the same network.
    this.perNetwork.set(network, (this.perNetwork.get(network) ?? 0) + 1);
    this.inAll++;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.inAll--;
      const left = (this.perNetwork.get(network) ?? 1) - 1;
      if (left > 0) this.perNetwork.set(network, left);
      else this.perNetwork.delete(network);
    };
  }
}
