/**
 * One HTTP request to a stranger's server that cannot reach what only we can reach: each request is looked up in our own
 * resolver, every address that is not open to all is dropped, and the connection goes to a vetted address itself. There is
 * no second look-up that could say something else (DNS rebinding), no redirect, no proxy, and TLS is verified for the name.
 *
 * Connections are kept and used again, but only for the same vetted address, port and name.
 */
import http from 'node:http';
import https from 'node:https';
import type { Clock, Timer } from '../base/clock.ts';
import { plainAddress } from './ip.ts';
import { createAddressRule, type AddressRuleOptions } from './public-address.ts';
import type { Resolver } from './resolver.ts';
import { readSafeUrl, type SafeUrl } from './safe-url.ts';

export interface SafeFetchOptions extends AddressRuleOptions {
  allowHttp: boolean;
  /** PEM certificates to trust in place of the usual authorities. */
  ca?: string;
  /** For the whole request, look-up and answer included. */
  timeoutMs?: number;
  /** For one address: TCP and TLS. */
  connectMs?: number;
}

export interface SafeRequest {
  method: 'GET' | 'POST';
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** In place of `body`. */
  bytes?: Buffer;
}

export type Fetched =
  | {
      kind: 'answered';
      status: number;
      headers: http.IncomingHttpHeaders;
      /** The first MOST_BYTES of the body; what comes after is not read. */
      body: Buffer;
      ip: string;
    }
  | { kind: 'failed'; why: FetchFault; text: string };

/**
 * `url`: not a URL that may be called. `forbidden`: it leads only to addresses that may not be called. `dns`: no address was
 * found. `connect`, `tls`: no connection. `timeout`: not all of it in time. `broken`: the answer was cut off or is no HTTP.
 * `own`: for want of descriptors or memory of ours nothing was tried. `closed`: we stopped.
 */
export type FetchFault = 'url' | 'forbidden' | 'dns' | 'connect' | 'tls' | 'timeout' | 'broken' | 'own' | 'closed';

export interface SafeFetch {
  send(request: SafeRequest): Promise<Fetched>;
  /** What can be known of a URL before it is called: a name that does not resolve (yet) is no fault. */
  vet: (url: string) => Promise<{ kind: 'ok'; href: string } | { kind: 'bad' | 'forbidden'; why: string }>;
  /** Ends what is under way and every connection. */
  close(): void;
}

/** More of an answer is not read. */
export const MOST_BYTES = 64 * 1024;
/** A name may have hundreds; each can cost a whole connect timeout. */
const MOST_ADDRESSES = 3;
const MOST_HEADER_BYTES = 16 * 1024;
/** Informational answers (100, 103) before the one that counts: servers send one or two. */
const MOST_INFORMATION = 10;
const TIMEOUT_MS = 15_000;
const CONNECT_MS = 5000;
/** Shorter than what servers usually grant, so that we rarely write into a connection that is being closed. */
const IDLE_MS = 4000;
const KEPT_PER_HOST = 10;

type Way = { kind: 'ok'; url: SafeUrl; ips: readonly string[] } | { kind: 'failed'; why: FetchFault; text: string };

