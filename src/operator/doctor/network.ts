/** The doctor's questions to the network: the greeting of a mail host, the login at a smarthost, and the time of a time server. */
import dgram from 'node:dgram';
import net from 'node:net';
import { createTransport } from 'nodemailer';
import type { Clock } from '../../base/clock.ts';
import { tlsFaultText } from '../../net/tls-fault.ts';
import type { Greeting, Relay, RelayAnswer } from './probes.ts';

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
    /** Connects and reads the greeting of a mail host. */
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
