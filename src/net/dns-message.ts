/** DNS messages (RFC 1035, EDNS 6891) by the `dns-packet` codec: writes a query, and reads from a reply the answer to exactly that query. Pure. */
import { randomBytes } from 'node:crypto';
import { AUTHENTIC_DATA, RECURSION_DESIRED, TRUNCATED_RESPONSE, decode, encode } from 'dns-packet';
import type { Answer, DecodedPacket } from 'dns-packet';

export interface MxRecord {
  preference: number;
  /** Lower case, no final dot; `.` alone is the null MX (RFC 7505). */
  exchange: string;
}

/** RFC 6698 section 2.1. */
export interface TlsaRecord {
  usage: number;
  selector: number;
  matchingType: number;
  certificate: Buffer;
}

/** The value of a record of each type. A TXT record is its strings joined (RFC 7208 section 3.3). */
export interface RecordOf {
  MX: MxRecord;
  A: string;
  AAAA: string;
  TXT: string;
  PTR: string;
  /** The alias itself: where it leads, whatever is there. */
  CNAME: string;
  TLSA: TlsaRecord;
}

export type RecordType = keyof RecordOf;

/** Far more than a mail domain publishes; keeps the decoding of a hostile 64 KiB answer off the main loop. */
export const MAX_MESSAGE_BYTES = 32_768;
const MAX_RECORDS = 512;
const MAX_ALIASES = 8;

/** Large enough for nearly every answer, small enough never to be fragmented (DNS flag day 2020). */
const EDNS_PAYLOAD_BYTES = 1232;

const RESPONSE = 0x8000;
const RCODE = { noError: 0, formatError: 1, serverFailure: 2, nameError: 3, notImplemented: 4, refused: 5 };

export interface Trouble {
  kind: 'trouble';
  why: 'timeout' | 'servfail' | 'refused' | 'malformed' | 'network';
  text: string;
}

export type Reply<T> =
  /** Not a reply to this question: a late, spoofed or broken packet. Wait on. */
  | { kind: 'foreign' }
  /** Ask again over TCP (RFC 7766): the reply is cut, or its question is not in our case, as if forged by a sender that has not seen ours. */
  | { kind: 'truncated' }
  | Trouble
  | { kind: 'records'; records: T[]; name: string; ttl: number; secure: boolean }
  /** An alias without records of its target in the reply: ask for `name`. */
  | { kind: 'alias'; name: string; ttl: number; secure: boolean }
  | { kind: 'no_data'; ttl: number; secure: boolean }
  | { kind: 'no_domain'; ttl: number };

export interface Query<T extends RecordType = RecordType> {
  id: number;
  /** Lower case. */
  name: string;
  /** The name as it is written into the question, if its case is random: the reply has to repeat it exactly. */
  written?: string;
  type: T;
}

/** Returns the bytes of a query. AD asks for the AD bit in the answer without fetching signatures (RFC 6840 section 5.7). */
export function writeQuery(query: Query): Buffer {
  return encode({
    type: 'query',
    id: query.id,
    flags: RECURSION_DESIRED | AUTHENTIC_DATA,
    questions: [{ name: query.written ?? query.name, type: query.type }],
    additionals: [ednsOption],
  });
}

const ednsOption = {
  type: 'OPT' as const,
  name: '.',
  udpPayloadSize: EDNS_PAYLOAD_BYTES,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
};

/** Returns the name with a random case for each letter (DNS 0x20), which servers repeat: a forger has to guess one bit more a letter. */
export function withRandomCase(name: string): string {
  const lots = randomBytes(Math.ceil(name.length / 8));
  return Array.from(name, (letter, at) => {
    const isUpper = (((lots[at >> 3] ?? 0) >> (at & 7)) & 1) === 1;
    return isUpper ? letter.toUpperCase() : letter;
  }).join('');
}

/** Returns whether a name fits into a question: ASCII, labels of 1 to 63, at most 253 in all. */
export function isAskable(name: string): boolean {
  return name.length <= 253 && name.split('.').every((label) => /^[!-~]{1,63}$/.test(label));
}

/** Reads the answer in `bytes` to the query with this id, name and type. Never throws. */
export function readReply<T extends RecordType>(bytes: Buffer, query: Query<T>): Reply<RecordOf[T]> {
  if (bytes.length < 12 || bytes.readUInt16BE(0) !== query.id) return { kind: 'foreign' };
  const packet = decodeBounded(bytes);
  // Some servers cut an answer anywhere, also within a record (RFC 2181 section 9): nothing of it is used.
  if (packet === null && isCut(bytes)) return { kind: 'truncated' };
  if (packet === null) return { kind: 'trouble', why: 'malformed', text: 'the reply cannot be read' };
  if (!answers(packet, query)) return { kind: 'foreign' };
  const repeated = packet.questions?.[0]?.name;
  if (query.written !== undefined && repeated !== undefined && repeated !== query.written) return { kind: 'truncated' };
  const flags = packet.flags ?? 0;
  const rcode = flags & 15;
  if ((flags & TRUNCATED_RESPONSE) !== 0) return { kind: 'truncated' };
  if (rcode === RCODE.refused) return { kind: 'trouble', why: 'refused', text: 'the server refuses to answer' };
  if (rcode !== RCODE.noError && rcode !== RCODE.nameError)
    return {
      kind: 'trouble',
      why: 'servfail',
      text: `the server failed (${rcode === RCODE.serverFailure ? 'SERVFAIL' : `rcode ${String(rcode)}`})`,
    };
  return readAnswers(packet, query.name, query.type, rcode === RCODE.nameError);
}

