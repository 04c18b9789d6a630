/** The open sessions of a listener: their limits, who gives way, and when each ends. Clients (trusted or signed in) have their own places. */
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../base/clock.ts';
import { createLru } from '../base/lru.ts';
import { HOUR_MS } from '../base/time.ts';
import { Crowds } from '../net/crowds.ts';
import { addressBucket, networkOf, plainAddress, siteOf } from '../net/ip.ts';
import { Allowance } from '../scheduling/allowance.ts';
import { type LimitName, type ListenerLimits, type MailHold, Tally } from './mail-intake.ts';
import { cutConnection, endConnection, type SmtpConnection } from './smtp-connection.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

const never: Timer = { cancel: () => undefined };

class OpenSession<User> {
  readonly connection: SmtpConnection;
  readonly ip: string;
  readonly since: number;
  readonly bucket: string;
  readonly network: string;
  readonly site: string;
  places: Places;
  errors = 0;
  failedSignIns = 0;
  user: User | null = null;
  proof: string | null = null;
  /** How its next mail is held; null if as others are. */
  hold: MailHold | null = null;
  isReceiving = false;
  /** Its mail has come and gets its reply next: without it the client would send the mail again. */
  isStoring = false;
  /** The reason to end it after that reply. */
  ending: string | null = null;
  /** The next step must come before this ends. */
  stepTimer: Timer = never;
  sessionTimer: Timer = never;

  constructor(connection: SmtpConnection, ip: string, since: number, places: Places) {
    this.connection = connection;
    this.ip = ip;
    this.since = since;
    this.places = places;
    [this.bucket, this.network, this.site] = [addressBucket(ip), networkOf(ip), siteOf(ip)];
  }
}

/** Places that sessions share. Those without a user or a proof give way to others, by site. */
class Places {
  used = 0;
  readonly unproven = new Crowds<string>();
  readonly most: number;
  /** Connections in a minute, by address. */
  readonly arrivals: Allowance;

  constructor(most: number, perMinute: number | null) {
    this.most = most;
    this.arrivals = new Allowance({ most: perMinute ?? Infinity, within: 'minute' }, { mostNames: MOST_NAMES });
  }
}

interface SessionLimits {
  clock: Clock;
  limits: ListenerLimits;
  isTrusted: (ip: string) => boolean;
  /** A session was refused, or had to give way, because of this limit. */
  overLimit: (limit: LimitName) => void;
}

/** Sockets of an address for each session that it may have: some have not ended their TLS handshake, or are about to close. */
const SOCKETS = 2;

export const STOPPING = '4.3.2 the service is stopping';

const MOST_KNOWN = 10_000;
const MOST_NAMES = 100_000;
const TOO_OFTEN = refuse(421, '4.7.0 too many connections: come back in a minute');

export class OpenSessions<User> {
  private readonly deps: SessionLimits;
  private readonly byId = new Map<string, OpenSession<User>>();
  private readonly perAddress = new Tally();
  /** Sockets that begin with TLS, from their first packet to their end. */
  private readonly sockets = new Tally();
  private readonly perNetwork = new Tally();
  private readonly proofs = new Set<string>();
  private readonly strangers: Places;
  private readonly clients: Places;
  /** Addresses from which a program has signed in, and when. */
  private readonly known = createLru<string, number>(MOST_KNOWN);

  constructor(deps: SessionLimits) {
    this.deps = deps;
    const { limits } = deps;
    this.strangers = new Places(limits.connections, limits.connectionsPerMinute);
    this.clients = new Places(limits.clientConnections, limits.clientConnectionsPerMinute);
  }

  get(id: string): OpenSession<User> | undefined {
    return this.byId.get(id);
  }

  all(): Iterable<[id: string, session: OpenSession<User>]> {
    return this.byId.entries();
  }

  /** Counts a TLS socket until it closes; false if its address has too many: handshakes that never end could take all places. */
  admitSocket(socket: Socket): boolean {
    const ip = plainAddress(socket.remoteAddress ?? '') ?? '';
    const bucket = addressBucket(ip);
    const { connectionsPerAddress, clientConnections } = this.deps.limits;
    const most = Math.max(connectionsPerAddress, this.isKnown(ip) ? clientConnections : 0);
    if (this.sockets.of(bucket) >= SOCKETS * most) return false;
    this.sockets.add(bucket, 1);
    socket.once('close', () => {
      this.sockets.add(bucket, -1);
    });
    return true;
  }

  /** Returns whether an address is of a trusted network, or a program has signed in from it within the last hour. */
  private isKnown(ip: string): boolean {
    return this.deps.isTrusted(ip) || this.deps.clock.now() - (this.known.get(ip) ?? -Infinity) < HOUR_MS;
  }

  admit(id: string, address: string, connection: SmtpConnection): SmtpRefusal | null {
    const { limits, clock, isTrusted } = this.deps;
    const ip = plainAddress(address) ?? address;
    const session = new OpenSession<User>(connection, ip, clock.now(), this.strangers);
    const { bucket, network, since } = session;
    const { arrivals } = isTrusted(ip) ? this.clients : this.strangers;
    if (!arrivals.take(bucket, 1, since)) return TOO_OFTEN;
    if (this.isKnown(ip) && this.hasRoom(this.clients)) session.places = this.clients;
    const refusal = session.places === this.clients ? null : this.refusalFor(bucket, network);
    if (refusal !== null) return refusal;
    const timeUp = (): void => this.end(id, '4.4.2 the session took too long');
    session.sessionTimer = clock.after(limits.sessionMs, timeUp, { background: true });
    this.byId.set(id, session);
    this.count(session, 1);
    if (!isTrusted(ip)) session.places.unproven.add(session.site, id);
    this.expectStep(id, limits.greetingToMailMs);
    return null;
  }

