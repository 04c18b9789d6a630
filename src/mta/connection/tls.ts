/**
 * The TLS handshake with a mail host. The certificate is checked after the handshake, which accepts any: opportunistic TLS takes
 * every certificate (RFC 7435), and the result is recorded in every attempt.
 */
import type { Socket } from 'node:net';
import { constants } from 'node:crypto';
import { checkServerIdentity, connect, createSecureContext } from 'node:tls';
import type {
  DetailedPeerCertificate,
  PeerCertificate,
  SecureContext,
  SecureContextOptions,
  TLSSocket,
} from 'node:tls';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import { HOUR_MS } from '../../base/time.ts';
import { isTlsFault, tlsFaultText } from '../../net/tls-fault.ts';
import { daneFault } from './dane.ts';
import type { TlsNeed, TlsResult } from './tls-policy.ts';

/**
 * `reduced`: TLS 1.2 only and no resumption, for servers that choke on a modern hello. `legacy`: what old servers can do, which is
 * still better than plaintext (RFC 7435): TLS 1.0, short keys, no secure renegotiation (RFC 5746), and no certificate if it is
 * larger than OpenSSL reads.
 */
export type Hello = 'full' | 'reduced' | 'legacy';

const helloOptions: Record<Hello, SecureContextOptions> = {
  full: { minVersion: 'TLSv1.2' },
  reduced: { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' },
  legacy: {
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.2',
    // Anonymous first: with them a server sends no certificate, so that its size does not matter.
    ciphers: 'aNULL:ALL:!eNULL:@SECLEVEL=0',
    secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
  },
};

/** The state that handshakes share: the trust store (loading it costs milliseconds) and sessions to resume. */
export type TlsClient = ReturnType<typeof createTlsClient>;

/** A resumed handshake shows no certificate, so the verdict on the first one is kept with it. */
interface ResumableSession {
  session: Buffer;
  fault: string | null;
  until: number;
}

const MAX_SESSIONS = 1000;
const SESSION_MS = HOUR_MS;

/** `ca`: PEM certificates to trust instead of the system's, for tests and private networks. */
export function createTlsClient(options: { ca?: string } = {}) {
  const contexts = new Map<Hello, SecureContext>();
  return {
    sessions: new LRUCache<string, ResumableSession>({ max: MAX_SESSIONS }),
    contextFor(hello: Hello): SecureContext {
      const made = contexts.get(hello);
      if (made !== undefined) return made;
      const context = createSecureContext({
        ...helloOptions[hello],
        ...(options.ca === undefined ? {} : { ca: options.ca }),
      });
      contexts.set(hello, context);
      return context;
    },
  };
}

export interface HandshakeTarget {
  host: string;
  port: number;
  need: TlsNeed;
  hello: Hello;
  timeoutMs: number;
}

export type Handshake =
  | { kind: 'secured'; socket: TLSSocket; result: TlsResult }
  /**
   * The handshake itself failed. The socket is destroyed. `isCut`: the connection was closed or reset, which an attacker on the way
   * can do, and no fault of TLS was seen.
   */
  | { kind: 'failed'; text: string; isCut: boolean };

/** Begins TLS on a connected socket. Does not compare the result with the need: see `verified` and `fault`. */
export function handshake(
  deps: { clock: Clock; tls: TlsClient },
  raw: Socket,
  target: HandshakeTarget,
): Promise<Handshake> {
  const { clock, tls } = deps;
  const key = `${target.host}:${String(target.port)}`;
  const resumed = target.hello === 'full' && target.need.verify === 'no' ? usableSession(tls, key, clock.now()) : null;
  const socket = connect({
    socket: raw,
    host: target.host,
    ...(isIP(target.host) === 0 ? { servername: target.need.names?.[0] ?? target.host } : {}),
    secureContext: tls.contextFor(target.hello),
    ...(resumed === null ? {} : { session: resumed.session }),
    rejectUnauthorized: false,
    // The operator may trust a certificate of old, without subject alternative names; a policy may not (RFC 8461 section 4.2).
    ...(target.need.policy === 'operator' ? {} : { checkServerIdentity: checkAlternativeNames }),
  });
  return new Promise((resolve) => {
    const failed = (text: string, isCut: boolean): void => {
      timer.cancel();
      tls.sessions.delete(key);
      socket.destroy();
      raw.destroy();
      resolve({ kind: 'failed', text, isCut });
    };
    const onError = (error: NodeJS.ErrnoException): void => failed(tlsFaultText(error), !isTlsFault(error));
    const onClose = (): void => failed('connection closed during the TLS handshake', true);
    const timer = clock.after(target.timeoutMs, () =>
      failed(`no TLS handshake within ${String(target.timeoutMs / 1000)} s`, false),
    );
    socket.on('error', onError);
    socket.once('close', onClose);
    socket.once('secureConnect', () => {
      timer.cancel();
      socket.off('error', onError);
      socket.off('close', onClose);
      const result = resultOf(socket, target, resumed, clock.now());
      // The result of DANE does not hold for policies that check chain and name.
      if (target.hello === 'full' && target.need.verify !== 'dane')
        rememberSession(tls, key, socket, result, clock.now());
      resolve({ kind: 'secured', socket, result });
    });
  });
}

function resultOf(
  socket: TLSSocket,
  target: HandshakeTarget,
  resumed: ResumableSession | null,
  now: number,
): TlsResult {
  const cipher = socket.getCipher();
  const fault = resumed !== null && socket.isSessionReused() ? resumed.fault : certificateFault(socket, target, now);
  return {
    protocol: socket.getProtocol() ?? 'unknown',
    cipher: cipher.standardName,
    verified: fault === null,
    policy: target.need.policy,
    fault,
  };
}

function certificateFault(socket: TLSSocket, target: HandshakeTarget, now: number): string | null {
  const { verify, names = [target.host], tlsa } = target.need;
  if (verify === 'dane') return daneFault(chainOf(socket), names, tlsa, now);
  if (socket.authorized) return null;
  // Node sets an Error here, or only its code, whatever the types say.
  const error: unknown = socket.authorizationError;
  return error instanceof Error ? error.message : String(error);
}

/** Checks names like Node's own function, but never by the common name (RFC 8461 section 4.2, RFC 9525). */
export function checkAlternativeNames(name: string, certificate: PeerCertificate): Error | undefined {
  if (/(?:^|, )(?:DNS|IP Address):/.test(certificate.subjectaltname ?? ''))
    return checkServerIdentity(name, certificate);
  const code = 'ERR_TLS_CERT_ALTNAME_INVALID';
  return Object.assign(new Error(`${code}: the certificate has no subject alternative name`), { code });
}

/** Returns the certificates that the server sent, leaf first. */
function chainOf(socket: TLSSocket): Buffer[] {
  const chain: Buffer[] = [];
  // Without a certificate Node gives an empty object, and the last one may have no issuer, whatever the types say.
  let certificate: Partial<DetailedPeerCertificate> | undefined = socket.getPeerCertificate(true);
  // Ten are more than any real chain has.
  while (certificate?.raw !== undefined && chain.length < 10) {
    chain.push(certificate.raw);
    if (certificate.issuerCertificate === certificate) break;
    certificate = certificate.issuerCertificate;
  }
  return chain;
}

function usableSession(tls: TlsClient, key: string, now: number): ResumableSession | null {
  const stored = tls.sessions.get(key);
  return stored !== undefined && stored.until > now ? stored : null;
}

function rememberSession(tls: TlsClient, key: string, socket: TLSSocket, result: TlsResult, now: number): void {
  // With TLS 1.3 the tickets come after the handshake; each may be used once, so the newest is kept.
  socket.on('session', (session) => tls.sessions.set(key, { session, fault: result.fault, until: now + SESSION_MS }));
}
