/** The facts that the doctor's checks use, about this machine and its network; those of the database are in store.ts. Tests pass others. */
import type { Clock } from '../../base/clock.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import type { OperatorDeps } from '../server-route.ts';
import type { storeProbes } from './store.ts';
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { isMissing } from '../../base/error-code.ts';
import { backupState, whyNotWritable } from '../../backup/folder.ts';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import { keyIdsIn } from '../../base/keyring.ts';
import { certificateFiles, readCertificate, type CertificateFiles } from '../../config/certificate.ts';
import { OWN_CERT_FILE } from '../../config/own-certificate.ts';
import dgram from 'node:dgram';
import net from 'node:net';
import { createTransport } from 'nodemailer';
import { tlsFaultText } from '../../net/tls-fault.ts';

export interface Probes {
  config: Config;
  clock: Clock;
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'mx' | 'txt' | 'ptr' | 'cname'>;
  machine: ReturnType<typeof createMachine>;
  network: ReturnType<typeof createNetwork>;
  store: ReturnType<typeof storeProbes> | Missing;
  server: Server | Missing;
  /** True if the DNS servers are to be tried for DNSSEC although no setting needs it. */
  wantsDnssec: boolean;
}

/** A probe that cannot be had, and why. */
export interface Missing {
  kind: 'missing';
  why: string;
  cure: string;
  /** Set if the database is there and must not be used. */
  refusal?: 'moved' | 'unsuitable';
}

type CertificateFacts =
  | {
      kind: 'read';
      file: string;
      isSelfSigned: boolean;
      isOwn: boolean;
      /** Milliseconds since the epoch. */
      from: number;
      until: number;
      /** Returns whether it is valid for this host name. */
      isFor(host: string): boolean;
    }
  /** Made at the first start. */
  | { kind: 'none' }
  | { kind: 'bad'; why: string };

/** The first line and how long it took; `silent`: no answer in time, as of a firewall that drops. */
export type Greeting =
  { kind: 'greeted'; line: string; ms: number } | { kind: 'refused' | 'silent' | 'unreachable'; why: string };

/** The route of a smarthost at this address; `hostname` is our name for EHLO. */
export type Relay = Pick<Smarthost, 'host' | 'port' | 'tls' | 'auth'> & { ip: string; hostname: string };
export type Smarthost = Extract<Config['delivery']['routes'][string], { kind: 'smarthost' }>;

/** `refused`: the login. `unreachable`: it takes no connection. */
export type RelayAnswer = { kind: 'ready' } | { kind: 'refused' | 'unreachable' | 'failed'; why: string };

/** Facts that only the running server has. */
interface Server extends Pick<OperatorDeps, 'listeners' | 'selfTest' | 'settings' | 'unknownProxies'> {
  kind: 'server';
  nodes: Pick<OperatorDeps['nodes'], 'list'>;
  /** Why the database did not take the last write, or null. */
  writeTrouble: () => string | null;
}

export type Status = 'ok' | 'warning' | 'failed';

export interface Verdict {
  status: Status;
  /** A sentence about what the check found. */
  why: string;
  /** The remedy; null if none is needed. */
  cure: string | null;
  /** The object that it is about, for a link. */
  about?: { object: 'domain' | 'webhook'; id: string; name: string; account_id: string };
  /** Commands and values of the remedy, to be copied. */
  copy?: readonly string[];
}

type More = Pick<Verdict, 'about' | 'copy'>;
const verdict =
  (status: Status) =>
  (why: string, cure: string | null, more: More = {}): Verdict => ({ status, why, cure, ...more });
export const ok = (why: string): Verdict => verdict('ok')(why, null);
/** Makes a warning: mail is still delivered. */
export const warning = verdict('warning');
/** Makes a failure: mail, or a promise about it, is in danger. */
export const failed = verdict('failed');

/** Makes the warning of a check that has nothing to look at. */
export const unseen = ({ why, cure }: { why: string; cure: string }): Verdict =>
  warning(`cannot be looked at: ${why}`, cure);

/** A check yields what it finds; what it returns is said if it has found nothing. */
export type Check = AsyncGenerator<Verdict, string | undefined, undefined>;

