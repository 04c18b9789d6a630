/** DNS for the zoo: zones as data, with latency, passing faults, and forged answers. UDP only, since its answers are small. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { RECURSION_AVAILABLE, RECURSION_DESIRED, decode, encode } from 'dns-packet';
import type { Answer, DecodedPacket } from 'dns-packet';

export interface Fault {
  /** The questions asked, as `name TYPE`. */
  of: RegExp;
  /** `silent` answers nothing; `lies` sends forged answers before the true one. */
  does: 'SERVFAIL' | 'REFUSED' | 'NXDOMAIN' | 'silent' | 'lies';
}

export interface Names {
  latencyMs: number;
  faults: Fault[];
  /** Adds a domain with its mail hosts: `mx1.a.test` at an address, best first; null gives the name no address. */
  domain(name: string, hosts: Readonly<Record<string, string | null>>): void;
}

export interface NamesServer extends Names {
  /** `127.0.0.1:port`. */
  readonly address: string;
  close(): Promise<void>;
}

const codes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;
const FORGED = '127.66.66.66';

export async function startNames(): Promise<NamesServer> {
  const zones = new Map<string, Answer[]>();
  const socket = createSocket('udp4');
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const names: NamesServer = {
    address: `127.0.0.1:${String(socket.address().port)}`,
    latencyMs: 0,
    faults: [],
    domain(name, hosts) {
      const mx = Object.keys(hosts).map((exchange, at): Answer => ({
        type: 'MX',
        name,
        ttl: 300,
        data: { preference: 10 * (at + 1), exchange },
      }));
      zones.set(`${name} MX`, mx);
      for (const [host, address] of Object.entries(hosts))
        zones.set(`${host} A`, address === null ? [] : [{ type: 'A', name: host, ttl: 300, data: address }]);
    },
    async close() {
      socket.close();
      await once(socket, 'close');
    },
  };
  socket.on('message', (bytes, from) => {
    const query = decode(bytes);
    const question = query.questions?.[0];
    const key = `${question?.name.toLowerCase() ?? ''} ${question?.type ?? ''}`;
    const fault = names.faults.find(({ of }) => of.test(key))?.does;
    if (fault === 'silent') return;
    const send = (packet: Buffer): void => {
      if (names.latencyMs === 0) socket.send(packet, from.port, from.address);
      else setTimeout(() => closedOr(() => socket.send(packet, from.port, from.address)), names.latencyMs);
    };
    if (fault === 'lies') for (const lie of liesTo(query)) send(lie);
    const answers = zones.get(key);
    const code = fault === undefined || fault === 'lies' ? 'NOERROR' : fault;
    const isKnown =
      answers !== undefined || zones.has(key.replace(/ \w+$/, ' A')) || zones.has(key.replace(/ \w+$/, ' MX'));
    send(
      reply(
        query,
        isKnown || code !== 'NOERROR' ? codes[code] : codes.NXDOMAIN,
        code === 'NOERROR' ? (answers ?? []) : [],
      ),
    );
  });
  return names;
}

/** A late answer when the scenario is over goes nowhere. */
function closedOr(send: () => void): void {
  try {
    send();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SOCKET_DGRAM_NOT_RUNNING') throw error;
  }
}

const FLAGS = RECURSION_DESIRED | RECURSION_AVAILABLE;

const reply = (query: DecodedPacket, code: number, answers: Answer[]): Buffer =>
  encode({
    type: 'response',
    id: query.id ?? 0,
    flags: FLAGS | code,
    questions: query.questions ?? [],
    answers,
    authorities: answers.length > 0 ? [] : [soa],
  });

const soa: Answer = {
  type: 'SOA',
  name: 'test',
  ttl: 30,
  data: { mname: 'ns.test', rname: 'hostmaster.test', minimum: 30 },
};

/** Answers with another id, and answers to another question. */
function liesTo(query: DecodedPacket): Buffer[] {
  const name = query.questions?.[0]?.name ?? '';
  const lie: Answer = { type: 'A', name, ttl: 300, data: FORGED };
  return [
    reply({ ...query, id: ((query.id ?? 0) + 1) & 0xffff }, 0, [lie]),
    reply({ ...query, questions: [{ type: 'A', name: 'other.test' }] }, 0, [lie]),
  ];
}
