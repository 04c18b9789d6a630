/** A DNS server on loopback, UDP and TCP on one port, answering from plain data like a resolver that knows everything. */
import { createSocket } from 'node:dgram';
import type { RemoteInfo, Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { AUTHENTIC_DATA, RECURSION_AVAILABLE, RECURSION_DESIRED, TRUNCATED_RESPONSE, decode, encode } from 'dns-packet';
import type { Answer, DecodedPacket } from 'dns-packet';
import { lookInZones, mxFrom, tlsaFrom } from './zones.ts';
import type { Zones } from './zones.ts';

export interface DnsServerOptions {
  /** TTL of every record. */
  ttl?: number;
  /** TTL and minimum of the SOA in negative answers; null leaves the SOA out. */
  negativeTtl?: number | null;
  /** Over UDP, answers nothing but the TC bit. */
  truncate?: boolean;
  /** Gives a CNAME without what it points to. */
  lazyAliases?: boolean;
  /** Sets the AD bit. */
  secure?: boolean;
  /** Before each true answer, sends false ones: wrong id, wrong question, and right ones from another port. */
  spoof?: boolean;
  /** Repeats questions in lower case, as few servers do. */
  foldsCase?: boolean;
  /** Answers after so many ms. */
  delayMs?: number;
  /** Leaves the first so many UDP queries unanswered. */
  loseFirst?: number;
}

export interface FakeDnsServer {
  /** `127.0.0.1:port`, for `createResolver`. */
  address: string;
  zones: Zones;
  options: DnsServerOptions;
  /** Every query, as `udp name TYPE` or `tcp …`. */
  queries: string[];
  /** The name in each query, in the case in which it was asked. */
  written: string[];
  /** Resolves when `queries` has this many. */
  queried(count: number): Promise<void>;
  close(): Promise<void>;
}

export async function startDnsServer(zones: Zones, options: DnsServerOptions = {}): Promise<FakeDnsServer> {
  const tcp = createServer();
  const udp = await boundTogether(tcp);
  const stranger = createSocket('udp4');
  const sockets = new Set<Socket>();
  const waiters: { count: number; resolve: () => void }[] = [];
  let lost = 0;
  const server: FakeDnsServer = {
    address: `127.0.0.1:${String(udp.address().port)}`,
    zones,
    options,
    queries: [],
    written: [],
    queried: (count) =>
      new Promise((resolve) => {
        if (server.queries.length >= count) resolve();
        else waiters.push({ count, resolve });
      }),
    async close() {
      for (const socket of sockets) socket.destroy();
      for (const timer of timers) clearTimeout(timer);
      udp.close();
      stranger.close();
      await Promise.all([once(udp, 'close'), once(stranger, 'close'), new Promise((resolve) => tcp.close(resolve))]);
    },
  };

  const timers = new Set<NodeJS.Timeout>();
  function later(ms: number, work: () => void): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work();
    }, ms);
    timers.add(timer);
  }

  function note(transport: string, query: DecodedPacket): void {
    const question = query.questions?.[0];
    server.written.push(question?.name ?? '');
    server.queries.push(`${transport} ${question?.name.toLowerCase() ?? ''} ${question?.type ?? ''}`);
    for (const { count, resolve } of waiters) if (server.queries.length >= count) resolve();
  }

  udp.on('message', (bytes, from) => {
    const query = decode(bytes);
    note('udp', query);
    const [question] = query.questions ?? [];
    if (server.options.foldsCase === true && question !== undefined) question.name = question.name.toLowerCase();
    if (lost++ < (server.options.loseFirst ?? 0)) return;
    if (server.options.spoof === true) sendFalseAnswers(udp, stranger, query, from);
    const answer = server.options.truncate === true ? truncated(query) : answerTo(query, server);
    if (answer === null) return;
    const { delayMs } = server.options;
    if (delayMs === undefined) udp.send(answer, from.port, from.address);
    else
      later(delayMs, () => {
        udp.send(answer, from.port, from.address);
      });
  });
  tcp.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const query = decode(received.subarray(2));
      note('tcp', query);
      const answer = answerTo(query, server);
      if (answer === null) return;
      const length = Buffer.alloc(2);
      length.writeUInt16BE(answer.length);
      // In two pieces: a client has to put them together.
      socket.write(Buffer.concat([length, answer.subarray(0, 5)]));
      setImmediate(() => socket.write(answer.subarray(5)));
    });
  });
  return server;
}