export async function verdictsOf(check: Check): Promise<Verdict[]> {
  const found: Verdict[] = [];
  for (;;) {
    const { done, value } = await check.next();
    if (done !== true) found.push(value);
    else return found.length > 0 || value === undefined ? found : [ok(value)];
  }
}

export function createMachine({
  tls,
  dataDir,
  storage,
  backup,
}: Pick<Config, 'tls' | 'dataDir' | 'storage' | 'backup'>) {
  return {
    /** Returns the addresses of this machine's interfaces; the loopback one may have public ones. */
    addresses: (): readonly string[] =>
      Object.values(networkInterfaces()).flatMap((found = []) =>
        found.map(({ address }) => address).filter((ip) => ip !== '::1' && !ip.startsWith('127.')),
      ),
    freeBytes,
    /** Returns the nine bits of the mode, the owner and the size of a file; null if there is none. */
    async file(file: string): Promise<{ mode: number; uid: number; bytes: number } | null> {
      try {
        const { mode, uid, size } = await stat(file);
        return { mode: mode & 0o777, uid, bytes: size };
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    /** Returns the ids of the keys in `<dataDir>/secret.key`; null if there is no such file. Throws if it cannot be used. */
    keyIds: (): readonly string[] | null => keyIdsIn(dataDir),
    certificate: (): CertificateFacts =>
      certificateOf(certificateFiles({ tls, dataDir }), path.join(dataDir, OWN_CERT_FILE)),
    /** Null on PostgreSQL, whose backups are its own. */
    backups: async (now: number) => (isPostgresUrl(storage.url) ? null : backupState(backup.dir, now)),
    /** Returns why this process cannot write backups, or null. */
    whyNoBackups: () => whyNotWritable(backup.dir),
  };
}

/** Returns the free bytes of the disk that the folder is on, or would be. */
async function freeBytes(dir: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(dir);
    return bavail * bsize;
  } catch (error) {
    const above = path.dirname(dir);
    if (!isMissing(error) || above === dir) throw error;
    return freeBytes(above);
  }
}

function certificateOf(files: CertificateFiles | null, ownFile: string): CertificateFacts {
  if (files === null && !existsSync(ownFile)) return { kind: 'none' };
  const file = files?.certFile ?? ownFile;
  try {
    // The first of the chain is the server's own.
    const read = new X509Certificate(files === null ? readFileSync(file) : readCertificate(files).cert);
    return {
      kind: 'read',
      file,
      isOwn: files === null,
      isSelfSigned: read.issuer === read.subject,
      from: Date.parse(read.validFrom),
      until: Date.parse(read.validTo),
      isFor: (host) => read.checkHost(host) !== undefined,
    };
  } catch (error) {
    return { kind: 'bad', why: mistakeOf(error) };
  }
}

function mistakeOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'mistakes' in error) return String(error.mistakes);
  return error instanceof Error ? error.message : String(error);
}

const GREET_MS = 8_000;
const TIME_MS = 3_000;
/** RFC 5321 section 4.5.3.1.5: a reply line has 512 octets. */
const LONGEST_LINE = 512;
/** Seconds from 1900 to 1970. */
const NTP_EPOCH = 2_208_988_800;
const NTP_BYTES = 48;
const NTP_PORT = 123;

/** The answer of a time server; `offsetMs` is how far ahead it is of our clock. */
type Time = { kind: 'answered'; offsetMs: number } | { kind: 'silent'; why: string };

export function createNetwork({ clock }: { clock: Clock }, { ntpPort = NTP_PORT } = {}) {
  return {
    greet: (place: { ip: string; port: number }) => greet(clock, place),
    tryRelay,
    /** Asks a time server (RFC 4330). */
    askTime: (ip: string) => askTime(clock, { ip, port: ntpPort }),
  };
}

