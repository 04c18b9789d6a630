/**
 * Connections that have shown neither a key nor a session, counted by network (an IPv4 /24, an IPv6 /64) and in all, since many idle ones could
 * use up descriptors and memory. A good key or a session ends that, so programs may open as many as they need. If there is no room, the network
 * with most gives way, and a flood does not shut out a program that had no time to show its key. Connections of a trusted proxy, which are of
 * many clients, are not counted: requests have their rate there.
 */
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { budgets, type UsedUp } from '../base/budgets.ts';
import { addTo, takeFrom } from '../base/sets.ts';
import { Crowds } from '../net/crowds.ts';
import { addressList, isListed, networkOf, siteOf } from '../net/ip.ts';
import { clientAddress } from './client-address.ts';

interface NewcomerLimits {
  perNetwork: number;
  inAll: number;
}

const usual: NewcomerLimits = {
  perNetwork: budgets.http_connections_network.most,
  inAll: budgets.http_connections.most,
};

/** Names a connection by its peer: its socket and the TLS session on it give the same name. */
const nameOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string => `${remoteAddress} ${String(remotePort)}`;
interface Newcomer {
  socket: Socket;
  /** Requests whose head has arrived and that are not answered yet. */
  underWay: number;
  leave: () => void;
}

export class Newcomers {
  private readonly limits: NewcomerLimits;
  private readonly trusted: ReturnType<typeof addressList>;
  private readonly networks = new Map<string, Set<Newcomer>>();
  /** By the name of the connection. */
  private readonly connections = new Map<string, Newcomer>();
  private readonly crowds = new Crowds<Newcomer>();
  private readonly usedUp: UsedUp;

  constructor(
    trustedProxies: readonly string[],
    { limits = usual, usedUp = () => undefined }: { limits?: NewcomerLimits; usedUp?: UsedUp } = {},
  ) {
    this.trusted = addressList(trustedProxies);
    this.limits = limits;
    this.usedUp = usedUp;
  }
  get count(): number {
    return this.connections.size;
  }

  /** Counts the connections of a server, and closes those that are too many and those that give way. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const peer = clientAddress(socket.remoteAddress, undefined, this.trusted);
      if (isListed(this.trusted, peer)) return;
      // A refused connection gets no answer: nothing was read yet, and TLS is not established.
      if (this.hasRoom(networkOf(peer))) this.add(socket, peer);
      else socket.destroy();
    });
    server.on('request', (req, res) => {
      const newcomer = this.connections.get(nameOf(req.socket));
      if (newcomer === undefined) return;
      newcomer.underWay++;
      res.once('close', () => newcomer.underWay--);
    });
  }

  /** Stops counting the connection of a request with a good key or a session. */
  stopCounting(req: IncomingMessage): void {
    this.connections.get(nameOf(req.socket))?.leave();
  }

  private add(socket: Socket, peer: string): void {
    const [name, network, site] = [nameOf(socket), networkOf(peer), siteOf(peer)];
    const newcomer: Newcomer = {
      socket,
      underWay: 0,
      leave: () => {
        takeFrom(this.networks, network, newcomer);
        this.crowds.remove(site, newcomer);
        if (this.connections.get(name) === newcomer) this.connections.delete(name);
      },
    };
    this.connections.set(name, newcomer);
    addTo(this.networks, network, newcomer);
    this.crowds.add(site, newcomer);
    socket.once('close', newcomer.leave);
  }

  /** Closes the oldest connection of the largest network, if possible one between requests or in a head. False if there is none. */
  private makeRoom(): boolean {
    const members = this.crowds.largest();
    const leaving = members.find(({ underWay }) => underWay === 0) ?? members[0];
    if (leaving === undefined) return false;
    leaving.leave();
    leaving.socket.destroy();
    return true;
  }

  private hasRoom(network: string): boolean {
    const isNetworkFull = (this.networks.get(network)?.size ?? 0) >= this.limits.perNetwork;
    const isFull = this.count >= this.limits.inAll;
    if (isNetworkFull || isFull) this.usedUp(isNetworkFull ? 'http_connections_network' : 'http_connections');
    return !isNetworkFull && (!isFull || this.makeRoom());
  }
}