export function createSafeFetch(deps: { resolver: Resolver; clock: Clock }, options: SafeFetchOptions): SafeFetch {
  const { resolver, clock } = deps;
  const { timeoutMs = TIMEOUT_MS, connectMs = CONNECT_MS } = options;
  const mayCall = createAddressRule({ ...options, ownAddresses: remembered(clock, options.ownAddresses) });
  const kept = { keepAlive: true, maxFreeSockets: KEPT_PER_HOST, timeout: IDLE_MS, scheduling: 'lifo' } as const;
  const agents = {
    'http:': new http.Agent(kept),
    'https:': new https.Agent({ ...kept, ...(options.ca === undefined ? {} : { ca: options.ca }) }),
  };
  const underWay = new Set<(fault: Fetched) => void>();
  let closed = false;

  async function addressesOf(url: SafeUrl): Promise<Way> {
    const found = url.isAddress ? [url.host] : await look(url.host);
    if (found.length === 0) return { kind: 'failed', why: 'dns', text: `no address was found for ${url.host}` };
    const ips = [...new Set(found.filter(mayCall).flatMap((ip) => plainAddress(ip) ?? []))].slice(0, MOST_ADDRESSES);
    if (ips.length > 0) return { kind: 'ok', url, ips };
    return { kind: 'failed', why: 'forbidden', text: `${url.host} leads to a private or reserved address` };
  }

  /** IPv4 first: few machines have IPv4 that does not work. */
  async function look(name: string): Promise<string[]> {
    const answers = await Promise.all([resolver.a(name), resolver.aaaa(name)]);
    return answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []));
  }

  async function wayTo(text: string): Promise<Way> {
    const reading = readSafeUrl(text, options);
    if (reading.kind === 'bad') return { kind: 'failed', why: 'url', text: `the URL ${reading.why}` };
    return addressesOf(reading.url);
  }

  /** Address after address until one lets us speak; within one deadline for all. */
  async function sendTo(request: SafeRequest, abort: Abort): Promise<Fetched> {
    const way = await wayTo(request.url);
    if (way.kind === 'failed') return way;
    let last: Fetched = { kind: 'failed', why: 'connect', text: 'no connection' };
    for (const ip of way.ips) {
      if (abort.fault !== null) return abort.fault;
      const tried = await attempt(way.url, ip, request, abort, true);
      // The other side closed a kept connection just when we used it: the same on a new one.
      const done = tried.kind === 'stale' ? await attempt(way.url, ip, request, abort, false) : tried;
      if (done.kind !== 'failed' || (done.why !== 'connect' && done.why !== 'tls')) return asFetched(done);
      last = done;
    }
    return last;
  }

  function attempt(url: SafeUrl, ip: string, request: SafeRequest, abort: Abort, reuse: boolean): Promise<Tried> {
    return new Promise((resolve) => {
      const message = (url.protocol === 'https:' ? https : http).request({
        host: ip,
        port: url.port,
        path: url.path,
        method: request.method,
        headers: { Host: url.authority, ...request.headers },
        maxHeaderSize: MOST_HEADER_BYTES,
        agent: reuse ? agents[url.protocol] : false,
        ...(url.protocol === 'http:' ? {} : tlsFor(url, options.ca)),
      });
      const connecting = clock.after(connectMs, () => {
        end({ kind: 'failed', why: 'connect', text: `no connection to ${ip} within ${seconds(connectMs)}` });
      });
      let settled = false;
      const end = (tried: Tried): void => {
        if (settled) return;
        settled = true;
        connecting.cancel();
        abort.listeners.delete(end);
        // Of an answer that was read to its end the connection is the agent's again already.
        if (tried.kind !== 'answered' || tried.cut) message.destroy();
        resolve(tried);
      };
      abort.listeners.add(end);
      if (abort.fault !== null) end(abort.fault);
      let stage: Stage = 'connecting';
      watchStages(message, (reached) => {
        stage = reached;
        if (stage === 'open') connecting.cancel();
      });
      message.on('error', (error) => {
        end(failureOf(message, error, stage, ip));
      });
      let informed = 0;
      message.on('information', () => {
        if (++informed > MOST_INFORMATION)
          end({ kind: 'failed', why: 'broken', text: `the answer of ${ip} is broken: only informational answers` });
      });
      message.on('response', (response) => {
        read(response, ip, end);
      });
      // Nothing else may come: an upgrade, say.
      message.on('close', () => {
        end({ kind: 'failed', why: 'broken', text: 'the connection ended before an answer' });
      });
      message.end(request.bytes ?? request.body);
    });
  }

  return {
    async send(request) {
      if (closed) return CLOSED;
      const abort: Abort = { fault: null, listeners: new Set() };
      return new Promise<Fetched>((resolve, reject) => {
        let late: Timer | null = null;
        const stop = (fault: Fetched): void => {
          if (fault.kind !== 'failed') return;
          abort.fault = fault;
          for (const listener of [...abort.listeners]) listener(fault);
          finish(fault);
        };
        const finish = (fetched: Fetched): void => {
          late?.cancel();
          underWay.delete(stop);
          resolve(fetched);
        };
        late = clock.after(timeoutMs, () => {
          stop({ kind: 'failed', why: 'timeout', text: `no whole answer within ${seconds(timeoutMs)}` });
        });
        underWay.add(stop);
        sendTo(request, abort).then(finish, (error: unknown) => {
          late.cancel();
          underWay.delete(stop);
          reject(error instanceof Error ? error : new Error(String(error)));
        });
      });
    },
    async vet(text) {
      const reading = readSafeUrl(text, options);
      if (reading.kind === 'bad') return reading;
      const way = await addressesOf(reading.url);
      return way.kind === 'failed' && way.why === 'forbidden'
        ? { kind: 'forbidden', why: way.text }
        : { kind: 'ok', href: reading.url.href };
    },
    close() {
      closed = true;
      for (const stop of [...underWay]) stop(CLOSED);
      agents['http:'].destroy();
      agents['https:'].destroy();
    },
  };
}

