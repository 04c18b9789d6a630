/** Looks up DNS records with a deadline, a cache and a bound: Node's resolver gives neither TTL nor AD bit for MX. dns-servers.ts asks. */
import { Resolver as SystemResolver } from 'node:dns';
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Log } from '../base/log.ts';
import { createLru } from '../base/lru.ts';
import type { Clock } from '../base/clock.ts';
import { createGate, type Gate } from '../scheduling/gate.ts';
import { askServers, parseServerAddress, type Found, type Server } from './dns-servers.ts';
import { isAskable, type RecordOf, type RecordType, type Trouble } from './dns-message.ts';

export type { MxRecord, TlsaRecord } from './dns-message.ts';

export type DnsAnswer<T> =
  | {
      kind: 'found';
      records: readonly T[];
      /** The name of the records, after CNAMEs. */
      name: string;
      /** Seconds this answer is still good for. */
      ttl: number;
      /** The AD bit: the resolver says that it validated the answer. Only as safe as the network to that resolver. */
      secure: boolean;
    }
  /** `secure` as above: then the absence is certain. */
  | { kind: 'no_data'; secure?: true }
  /** `fresh`: asked just now, not taken from the cache. */
  | { kind: 'no_domain'; fresh: boolean }
  | Trouble;

export interface LookupOptions {
  /** The answer is not taken from the cache. */
  fresh?: boolean;
}

/** Look-ups by name (A-labels, any case). None of them rejects: DNS trouble is an answer. */
export type Resolver = ReturnType<typeof createResolver>;

export interface ResolverDeps {
  clock: Clock;
  /** Is told when no server answers any more, and when one does again; none for a command. */
  log?: Pick<Log, 'warn' | 'info'>;
}

export interface ResolverOptions {
  /** `ip`, `ip:port` or `[ipv6]:port`; none means the system's, which are read again while look-ups come. More than four are not used. */
  servers?: readonly string[];
  systemServers?: () => readonly string[];
  /** The limit of a whole look-up with all servers and aliases, counted from the moment it has a slot. */
  timeoutMs?: number;
  /** Answers kept; about half a kilobyte each. */
  maxEntries?: number;
  /** Look-ups that ask at the same time; the others wait. Names that were silent before have half as many places of their own. */
  maxInFlight?: number;
  /** Look-ups of one kind that wait, about half a kilobyte each; one more fails at once. */
  maxWaiting?: number;
  /** The servers validate DNSSEC, so SERVFAIL may mean that an answer is forged: it is the answer then, and no other server is asked. */
  validating?: boolean;
}

const MAX_SERVERS = 4;
/** The system's servers change while the program runs: with a lease, or when an operator corrects /etc/resolv.conf. */
const SYSTEM_READ_MS = 10_000;
const MAX_ALIAS_QUESTIONS = 8;
const LONGEST_SECONDS = 86_400;
/** Answers with a TTL of 0 would be asked again for each message of a burst. */
const SHORTEST_SECONDS = 5;
const LONGEST_NEGATIVE_SECONDS = 60;
/** RFC 9520 section 3.2: failures are remembered too, but briefly. */
const TROUBLE_SECONDS = 5;
/** For so long a name that timed out is looked up apart from the others: it keeps its place for the whole time limit. */
const SILENT_MS = 600_000;
const MOST_SILENT = 10_000;
/** Look-ups in a row without a reply of any server, and the time over which they must stretch, after which the log says so. */
const UNANSWERED_LOOK_UPS = 5;
const UNANSWERED_MS = 30_000;