function isCut(bytes: Buffer): boolean {
  const wanted = RESPONSE | TRUNCATED_RESPONSE;
  return (bytes.readUInt16BE(2) & wanted) === wanted;
}

function decodeBounded(bytes: Buffer): DecodedPacket | null {
  if (bytes.length > MAX_MESSAGE_BYTES) return null;
  let records = 0;
  for (let at = 4; at < 12; at += 2) records += bytes.readUInt16BE(at);
  if (records > MAX_RECORDS) return null;
  try {
    return decode(bytes);
  } catch {
    return null;
  }
}

/** Returns whether the packet answers the query. A server that could not read the question may leave it out (RFC 6891 section 7). */
function answers(packet: DecodedPacket, query: Query): boolean {
  if (packet.type !== 'response') return false;
  const rcode = (packet.flags ?? 0) & 15;
  const question = packet.questions?.[0];
  if (question === undefined) return rcode === RCODE.formatError || rcode === RCODE.notImplemented;
  return packet.questions?.length === 1 && question.type === query.type && fold(question.name) === query.name;
}

function readAnswers<T extends RecordType>(
  packet: DecodedPacket,
  asked: string,
  type: T,
  nameError: boolean,
): Reply<RecordOf[T]> {
  const answers = packet.answers ?? [];
  const alias = type === 'CNAME' ? { name: asked, ttl: Number.MAX_SAFE_INTEGER } : followAliases(asked, answers);
  if (alias === null) return { kind: 'trouble', why: 'malformed', text: 'the aliases of the name go in a circle' };
  let ttl = alias.ttl;
  const records: RecordOf[T][] = [];
  for (const answer of answers) {
    if (fold(answer.name) !== alias.name) continue;
    const record = readers[type](answer);
    if (record === null) continue;
    records.push(record);
    ttl = Math.min(ttl, ttlOf(answer));
  }
  const secure = packet.flag_ad;
  if (records.length > 0) return { kind: 'records', records, name: alias.name, ttl, secure };
  const negative = negativeTtl(packet.authorities ?? []);
  if (nameError) return { kind: 'no_domain', ttl: negative ?? 0 };
  if (alias.name !== asked && negative === null) return { kind: 'alias', name: alias.name, ttl, secure };
  if (negative === null && isReferral(packet))
    return { kind: 'trouble', why: 'refused', text: 'the server names other servers instead of an answer' };
  return { kind: 'no_data', ttl: negative ?? 0, secure };
}

/** Returns whether an answer without records only names other servers (RFC 2308 section 2.2), which does not say that there are none. */
const isReferral = ({ authorities = [], flag_aa: isFinal }: DecodedPacket): boolean =>
  !isFinal && authorities.some(({ type }) => type === 'NS');

const readers: { [T in RecordType]: (answer: Answer) => RecordOf[T] | null } = {
  MX: (answer) =>
    answer.type === 'MX' ? { preference: answer.data.preference ?? 0, exchange: fold(answer.data.exchange) } : null,
  A: (answer) => (answer.type === 'A' ? answer.data : null),
  AAAA: (answer) => (answer.type === 'AAAA' ? answer.data : null),
  CNAME: (answer) => (answer.type === 'CNAME' ? fold(answer.data) : null),
  PTR: (answer) => (answer.type === 'PTR' ? fold(answer.data) : null),
  TLSA: (answer) => (answer.type === 'TLSA' ? answer.data : null),
  TXT: (answer) =>
    answer.type === 'TXT'
      ? (Array.isArray(answer.data) ? answer.data : [answer.data]).map((part) => part.toString()).join('')
      : null,
};

/** Returns the end of the chain of CNAMEs that starts at `name`, or null if it has none. */
function followAliases(name: string, answers: readonly Answer[]): { name: string; ttl: number } | null {
  const targets = new Map<string, Answer>();
  for (const answer of answers) if (answer.type === 'CNAME') targets.set(fold(answer.name), answer);
  let ttl = Number.MAX_SAFE_INTEGER;
  for (let hops = 0; hops <= MAX_ALIASES; hops++) {
    const alias = targets.get(name);
    if (alias?.type !== 'CNAME') return { name, ttl };
    name = fold(alias.data);
    ttl = Math.min(ttl, ttlOf(alias));
  }
  return null;
}

/** Returns the TTL of a negative answer (RFC 2308 section 5): the smaller of the SOA's own TTL and its minimum; null without a SOA. */
function negativeTtl(authorities: readonly Answer[]): number | null {
  for (const answer of authorities) if (answer.type === 'SOA') return Math.min(ttlOf(answer), answer.data.minimum ?? 0);
  return null;
}

/** Returns the TTL of a record. RFC 2181 section 8: a TTL with the top bit set counts as zero. */
function ttlOf(answer: Answer): number {
  if (!('ttl' in answer) || answer.ttl === undefined) return 0;
  return answer.ttl > 0x7fffffff ? 0 : answer.ttl;
}

/** Returns a name in the form that is compared: without case (RFC 4343) and final dot; the root stays a dot. */
function fold(name: string): string {
  const lower = name.toLowerCase();
  return lower.length > 1 && lower.endsWith('.') ? lower.slice(0, -1) : lower;
}