/** Asking the system costs more than all else that is checked. */
const OWN_FRESH_MS = 10_000;

function remembered(clock: Clock, ask: () => readonly string[]): () => readonly string[] {
  let known: { addresses: readonly string[]; until: number } | null = null;
  return () => {
    if (known === null || known.until <= clock.monotonic())
      known = { addresses: ask(), until: clock.monotonic() + OWN_FRESH_MS };
    return known.addresses;
  };
}

const CLOSED: Fetched = { kind: 'failed', why: 'closed', text: 'the service is stopping' };

/** How a request that is under way is ended from outside. */
interface Abort {
  fault: Extract<Fetched, { kind: 'failed' }> | null;
  listeners: Set<(fault: Extract<Fetched, { kind: 'failed' }>) => void>;
}

type Tried =
  | (Extract<Fetched, { kind: 'answered' }> & { cut: boolean })
  | Extract<Fetched, { kind: 'failed' }>
  | { kind: 'stale' };

const seconds = (ms: number): string => `${String(ms / 1000)} s`;

function asFetched(tried: Tried): Fetched {
  if (tried.kind === 'stale') return { kind: 'failed', why: 'broken', text: 'the connection ended before an answer' };
  if (tried.kind === 'failed') return tried;
  const { status, headers, body, ip } = tried;
  return { kind: 'answered', status, headers, body, ip };
}

/** The certificate must be for the name in the URL, not for the address that is dialled. SNI never holds an address (RFC 6066 section 3). */
function tlsFor(url: SafeUrl, ca: string | undefined): https.RequestOptions {
  return {
    servername: url.isAddress ? '' : url.host,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
  };
}

/** How far a connection has come: until it is open, what goes wrong says nothing of the request. */
type Stage = 'connecting' | 'handshaking' | 'open';

function watchStages(message: http.ClientRequest, reached: (stage: Stage) => void): void {
  message.on('socket', (socket) => {
    if (!socket.connecting) {
      reached('open');
      return;
    }
    const isTls = 'encrypted' in socket;
    socket.once('connect', () => {
      reached(isTls ? 'handshaking' : 'open');
    });
    if (isTls)
      socket.once('secureConnect', () => {
        reached('open');
      });
  });
}

/** What this machine lacks, and not the other side. */
const OWN_FAULT = /^(?:EMFILE|ENFILE|ENOBUFS|ENOMEM)$/;

function failureOf(message: http.ClientRequest, error: Error & { code?: string }, stage: Stage, ip: string): Tried {
  if (message.reusedSocket && /^(?:ECONNRESET|EPIPE)$/.test(error.code ?? '')) return { kind: 'stale' };
  if (OWN_FAULT.test(error.code ?? ''))
    return { kind: 'failed', why: 'own', text: `no connection can be opened here: ${worded(error)}` };
  switch (stage) {
    case 'connecting':
      return { kind: 'failed', why: 'connect', text: `no connection to ${ip}: ${worded(error)}` };
    case 'handshaking':
      return { kind: 'failed', why: 'tls', text: `TLS with ${ip} failed: ${worded(error)}` };
    case 'open':
      return { kind: 'failed', why: 'broken', text: `the answer of ${ip} is broken: ${worded(error)}` };
  }
}

const LONGEST_TEXT = 200;
const worded = (error: Error & { code?: string }): string => (error.code ?? error.message).slice(0, LONGEST_TEXT);

function read(response: http.IncomingMessage, ip: string, end: (tried: Tried) => void): void {
  const parts: Buffer[] = [];
  let bytes = 0;
  const answered = (cut: boolean): void => {
    const body = Buffer.concat(parts).subarray(0, MOST_BYTES);
    end({ kind: 'answered', status: response.statusCode ?? 0, headers: response.headers, body, ip, cut });
  };
  response.on('data', (chunk: Buffer) => {
    parts.push(chunk);
    bytes += chunk.length;
    if (bytes >= MOST_BYTES) answered(true);
  });
  response.on('end', () => {
    answered(false);
  });
  response.on('error', (error) => {
    end({ kind: 'failed', why: 'broken', text: `the answer of ${ip} was cut off: ${worded(error)}` });
  });
}
