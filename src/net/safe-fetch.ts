/**
 * Sends one HTTP request to a stranger's server, and cannot reach what only this machine can reach: undici connects to the public addresses of
 * our own resolver, without a second look-up (DNS rebinding), redirects or a proxy, and TLS is verified. Connections are kept by origin.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIPv4, type LookupFunction, type Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { buildConnector, Pool } from 'undici';
import { codeOf } from '../base/error-code.ts';
import type { Clock } from '../base/clock.ts';
import { yieldToEventLoop } from '../base/slices.ts';
import { addressList, isListed, isPublicAddress, plainAddress } from './ip.ts';
import type { Resolver } from './resolver.ts';
import { readSafeUrl, type SafeUrl } from './safe-url.ts';
import { tlsFaultText } from './tls-fault.ts';

export interface SafeFetchOptions extends AddressRuleOptions {
  allowHttp: boolean;
  /** PEM certificates to trust in place of the usual authorities. */
  ca?: string;
  /** For the whole request, look-up and answer included. */
  timeoutMs?: number;
  /** For look-up and TCP, and as much for TLS, on the system's clock. */
  connectMs?: number;
}

export interface SafeRequest {
  method: 'GET' | 'POST';
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
}

export type Fetched =
  | {
      kind: 'answered';
      status: number;
      headers: IncomingHttpHeaders;
      /** The first MOST_BYTES of the body; what comes after is not read. */
      body: Buffer;
    }
  | Failed;

interface Failed {
  kind: 'failed';
  why: FetchFault;
  /** For people. */
  text: string;
}

/**
 * `url`: not a URL that may be called. `forbidden`: it leads only to addresses that may not be called. `dns`: no address was
 * found. `timeout`: not all of it in time. `broken`: no connection, no valid certificate, or an answer that was cut off or is not
 * HTTP. `own`: this machine lacks descriptors or memory, and nothing was tried. `closed`: we stopped.
 */
export type FetchFault = 'url' | 'forbidden' | 'dns' | 'timeout' | 'broken' | 'own' | 'closed';

export type SafeFetch = ReturnType<typeof createSafeFetch>;

/** The bytes of an answer that are read. */
export const MOST_BYTES = 64 * 1024;
/** A name may have hundreds of addresses; each can cost a whole attempt. */
const MOST_ADDRESSES = 3;
const MOST_HEADER_BYTES = 16 * 1024;
const TIMEOUT_MS = 15_000;
const CONNECT_MS = 5000;
/** One address of several; the last one has what is left. */
const ADDRESS_MS = 1500;
/** Shorter than what servers usually grant, so that we rarely write into a connection that is being closed. */
const IDLE_MS = 4000;
/** Origins whose connections are kept. */
const MOST_POOLS = 1000;

/** Ends a request with its result. */
class Refusal extends Error {
  readonly failed: Failed;
  constructor(why: FetchFault, text: string) {
    super(text);
    this.failed = { kind: 'failed', why, text };
  }
}

/** Connects as `connect` does, for TLS on a TCP connection that is made before, and limits the answers. */
const limited =
  (connect: buildConnector.connector): buildConnector.connector =>
  (target, callback) => {
    connect({ ...target, protocol: 'http:' }, (...tcp) => {
      const [fault, raw] = tcp;
      const take: buildConnector.Callback = (...connected) => {
        callback(...connected);
        const [error, socket] = connected;
        if (error === null) limitAnswers(socket, raw ?? socket);
      };
      if (fault !== null || target.protocol === 'http:') take(...tcp);
      else connect({ ...target, httpSocket: raw }, take);
    });
  };