function greet(clock: Clock, { ip, port }: { ip: string; port: number }): Promise<Greeting> {
  return new Promise((resolve) => {
    const begun = clock.monotonic();
    const socket = net.connect({ host: ip, port });
    let isConnected = false;
    let heard = '';
    const end = (greeting: Greeting): void => {
      timer.cancel();
      socket.destroy();
      resolve(greeting);
    };
    const timer = clock.after(GREET_MS, () => {
      const what = isConnected ? 'it takes the connection, but does not greet' : 'no answer';
      end({ kind: 'silent', why: `${what} within ${String(GREET_MS / 1000)} s` });
    });
    socket.on('connect', () => (isConnected = true));
    socket.on('data', (bytes) => {
      heard += bytes.toString('latin1');
      const [line = '', rest] = heard.split('\n', 2);
      if (rest === undefined && heard.length < LONGEST_LINE) return;
      socket.write('QUIT\r\n');
      end({ kind: 'greeted', line: printableLine(line), ms: clock.monotonic() - begun });
    });
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      end({ kind: code === 'ECONNREFUSED' ? 'refused' : 'unreachable', why: code ?? message });
    });
    socket.on('close', () => {
      end({ kind: 'unreachable', why: 'it closes the connection without a greeting' });
    });
  });
}

/** Greets a smarthost as the delivery does, signs in if the route has a login, and sends nothing. A password goes without TLS only if the route says so. */
async function tryRelay({ ip, host, port, tls, auth, hostname }: Relay): Promise<RelayAnswer> {
  const transport = createTransport({
    host: ip,
    port,
    name: hostname,
    secure: tls === 'implicit',
    ignoreTLS: tls === 'none',
    requireTLS: tls === 'required' || (tls === 'opportunistic' && auth !== null),
    opportunisticTLS: tls === 'opportunistic' && auth === null,
    // The delivery checks the certificate only if TLS is there from the start.
    tls: { rejectUnauthorized: tls === 'implicit', ...(net.isIP(host) === 0 ? { servername: host } : {}) },
    ...(auth === null ? {} : { auth: { user: auth.user, pass: auth.password }, forceAuth: true }),
    connectionTimeout: GREET_MS,
    greetingTimeout: GREET_MS,
    socketTimeout: GREET_MS,
  });
  try {
    await transport.verify();
    return { kind: 'ready' };
  } catch (error) {
    return relayFault(error as Error & { code?: string; originalCode?: string; response?: string });
  }
}

function relayFault(error: Error & { code?: string; originalCode?: string; response?: string }): RelayAnswer {
  const { code, originalCode, response } = error;
  const why = printableLine(response ?? tlsFaultText(error));
  if (code === 'EAUTH' && response?.startsWith('5') === true) return { kind: 'refused', why };
  const isUnreachable = /^E(?:CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/.test(originalCode ?? '');
  return isUnreachable ? { kind: 'unreachable', why: originalCode ?? '' } : { kind: 'failed', why };
}

/** Removes control characters, since the line is shown on terminals. */
const printableLine = (line: string): string =>
  line
    .slice(0, LONGEST_LINE)
    .replace(/[^\x20-\x7e]/g, '')
    .trimEnd();

/** Asks once (RFC 4330 section 5); half of the round trip is subtracted. */
function askTime(clock: Clock, { ip, port }: { ip: string; port: number }): Promise<Time> {
  return new Promise((resolve) => {
    const socket = dgram.createSocket(net.isIPv6(ip) ? 'udp6' : 'udp4');
    const asked = clock.monotonic();
    const question = Buffer.alloc(NTP_BYTES);
    question[0] = 0x23; // version 4, client
    let isOver = false;
    const end = (result: Time): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      socket.close();
      resolve(result);
    };
    const timer = clock.after(TIME_MS, () => {
      end({ kind: 'silent', why: `no answer within ${String(TIME_MS / 1000)} s` });
    });
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      end({ kind: 'silent', why: code ?? message });
    });
    socket.on('message', (answer) => {
      // Mode 4 is a server's; stratum 0 is a refusal (kiss-o'-death).
      if (answer.length < NTP_BYTES || ((answer[0] ?? 0) & 7) !== 4 || answer[1] === 0) return;
      const theirs = (answer.readUInt32BE(40) - NTP_EPOCH) * 1000 + (answer.readUInt32BE(44) / 2 ** 32) * 1000;
      end({ kind: 'answered', offsetMs: theirs - (clock.now() - (clock.monotonic() - asked) / 2) });
    });
    socket.connect(port, ip, () => {
      socket.send(question);
    });
  });
}