  private count(session: OpenSession<User>, amount: 1 | -1): void {
    session.places.used += amount;
    if (session.places === this.clients) return;
    this.perAddress.add(session.bucket, amount);
    this.perNetwork.add(session.network, amount);
  }

  private refusalFor(bucket: string, network: string): SmtpRefusal | null {
    const { limits, overLimit } = this.deps;
    if (this.perAddress.of(bucket) >= limits.connectionsPerAddress)
      return refuse(421, '4.7.0 too many connections at once');
    if (this.perNetwork.of(network) >= limits.connectionsPerNetwork) {
      overLimit('connections_network');
      return refuse(421, '4.7.0 too many connections at once from your network');
    }
    if (!this.hasRoom(this.strangers)) {
      overLimit('connections');
      return refuse(421, '4.3.2 too many connections: try again later');
    }
    return null;
  }

  /** Returns whether there is a place; ends the oldest session of the site with most without a proof, unless its mail is being stored. */
  private hasRoom(places: Places): boolean {
    if (places.used < places.most) return true;
    const oldest = places.unproven.largest().find((id) => this.byId.get(id)?.isStoring === false);
    const session = oldest === undefined ? undefined : this.byId.get(oldest);
    if (oldest === undefined || session === undefined) return false;
    this.deps.overLimit('connections');
    this.remove(oldest);
    cutConnection(session.connection, 421, '4.3.2 too many connections: try again later');
    return true;
  }

  remove(id: string): void {
    const session = this.byId.get(id);
    if (session === undefined) return;
    this.byId.delete(id);
    session.places.unproven.remove(session.site, id);
    if (session.proof !== null) this.proofs.delete(session.proof);
    session.stepTimer.cancel();
    session.sessionTimer.cancel();
    this.count(session, -1);
  }

  removeAll(): void {
    for (const id of [...this.byId.keys()]) this.remove(id);
  }

  /** The session is a client's: it no longer gives way, and has a client's place if there is one. Returns the refusal of one too many. */
  signedIn(id: string, user: User): SmtpRefusal | null {
    const session = this.byId.get(id);
    if (session === undefined) return null;
    const { clock, limits, isTrusted } = this.deps;
    const now = clock.now();
    if (!isTrusted(session.ip)) {
      this.strangers.arrivals.giveBack(session.bucket, 1, session.since, now);
      if (!this.clients.arrivals.take(session.bucket, 1, now)) return TOO_OFTEN;
    }
    this.known.set(session.ip, now);
    session.failedSignIns = 0;
    session.user = user;
    session.places.unproven.remove(session.site, id);
    if (session.places === this.strangers && this.hasRoom(this.clients)) {
      this.count(session, -1);
      session.places = this.clients;
      this.count(session, 1);
    }
    this.expectStep(id, limits.greetingToMailMs);
    return null;
  }

  /** Forgets the user: the server discards what it was told before STARTTLS (RFC 3207 section 4.2). Only trusted clients sign in before it. */
  signedOut(id: string): void {
    const session = this.byId.get(id);
    if (session !== undefined) session.user = null;
  }

  /** Notes the first proof of a session; each proof is good for one session at a time. */
  noteProof(id: string, proof: string): void {
    const session = this.byId.get(id);
    if (session?.proof !== null || this.proofs.has(proof)) return;
    session.proof = proof;
    this.proofs.add(proof);
    session.places.unproven.remove(session.site, id);
  }

  /** Counts a refused command, and ends the session at the last one that is allowed. */
  countError(id: string): void {
    const session = this.byId.get(id);
    if (session === undefined || ++session.errors !== this.deps.limits.errors) return;
    this.end(id, '4.7.0 too many errors');
  }

  /** Ends the session unless its next step comes within this time. */
  expectStep(id: string, ms: number): void {
    const session = this.byId.get(id);
    if (session === undefined) return;
    session.stepTimer.cancel();
    const timeUp = (): void => this.end(id, '4.4.2 that took too long');
    session.stepTimer = this.deps.clock.after(ms, timeUp, { background: true });
  }

  /** Ends the session; one whose mail is being stored when that has its reply. */
  end(id: string, text: string): void {
    const session = this.byId.get(id);
    if (session === undefined) return;
    if (session.isStoring) session.ending ??= text;
    else endConnection(session.connection, 421, text);
  }

  /** The mail has its reply, and the session goes on or ends. */
  replied(id: string, { isClosing }: { isClosing: boolean }): void {
    const session = this.byId.get(id);
    if (session === undefined) return;
    session.isReceiving = false;
    session.isStoring = false;
    const ending = isClosing ? STOPPING : session.ending;
    if (ending !== null) this.end(id, ending);
    else this.expectStep(id, this.deps.limits.greetingToMailMs);
  }

  cut(id: string, text: string): void {
    const session = this.byId.get(id);
    if (session !== undefined) cutConnection(session.connection, 421, text);
  }
}