export function createResolver(deps: ResolverDeps, options: ResolverOptions = {}) {
  const { clock } = deps;
  const { timeoutMs = 5000, maxEntries = 5_000, maxInFlight = 500, maxWaiting = 50_000, validating = false } = options;
  const currentServers = serverSource(deps, options);
  const cache = createLru<string, { answer: DnsAnswer<RecordOf[RecordType]>; until: number }>(maxEntries);
  /** Names whose look-ups timed out, and until when they count as silent. */
  const silent = createLru<string, number>(MOST_SILENT);
  const flights = new Map<string, Promise<DnsAnswer<RecordOf[RecordType]>>>();
  const prompt = createGate({ most: maxInFlight, waiting: maxWaiting });
  const slow = createGate({ most: Math.max(1, Math.floor(maxInFlight / 2)), waiting: maxWaiting });
  const asking = { clock, validating, closed: false, underWay: new Set<() => void>() };
  const watchSilence = silenceLog(deps);

  function lookUp<T extends RecordType>(
    type: T,
    rawName: string,
    options?: LookupOptions,
  ): Promise<DnsAnswer<RecordOf[T]>> {
    const name = rawName.toLowerCase().replace(/\.$/, '');
    const key = `${type} ${name}`;
    const now = clock.monotonic();
    const cached = options?.fresh === true ? undefined : cache.get(key);
    // The key contains the type, so the answer under it is of that type; the cache cannot say so.
    if (cached !== undefined && cached.until > now)
      return Promise.resolve(aged(cached.answer as DnsAnswer<RecordOf[T]>, Math.ceil((cached.until - now) / 1000)));
    const flying = flights.get(key) as Promise<DnsAnswer<RecordOf[T]>> | undefined;
    if (flying !== undefined) return flying;
    // A name that cannot be written into a question cannot exist.
    if (!isAskable(name)) return Promise.resolve({ kind: 'no_domain', fresh: true });
    if (asking.closed) return Promise.resolve(CLOSED);
    const flight = inTurn(type, name, (silent.get(name) ?? 0) > now ? slow : prompt)
      .then((found) => remembered(name, key, found))
      .finally(() => flights.delete(key));
    flights.set(key, flight);
    return flight;
  }

  function remembered<T extends RecordOf[RecordType]>(name: string, key: string, found: Final<T>): DnsAnswer<T> {
    const now = clock.monotonic();
    const answer = answerOf(found);
    if (found !== TOO_MANY && found !== CLOSED) cache.set(key, { answer, until: now + secondsOf(found) * 1000 });
    if (found.kind === 'trouble' && found.why === 'timeout') silent.set(name, now + SILENT_MS);
    else silent.delete(name);
    return answer;
  }

  /** Kinds of records take turns, so that a long line of one kind does not delay the others. */
  async function inTurn<T extends RecordType>(type: T, name: string, gate: Gate): Promise<Final<RecordOf[T]>> {
    const entered = gate.enter(type);
    const leave = entered instanceof Promise ? await entered : entered;
    if (leave === null) return TOO_MANY;
    try {
      return asking.closed ? CLOSED : await followed(type, name);
    } finally {
      leave();
    }
  }

  /** Most servers follow aliases themselves; if one does not, the target is asked for here. */
  async function followed<T extends RecordType>(type: T, name: string): Promise<Final<RecordOf[T]>> {
    const deadline = clock.monotonic() + timeoutMs;
    let at = name;
    let ttl = LONGEST_SECONDS;
    let secure = true;
    for (let hop = 0; hop <= MAX_ALIAS_QUESTIONS; hop++) {
      const servers = currentServers();
      const found = await askServers(asking, servers, { name: at, type }, deadline);
      if (asking.closed) return CLOSED;
      watchSilence(found, at, servers);
      if (found.kind === 'trouble' || found.kind === 'no_domain') return found;
      ttl = Math.min(ttl, found.ttl);
      secure &&= found.secure;
      if (found.kind !== 'alias') return { ...found, ttl, secure };
      at = found.name;
      if (!isAskable(at)) return { kind: 'no_domain', ttl: 0 };
    }
    return { kind: 'trouble', why: 'malformed', text: 'the aliases of the name go in a circle' };
  }

  return {
    mx: (name: string, options?: LookupOptions) => lookUp('MX', name, options),
    a: (name: string, options?: LookupOptions) => lookUp('A', name, options),
    aaaa: (name: string, options?: LookupOptions) => lookUp('AAAA', name, options),
    txt: (name: string, options?: LookupOptions) => lookUp('TXT', name, options),
    /** Looks up the names of an IPv4 or IPv6 address. Throws on text that is not an address. */
    ptr: (ip: string, options?: LookupOptions) => lookUp('PTR', reverseName(ip), options),
    /** Looks up the target of the name's own alias, not its records. */
    cname: (name: string, options?: LookupOptions) => lookUp('CNAME', name, options),
    tlsa: (name: string, options?: LookupOptions) => lookUp('TLSA', name, options),
    /** Counts the look-ups that ask now, and those that wait for their turn. */
    load() {
      const [all, silent] = [prompt.sizes(), slow.sizes()];
      return { inFlight: all.inside + silent.inside, waiting: all.waiting + silent.waiting };
    },
    /** Ends what is under way with trouble and leaves nothing open. */
    async close(): Promise<void> {
      asking.closed = true;
      for (const end of [...asking.underWay]) end();
      await Promise.all(flights.values());
    },
  };
}