/** The same free port for TCP and UDP. */
async function boundTogether(tcp: ReturnType<typeof createServer>): Promise<UdpSocket> {
  for (;;) {
    tcp.listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    // A TCP server listening on an IP address has an AddressInfo.
    const { port } = tcp.address() as AddressInfo;
    const udp = createSocket('udp4');
    udp.bind(port, '127.0.0.1');
    try {
      await once(udp, 'listening');
      return udp;
    } catch {
      udp.close();
      await new Promise((resolve) => tcp.close(resolve));
    }
  }
}

function truncated(query: DecodedPacket): Buffer {
  return encode({ ...heading(query), flags: TRUNCATED_RESPONSE });
}

function heading(query: DecodedPacket): {
  type: 'response';
  id: number;
  questions: NonNullable<DecodedPacket['questions']>;
} {
  return { type: 'response', id: query.id ?? 0, questions: query.questions ?? [] };
}

function sendFalseAnswers(udp: UdpSocket, stranger: UdpSocket, query: DecodedPacket, from: RemoteInfo): void {
  const lie: Answer = { type: 'A', name: query.questions?.[0]?.name ?? '', ttl: 300, data: '6.6.6.6' };
  const id = query.id ?? 0;
  const other: DecodedPacket['questions'] = [{ type: 'A', name: 'other.test' }];
  udp.send(encode({ ...heading(query), id: (id + 1) & 0xffff, answers: [lie] }), from.port, from.address);
  udp.send(encode({ ...heading(query), questions: other, answers: [lie] }), from.port, from.address);
  udp.send(encode({ ...heading(query), type: 'query', answers: [lie] }), from.port, from.address);
  udp.send(Buffer.from('nonsense'), from.port, from.address);
  stranger.send(encode({ ...heading(query), answers: [lie] }), from.port, from.address);
}

function answerTo(query: DecodedPacket, server: FakeDnsServer): Buffer | null {
  const { ttl = 300, negativeTtl = 30, secure, lazyAliases } = server.options;
  const question = query.questions?.[0];
  const flags = RECURSION_DESIRED | RECURSION_AVAILABLE | (secure === true ? AUTHENTIC_DATA : 0);
  const asked = question?.name ?? '';
  const found = lookInZones(server.zones, asked, question?.type ?? '');
  if (found.kind === 'fault') {
    if (found.fault === 'TIMEOUT') return null;
    if (found.fault === 'MALFORMED') return malformed(query);
    return encode({ ...heading(query), flags: flags | (found.fault === 'SERVFAIL' ? 2 : 5) });
  }
  const aliases = found.aliases.map(({ from, to }): Answer => ({ type: 'CNAME', name: from, ttl, data: to }));
  if (lazyAliases === true && aliases[0] !== undefined)
    return encode({ ...heading(query), flags, answers: [aliases[0]] });
  if (found.kind === 'records') {
    const answers = found.records.map((text) => recordFrom(question?.type ?? '', found.name, ttl, text));
    return encode({ ...heading(query), flags, answers: [...aliases, ...answers] });
  }
  const soa: Answer = {
    type: 'SOA',
    name: 'test',
    ttl: negativeTtl ?? 0,
    data: { mname: 'ns.test', rname: 'hostmaster.test', minimum: negativeTtl ?? 0 },
  };
  const authorities = negativeTtl === null ? [] : [soa];
  return encode({
    ...heading(query),
    flags: flags | (found.kind === 'no_domain' ? 3 : 0),
    answers: aliases,
    authorities,
  });
}

/** A whole header and question, but an answer section that ends too early. */
function malformed(query: DecodedPacket): Buffer {
  const bytes = encode({ ...heading(query), flags: RECURSION_DESIRED });
  bytes.writeUInt16BE(3, 6);
  return bytes;
}

function recordFrom(type: string, name: string, ttl: number, text: string): Answer {
  switch (type) {
    case 'A':
    case 'AAAA':
    case 'CNAME':
    case 'PTR':
      return { type, name, ttl, data: text };
    case 'MX':
      return { type, name, ttl, data: mxFrom(text) };
    case 'TLSA':
      return { type, name, ttl, data: tlsaFrom(text) };
    case 'TXT':
      // As long texts have to be: strings of at most 255 bytes.
      return { type, name, ttl, data: text.match(/.{1,200}/gs) ?? [''] };
    default:
      throw new Error(`the fake DNS server knows no ${type} records`);
  }
}