export function createSafeFetch(deps: { resolver: Resolver; clock: Clock }, options: SafeFetchOptions) {
  const { resolver, clock } = deps;
  const { timeoutMs = TIMEOUT_MS, connectMs = CONNECT_MS } = options;
  const mayCall = createAddressRule(options);
  const pools = new LRUCache<string, Pool>({
    max: MOST_POOLS,
    dispose: (pool) => void pool.close().catch(() => undefined),
  });
  const underWay = new Set<AbortController>();
  let closed = false;

  /** Looks up the addresses of a name, IPv4 first, since few machines have IPv4 that does not work. Throws a Refusal. */
  async function addressesOf(name: string): Promise<string[]> {
    const answers = await Promise.all([resolver.a(name), resolver.aaaa(name)]);
    const found = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []));
    if (found.length === 0) throw new Refusal('dns', `no address was found for ${name}`);
    return openAmong(name, found);
  }

  /** Returns the addresses among these that may be called. Throws a Refusal if there is none. */
  function openAmong(host: string, found: readonly string[]): string[] {
    const open = found.filter(mayCall).flatMap((ip) => plainAddress(ip) ?? []);
    const ips = [...new Set(open)].slice(0, MOST_ADDRESSES);
    if (ips.length === 0) throw new Refusal('forbidden', `${host} leads to a private or reserved address`);
    return ips;
  }

  /** Is called by the socket itself, so that it connects to the very addresses that were vetted. */
  const lookup: LookupFunction = (name, _options, callback) => {
    addressesOf(name).then(
      (ips) => {
        callback(
          null,
          ips.map((address) => ({ address, family: isIPv4(address) ? 4 : 6 })),
        );
      },
      (error: unknown) => callback(error as Error, []),
    );
  };

  /** Returns the kept connections to an origin. */
  async function poolOf(origin: string): Promise<Pool> {
    // Imported with the first request: its 110 files take 5 MB, and many installations call no other server.
    const { Pool, buildConnector } = await import('undici');
    const known = pools.get(origin);
    if (known !== undefined) return known;
    const connect = buildConnector({
      lookup,
      timeout: connectMs,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_MS,
      minVersion: 'TLSv1.2',
      rejectUnauthorized: true,
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    });
    const pool = new Pool(origin, {
      connect: limited(connect),
      maxHeaderSize: MOST_HEADER_BYTES,
      keepAliveTimeout: IDLE_MS,
      // By default a Keep-Alive header of the server may extend the time to ten minutes.
      keepAliveMaxTimeout: IDLE_MS,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    pools.set(origin, pool);
    return pool;
  }

  async function request(
    { url, host, isAddress }: SafeUrl,
    asked: SafeRequest,
    abort: AbortController,
  ): Promise<Fetched> {
    if (isAddress) openAmong(host, [host]);
    const pool = await poolOf(url.origin);
    abort.signal.throwIfAborted();
    const isReuse = pool.stats.free > 0;
    try {
      return await exchange(pool, url, asked, abort);
    } catch (error) {
      // The other side closed a kept connection just when we used it: the same once more.
      if (!isReuse || abort.signal.aborted || !/^(?:UND_ERR_SOCKET|ECONNRESET|EPIPE)$/.test(codeOf(error))) throw error;
      return await exchange(pool, url, asked, abort);
    }
  }

  async function send(asked: SafeRequest, abort: AbortController): Promise<Fetched> {
    const reading = readSafeUrl(asked.url, options);
    if (reading.kind === 'bad') return { kind: 'failed', why: 'url', text: `the URL ${reading.why}` };
    try {
      return await request(reading, asked, abort);
    } catch (error) {
      return failureOf(abort.signal.aborted ? abort.signal.reason : error);
    }
  }

  return {
    async send(asked: SafeRequest): Promise<Fetched> {
      if (closed) return CLOSED.failed;
      const abort = new AbortController();
      const deadline = clock.after(timeoutMs, () =>
        abort.abort(new Refusal('timeout', `no whole answer within ${String(timeoutMs / 1000)} s`)),
      );
      underWay.add(abort);
      // undici looks at the signal only once it has a connection.
      const aborted = new Promise<Fetched>((resolve) => {
        abort.signal.addEventListener('abort', () => resolve(failureOf(abort.signal.reason)));
      });
      try {
        return await Promise.race([send(asked, abort), aborted]);
      } finally {
        deadline.cancel();
        underWay.delete(abort);
      }
    },
    /** Checks a URL before it is called, as far as that is possible: a name that does not resolve (yet) is not a fault. */
    async vet(text: string): Promise<{ kind: 'ok'; href: string } | { kind: 'bad' | 'forbidden'; why: string }> {
      const reading = readSafeUrl(text, options);
      if (reading.kind === 'bad') return reading;
      const { url, host, isAddress } = reading;
      try {
        await (isAddress ? openAmong(host, [host]) : addressesOf(host));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (error.failed.why === 'forbidden') return { kind: 'forbidden', why: error.message };
      }
      return { kind: 'ok', href: url.href };
    },
    /** Ends what is under way and every connection. */
    close(): void {
      closed = true;
      for (const abort of underWay) abort.abort(CLOSED);
      for (const pool of pools.values()) pool.destroy().catch(() => undefined);
    },
  };
}

const CLOSED = new Refusal('closed', 'the service is stopping');

async function exchange(pool: Pool, url: URL, asked: SafeRequest, abort: AbortController): Promise<Fetched> {
  const { statusCode, headers, body } = await pool.request({
    method: asked.method,
    path: `${url.pathname}${url.search}`,
    headers: asked.headers,
    body: asked.body ?? null,
    signal: abort.signal,
  });
  const parts: Buffer[] = [];
  let bytes = 0;
  // Leaving the loop early ends the connection.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    parts.push(chunk);
    bytes += chunk.length;
    if (bytes >= MOST_BYTES) break;
  }
  // undici frees the connection in the next turn of the loop; a call before that would open another one.
  await yieldToEventLoop();
  return { kind: 'answered', status: statusCode, headers, body: Buffer.concat(parts).subarray(0, MOST_BYTES) };
}