/** Returns the name under which the names of an address are looked up (RFC 1035 section 3.5, RFC 3596 section 2.5). */
export function reverseName(ip: string): string {
  if (isIPv4(ip)) return `${ip.split('.').reverse().join('.')}.in-addr.arpa`;
  if (!isIPv6(ip)) throw new Error(`"${ip}" is not an IP address`);
  const digits = ipaddr.IPv6.parse(ip)
    .parts.map((group) => group.toString(16).padStart(4, '0'))
    .join('');
  return `${Array.from(digits).reverse().join('.')}.ip6.arpa`;
}

/** Returns what logs once that no server replies (no mail leaves then), and that one does. One name may be its zone's fault; it takes several. */
function silenceLog({
  clock,
  log,
}: ResolverDeps): (result: Found<unknown>, name: string, servers: readonly Server[]) => void {
  const names = new Set<string>();
  let count = 0;
  let since = 0;
  let isSilent = false;
  return (result, name, servers) => {
    const isAnswered = result.kind !== 'trouble' || (result.why !== 'timeout' && result.why !== 'network');
    const asked = { servers: servers.map(({ ip }) => ip) };
    if (isAnswered) {
      if (isSilent) log?.info({ event: 'dns_answers', ...asked }, 'a DNS server answers again');
      isSilent = false;
      count = 0;
      names.clear();
      return;
    }
    if (isSilent) return;
    if (count++ === 0) since = clock.monotonic();
    if (names.size < UNANSWERED_LOOK_UPS) names.add(name);
    if (count < UNANSWERED_LOOK_UPS || clock.monotonic() - since < UNANSWERED_MS) return;
    isSilent = true;
    const fields = { event: 'dns_silent', ...asked, names: [...names] };
    log?.warn(fields, 'the DNS servers did not answer the last look-ups: mail waits until they do');
  };
}

/** A new resolver reads /etc/resolv.conf, which `getServers` of the module does only once. */
const readSystemServers = (): readonly string[] => new SystemResolver().getServers();

/** Returns a function that returns the servers to ask now. Facts about a server are kept for as long as the list stays the same. */
function serverSource(
  { clock }: { clock: Clock },
  { servers: configured = [], systemServers = readSystemServers }: ResolverOptions,
): () => readonly Server[] {
  let texts = configured.length > 0 ? configured : systemServers();
  let servers = serversFrom(texts);
  if (configured.length > 0) return () => servers;
  let readAt = clock.monotonic();
  return () => {
    if (clock.monotonic() - readAt < SYSTEM_READ_MS) return servers;
    readAt = clock.monotonic();
    try {
      const now = systemServers();
      if (now.join() !== texts.join()) [servers, texts] = [serversFrom(now), now];
    } catch {
      // A look-up never rejects: what cannot be read now leaves the servers as they were.
    }
    return servers;
  };
}

const serversFrom = (texts: readonly string[]): Server[] =>
  texts.slice(0, MAX_SERVERS).map((text) => ({ ...parseServerAddress(text), missed: 0, deadUntil: 0 }));

type Final<T> = Exclude<Found<T>, { kind: 'alias' }>;

function answerOf<T>(found: Final<T>): DnsAnswer<T> {
  switch (found.kind) {
    case 'records':
      return { ...found, kind: 'found', ttl: secondsOf(found) };
    case 'no_data':
      return { kind: 'no_data', ...(found.secure ? { secure: true } : {}) };
    case 'no_domain':
      return { kind: 'no_domain', fresh: true };
    case 'trouble':
      return found;
  }
}

/** Returns the time for which an answer is kept. */
function secondsOf(found: Final<unknown>): number {
  if (found.kind === 'trouble') return TROUBLE_SECONDS;
  const longest = found.kind === 'records' ? LONGEST_SECONDS : LONGEST_NEGATIVE_SECONDS;
  return Math.max(SHORTEST_SECONDS, Math.min(found.ttl, longest));
}

function aged<T>(answer: DnsAnswer<T>, seconds: number): DnsAnswer<T> {
  if (answer.kind === 'found') return { ...answer, ttl: seconds };
  return answer.kind === 'no_domain' ? { kind: 'no_domain', fresh: false } : answer;
}

const TOO_MANY: Trouble = { kind: 'trouble', why: 'network', text: 'too many DNS look-ups wait' };
const CLOSED: Trouble = { kind: 'trouble', why: 'network', text: 'the resolver is closed' };
