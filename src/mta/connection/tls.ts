/** The TLS handshake with a mail host. It takes any certificate (RFC 7435) and checks it afterwards; every attempt records the result. */
import { LRUCache } from 'lru-cache';
import { constants, X509Certificate, createHash } from 'node:crypto';
import { type Socket, isIP } from 'node:net';
import {
  checkServerIdentity,
  connect,
  createSecureContext,
  type DetailedPeerCertificate,
  type PeerCertificate,
  type SecureContext,
  type SecureContextOptions,
  type TLSSocket,
} from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { HOUR_MS } from '../../base/time.ts';
import type { TlsNeed, TlsResult } from './tls-policy.ts';
import type { TlsaRecord } from '../../net/resolver.ts';
import { isTlsFault, tlsFaultText } from '../../net/tls-fault.ts';

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
  /** The handshake failed; the socket is destroyed. `isCut`: closed or reset, as an attacker on the way can do, and no fault of TLS was seen. */
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

const DANE_TA = 2;

/**
 * Returns null if the chain (leaf first, DER) matches, else the reason. For DANE-EE(3) name and dates do not count (RFC 7672 section
 * 3.1.1); for DANE-TA(2) the chain must lead to the matched certificate, be in date, and the leaf must have one of the names.
 */
export function daneFault(
  chain: readonly Buffer[],
  names: readonly string[],
  records: readonly TlsaRecord[],
  now: number,
): string | null {
  const certificates = parsed(chain);
  const leaf = certificates[0];
  if (leaf === undefined) return 'the server showed no certificate that can be read';
  let fault: string | null = null;
  for (const record of records) {
    if (record.usage !== DANE_TA) {
      if (matches(leaf, record)) return null;
      continue;
    }
    const anchor = certificates.findIndex((certificate) => matches(certificate, record));
    if (anchor < 0) continue;
    const chainFault = pathFault(certificates.slice(0, anchor + 1), now);
    if (chainFault === null && names.some((name) => leaf.checkHost(name) !== undefined)) return null;
    fault ??= chainFault ?? `ERR_TLS_CERT_ALTNAME_INVALID: the certificate is not for ${names.join(' or ')}`;
  }
  return fault ?? 'the certificate matches no TLSA record';
}

function parsed(chain: readonly Buffer[]): X509Certificate[] {
  try {
    return chain.map((der) => new X509Certificate(der));
  } catch {
    return [];
  }
}

function matches(certificate: X509Certificate, record: TlsaRecord): boolean {
  const selected =
    record.selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  return digested(selected, record.matchingType).equals(record.certificate);
}

function digested(bytes: Buffer, matchingType: number): Buffer {
  if (matchingType === 0) return bytes;
  return createHash(matchingType === 1 ? 'sha256' : 'sha512')
    .update(bytes)
    .digest();
}

/** Returns why the path does not lead to its last certificate, the trust anchor, in the codes of Node.js; null if it does. */
function pathFault(path: readonly X509Certificate[], now: number): string | null {
  for (const [at, certificate] of path.entries()) {
    if (Date.parse(certificate.validFrom) > now) return 'CERT_NOT_YET_VALID';
    if (Date.parse(certificate.validTo) < now) return 'CERT_HAS_EXPIRED';
    const issuer = path[at + 1];
    const isSigned =
      issuer === undefined || (issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey));
    if (!isSigned) return 'the certificates do not lead to the trust anchor of a TLSA record';
  }
  return null;
}