/** Errors that this machine causes, not the other side. */
const OWN_FAULT = /^(?:EMFILE|ENFILE|ENOBUFS|ENOMEM)$/;
const LONGEST_TEXT = 200;

function failureOf(error: unknown): Failed {
  if (error instanceof Refusal) return error.failed;
  const said = error instanceof Error ? error.message || codeOf(error) : String(error);
  const text = tlsFaultText({ message: said }).slice(0, LONGEST_TEXT);
  return OWN_FAULT.test(codeOf(error))
    ? { kind: 'failed', why: 'own', text: `no connection can be opened here: ${text}` }
    : { kind: 'failed', why: 'broken', text: `no answer: ${text}` };
}

interface AddressRuleOptions {
  /** Addresses and CIDR ranges that are open although they are private: the operator's choice. */
  allowCidrs: readonly string[];
  /** Returns the machine's own addresses. It is asked each time, as they come and go. */
  ownAddresses: () => readonly string[];
}

/** NAT64 and 6to4. Mail counts them as the IPv4 address in them; here they are closed: it is not known whose network they cross. */
const translated = addressList(['64::/16', '2002::/16']);

/** Returns the rule for requests of customers: global unicast (RFC 6890) that is not this machine, or allowed by the operator; never other text. */
export function createAddressRule({ allowCidrs, ownAddresses }: AddressRuleOptions): (ip: string) => boolean {
  const allowed = addressList(allowCidrs);
  return (text) => {
    const ip = plainAddress(text);
    if (ip === null) return false;
    if (isListed(allowed, ip)) return true;
    return isPublicAddress(ip) && !isListed(translated, ip) && !ownAddresses().some((own) => plainAddress(own) === ip);
  };
}

/** An answer's body, of which callers take up to 64 KiB, and 16 KiB for its head and what frames both. */
export const MOST_ANSWER_BYTES = 80 * 1024;

/** Breaks an open connection with an error once more has come since the last request. `raw` carries the bytes: another socket if `socket` is of TLS. */
export function limitAnswers(socket: Socket, raw: Socket): void {
  let written = 0;
  let before = raw.bytesRead;
  let seen = before;
  const look = (): void => {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      // Bytes that came between two answers belong to the first of them.
      before = seen;
    }
    seen = raw.bytesRead;
    if (seen - before <= MOST_ANSWER_BYTES) return;
    // In the next turn: who has enough of a body ends the connection until then, and nothing failed.
    setImmediate(() =>
      socket.destroy(new Error(`more than ${String(MOST_ANSWER_BYTES / 1024)} KiB came without an end`)),
    );
  };
  // TLS can also bring tickets and handshakes without end, which are not data.
  for (const event of ['data', 'session', 'secure']) socket.on(event, look);
}
