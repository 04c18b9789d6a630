/** The open sessions of a listener: how many an address, a network and all may have, who gives way, and when each one ends. */
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../base/clock.ts';
import { Crowds } from '../net/crowds.ts';
import { addressBucket, networkOf, siteOf } from '../net/ip.ts';
import { RateWindows } from '../scheduling/rate-windows.ts';
import type { LimitName, ListenerLimits } from './listener-limits.ts';
import { cutConnection, endConnection, type SmtpConnection } from './smtp-connection.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';
import { Tally } from './tally.ts';

/** One session, as the listener follows it. */
export interface OpenSession<User> {
  readonly connection: SmtpConnection;
  readonly bucket: string;
  readonly network: string;
  readonly site: string;
  errors: number;
  failedSignIns: number;
  user: User | null;
  /** See `Handlers.proofOf`. */
  proof: string | null;
  isReceiving: boolean;
  /** Its mail has come and gets its reply next: without it the client would send the mail again. */
  isStoring: boolean;
  /** The reason to end it after that reply. */
  ending: string | null;
  /** The next step must come before this ends. */
  stepTimer: Timer;
  sessionTimer: Timer;
}

interface SessionLimits {
  clock: Clock;
  limits: ListenerLimits;
  /** A session was refused, or had to give way, because of this limit. */
  overLimit: (limit: LimitName) => void;
}

/** Sockets of an address for each session that it may have: some have not ended their TLS handshake, or are about to close. */
const SOCKETS = 2;

export const STOPPING = '4.3.2 the service is stopping';

const never: Timer = { cancel: () => undefined };

export class OpenSessions<User> {
  private readonly deps: SessionLimits;
  private readonly byId = new Map<string, OpenSession<User>>();
  private readonly perAddress = new Tally();
  /** Sockets that begin with TLS, from their first packet to their end. */
  private readonly sockets = new Tally();
  private readonly perNetwork = new Tally();
  /** Sessions without a user or a proof, by site: they give way to others. */
  private readonly unproven = new Crowds<string>();
  private readonly proofs = new Set<string>();
  private readonly arrivals = new RateWindows();

  constructor(deps: SessionLimits) {
    this.deps = deps;
  }

  get(id: string): OpenSession<User> | undefined {
    return this.byId.get(id);
  }

  all(): Iterable<[id: string, session: OpenSession<User>]> {
    return this.byId.entries();
  }

  /**
   * Counts a socket that begins with TLS until it closes; false where its address has too many. It becomes a session when the handshake ends,
   * so without this limit an address that never ends one would have all places.
   */
  admitSocket(socket: Socket): boolean {
    const bucket = addressBucket(socket.remoteAddress ?? '');
    if (this.sockets.of(bucket) >= SOCKETS * this.deps.limits.connectionsPerAddress) return false;
    this.sockets.add(bucket, 1);
    socket.once('close', () => {
      this.sockets.add(bucket, -1);
    });
    return true;
  }

  /** Counts a new connection, or refuses it. */
  admit(id: string, ip: string, connection: SmtpConnection): SmtpRefusal | null {
    const { limits, clock } = this.deps;
    const bucket = addressBucket(ip);
    const network = networkOf(ip);
    const refusal = this.refusalFor(bucket, network);
    if (refusal !== null) return refusal;
    const site = siteOf(ip);
    this.perAddress.add(bucket, 1);
    this.perNetwork.add(network, 1);
    const timeUp = (): void => this.end(id, '4.4.2 the session took too long');
    this.byId.set(id, {
      connection,
      bucket,
      network,
      site,
      errors: 0,
      failedSignIns: 0,
      user: null,
      proof: null,
      isReceiving: false,
      isStoring: false,
      ending: null,
      stepTimer: never,
      sessionTimer: clock.after(limits.sessionMs, timeUp, { background: true }),
    });
    this.unproven.add(site, id);
    this.expectStep(id, limits.greetingToMailMs);
    return null;
  }

  private refusalFor(bucket: string, network: string): SmtpRefusal | null {
    const { limits, clock, overLimit } = this.deps;
    if (this.arrivals.take(bucket, limits.connectionsPerMinute, clock.now()).over)
      return refuse(421, '4.7.0 too many connections: come back in a minute');
    if (this.perAddress.of(bucket) >= limits.connectionsPerAddress)
      return refuse(421, '4.7.0 too many connections at once');
    if (this.perNetwork.of(network) >= limits.connectionsPerNetwork) {
      overLimit('connectionsPerNetwork');
      return refuse(421, '4.7.0 too many connections at once from your network');
    }
    if (this.byId.size >= limits.connections && !this.makeRoom()) {
      overLimit('connections');
      return refuse(421, '4.3.2 too many connections: try again later');
    }
    return null;
  }

  /**
   * Ends the oldest session of the site that has most sessions without a proof. One whose mail is being stored stays. Returns false where no
   * session can be ended.
   */
  private makeRoom(): boolean {
    const oldest = this.unproven.largest().find((id) => this.byId.get(id)?.isStoring === false);
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
    this.unproven.remove(session.site, id);
    if (session.proof !== null) this.proofs.delete(session.proof);
    session.stepTimer.cancel();
    session.sessionTimer.cancel();
    this.perAddress.add(session.bucket, -1);
    this.perNetwork.add(session.network, -1);
  }

  removeAll(): void {
    for (const id of [...this.byId.keys()]) this.remove(id);
  }

  /** The session no longer gives way to others. */
  signedIn(id: string, user: User): void {
    const session = this.byId.get(id);
    if (session === undefined) return;
    session.failedSignIns = 0;
    session.user = user;
    this.unproven.remove(session.site, id);
    this.expectStep(id, this.deps.limits.greetingToMailMs);
  }

  /** Forgets the user: the server discards what it was told before STARTTLS (RFC 3207 section 4.2). */
  signedOut(id: string): void {
    const session = this.byId.get(id);
    if (session?.user == null) return;
    session.user = null;
    if (session.proof === null) this.unproven.add(session.site, id);
  }

  /** Notes the first proof of a session; each proof is good for one session at a time. */
  noteProof(id: string, proof: string): void {
    const session = this.byId.get(id);
    if (session?.proof !== null || this.proofs.has(proof)) return;
    session.proof = proof;
    this.proofs.add(proof);
    this.unproven.remove(session.site, id);
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
