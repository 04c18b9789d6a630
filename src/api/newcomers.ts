/**
 * Connections that have shown neither a key nor a session, counted by network (an IPv4 /24, an IPv6 /64) and in all: a stranger
 * who opens many and says little must not use up descriptors and memory. From the first request with a good key or a session
 * its connection is not counted any more, so that programs may open as many as they need. A trusted proxy brings connections of
 * everybody; there each request of a stranger counts, by the address that the proxy names, until it is answered.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { budgets, type UsedUp } from '../base/budgets.ts';
import { networkOf } from '../base/ip.ts';
import { Problem } from '../base/problem.ts';
import { clientAddress, isWithin, networks } from './client-address.ts';

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

/** Whose connection it is, as its socket and the TLS session above it both tell. */
const nameOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string => `${remoteAddress} ${String(remotePort)}`;

export class Newcomers {
  private readonly limits: NewcomerLimits;
  private readonly trusted: ReturnType<typeof networks>;
  private readonly perNetwork = new Map<string, number>();
  private inAll = 0;
  /** What ends the count of a connection. */
  private readonly connections = new Map<string, () => void>();
  /** The same for requests that came through a trusted proxy. */
  private readonly requests = new WeakMap<IncomingMessage, () => void>();

  private readonly usedUp: UsedUp;

  constructor(
    trustedProxies: readonly string[],
    { limits = usual, usedUp = () => undefined }: { limits?: NewcomerLimits; usedUp?: UsedUp } = {},
  ) {
    this.trusted = networks(trustedProxies);
    this.limits = limits;
    this.usedUp = usedUp;
  }

  /** How many strangers are connected. */
  get count(): number {
    return this.inAll;
  }

  /** Counts the connections of a server, and closes those that are too many. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const peer = clientAddress(socket.remoteAddress, undefined, this.trusted);
      if (isWithin(this.trusted, peer)) return;
      const leave = this.enter(peer);
      if (leave === null) {
        // Nothing was read yet, and with TLS nothing could be said.
        socket.destroy();
        return;
      }
      const name = nameOf(socket);
      this.connections.set(name, leave);
      socket.once('close', () => {
        leave();
        if (this.connections.get(name) === leave) this.connections.delete(name);
      });
    });
  }

  /** Counts a request that a trusted proxy brings. Throws `rate_limited` where its network has too many under way. */
  request(req: IncomingMessage, res: ServerResponse): void {
    if (this.requests.has(req) || !isWithin(this.trusted, clientAddress(req.socket.remoteAddress, undefined, this.trusted))) return; // prettier-ignore
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

  /** The request came with a good key or a session. */
  known(req: IncomingMessage): void {
    this.requests.get(req)?.();
    const name = nameOf(req.socket);
    this.connections.get(name)?.();
    this.connections.delete(name);
  }

  private enter(ip: string): (() => void) | null {
    const network = networkOf(ip);
    const before = this.perNetwork.get(network) ?? 0;
    const isNetworkFull = before >= this.limits.perNetwork;
    if (isNetworkFull || this.inAll >= this.limits.inAll) {
      this.usedUp(isNetworkFull ? 'http_connections_network' : 'http_connections');
      return null;
    }
    this.perNetwork.set(network, before + 1);
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
