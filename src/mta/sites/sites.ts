/** Finds the destination of a domain's mail: by the operator's routes, the simulator, or DNS, whose answers are kept for their TTL and shared. */
import type { Clock } from '../../base/clock.ts';
import { createLru } from '../../base/lru.ts';
import { HOUR_MS } from '../../base/time.ts';
import type { StsFault, StsPolicy } from '../../mail/sts-policy.ts';
import { SIMULATOR_DOMAIN } from '../../messages/delivery/delivery.ts';
import type { HostDane, TlsFacts } from '../connection/tls-policy.ts';
import type { HostAddress, MailRoute } from '../dns/mx.ts';

export interface Host {
  name: string;
  port: number;
  addresses: readonly HostAddress[];
  /** The preference of its MX record, lowest first; absent for a smarthost. */
  preference?: number;
  dane?: HostDane | null;
  /** DNSSEC vouches that this is a mail host of the domain, and for its addresses. */
  isValidated?: boolean;
}

export interface Site {
  kind: 'site';
  /** The lane's name: the MX set, or `host:port` of a smarthost. */
  name: string;
  hosts: readonly Host[];
  domain?: string;
  sts?: StsPolicy | null;
  /** Why a policy that the domain announces could not be had, or null. */
  stsFault?: StsFault | null;
  /** The operator's setting for TLS to the hosts of this domain, or null. */
  tls?: TlsOverride | null;
  /** The operator of the hosts, if the table of operators has it. */
  operator?: MailOperator | null;
  /** The smarthost that takes the mail, or null if it goes to the recipient's own hosts. */
  relay: {
    tls: 'opportunistic' | 'required' | 'none' | 'implicit';
    auth: { user: string; password: string } | null;
  } | null;
}

export type TlsOverride = Exclude<NonNullable<TlsFacts['override']>, 'implicit'>;

export type Destination =
  | Site
  | { kind: 'simulator' }
  | { kind: 'discard' }
  /** `route` is the key in `delivery.routes`: the domain, or `*`. */
  | { kind: 'hold'; route: string }
  /** The domain has no mail host; the outcome of the mail says why. */
  | { kind: 'nowhere'; route: Exclude<MailRoute, { kind: 'hosts' | 'trouble' }> }
  /** The look-up failed; DNS is asked again at `until`. Mail for the domain waits without attempts. */
  | Unresolved;

export interface Unresolved {
  kind: 'unresolved';
  route: Extract<MailRoute, { kind: 'trouble' }>;
  since: number;
  until: number;
  /** Failed look-ups in a row. */
  failures: number;
}

export type Route =
  | { readonly kind: 'mx' | 'discard' | 'hold' }
  | {
      readonly kind: 'smarthost';
      readonly host: string;
      readonly port: number;
      readonly tls: 'opportunistic' | 'required' | 'none' | 'implicit';
      readonly auth: { readonly user: string; readonly password: string } | null;
    };

export interface SitesDeps {
  clock: Clock;
  routes: Readonly<Record<string, Route>>;
  operators?: readonly MailOperator[];
  /** `delivery.tls`: by recipient domain. */
  tls?: Readonly<Record<string, TlsOverride>>;
  /** Finds the MTA-STS policy of a domain (mta/dns/sts.ts). */
  findPolicy?: (domain: string) => Promise<{ policy: StsPolicy | null; fault: StsFault | null }>;
  /** Finds the mail hosts by MX records (mta/dns/mx.ts). */
  findHosts(domain: string, options: { fresh: boolean }): Promise<MailRoute>;
  findRelay(host: string, port: number): Promise<MailRoute>;
}

const MOST_DOMAINS = 50_000;
const LEAST_TTL_MS = 5_000;
const MOST_TTL_MS = HOUR_MS;
/** How long an answer without a host is kept, in ms: about as long as the mail of one notification needs. */
const NOWHERE_MS = 1_000;
/** How long hosts are kept without the MTA-STS policy that their domain announces: it may be had soon, and protects only once it is known. */
const STS_FAULT_MS = 300_000;
/** Pauses after the first, second ... failed look-up of a domain, in ms. */
const UNRESOLVED_MS = [2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 300_000] as const;
const LONGEST_UNRESOLVED_MS = 300_000;

export class Sites {
  private readonly deps: SitesDeps;
  private routes: SitesDeps['routes'];
  /** Counts the changes of routes: the result of a look-up that began before a change is not kept. */
  private round = 0;
  private readonly answers = createLru<string, { destination: Destination; until: number }>(MOST_DOMAINS);
  private readonly asking = new Map<string, Promise<Destination>>();

  constructor(deps: SitesDeps) {
    this.deps = deps;
    this.routes = deps.routes;
  }

  known(domain: string): Destination | null {
    if (domain === SIMULATOR_DOMAIN) return { kind: 'simulator' };
    const route = this.routeOf(domain);
    if (route?.kind === 'discard') return { kind: 'discard' };
    if (route?.kind === 'hold') return { kind: 'hold', route: Object.hasOwn(this.routes, domain) ? domain : '*' };
    const answer = this.answers.get(keyOf(domain, route));
    return answer !== undefined && answer.until > this.deps.clock.now() ? answer.destination : null;
  }

  find(domain: string): Promise<Destination> {
    const ready = this.known(domain);
    if (ready !== null) return Promise.resolve(ready);
    const route = this.routeOf(domain);
    const key = keyOf(domain, route);
    let question = this.asking.get(key);
    if (question === undefined) {
      question = this.ask(domain, route, key).finally(() => this.asking.delete(key));
      this.asking.set(key, question);
    }
    return question;
  }

  /** Returns the last destination, however old, or null. For reports, not for sending. */
  lastKnown(domain: string): Destination | null {
    return this.known(domain) ?? this.answers.get(keyOf(domain, this.routeOf(domain)))?.destination ?? null;
  }

  isAsking(domain: string): boolean {
    return this.asking.has(keyOf(domain, this.routeOf(domain)));
  }

  /** Asks DNS again, on an operator's request, for a domain whose look-up has failed; null: for all of them. */
  retry(domain: string | null): void {
    const key = domain === null ? null : keyOf(domain, this.routeOf(domain));
    for (const [one, answer] of this.answers)
      if (answer.destination.kind === 'unresolved' && (key === null || one === key)) answer.until = 0;
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    for (const answer of this.answers.values()) answer.until += ms;
  }

  /** Forgets a domain whose policies have changed: it is looked up again for its next mail. */
  forget(domain: string): void {
    this.answers.delete(domain);
  }

  /** Replaces the routes; they apply to mail in a lane at its next attempt. */
  reroute(changed: Readonly<Record<string, Route>>): void {
    this.routes = changed;
    this.round++;
    // A smarthost's answer holds its credentials.
    this.answers.clear();
    this.asking.clear();
  }

  private routeOf(domain: string): Route | undefined {
    return Object.hasOwn(this.routes, domain) ? this.routes[domain] : this.routes['*'];
  }

  private overrideOf(domain: string): TlsOverride | null {
    return this.deps.tls !== undefined && Object.hasOwn(this.deps.tls, domain) ? (this.deps.tls[domain] ?? null) : null;
  }

  private async ask(domain: string, route: Route | undefined, key: string): Promise<Destination> {
    const asked = this.round;
    if (route?.kind === 'smarthost') {
      const { host, port, tls, auth } = route;
      const found = await this.deps.findRelay(host, port);
      return this.keep(key, asked, found, { name: `${host}:${String(port)}`, relay: { tls, auth } });
    }
    const found = await this.deps.findHosts(domain, { fresh: false });
    // "No such domain" counts towards a bounce only if the look-up did not use a cache.
    const sure =
      found.kind === 'no_domain' && !found.fresh ? await this.deps.findHosts(domain, { fresh: true }) : found;
    const announced = sure.kind === 'hosts' ? await this.deps.findPolicy?.(domain) : undefined;
    return this.keep(key, asked, sure, {
      relay: null,
      domain,
      sts: announced?.policy ?? null,
      stsFault: announced?.fault ?? null,
      tls: this.overrideOf(domain),
    });
  }

  private keep(key: string, asked: number, route: MailRoute, known: KnownOfSite): Destination {
    const now = this.deps.clock.now();
    const destination = this.destinationFrom(key, route, known, now);
    const most = known.stsFault == null ? Infinity : STS_FAULT_MS;
    const until = destination.kind === 'unresolved' ? destination.until : now + Math.min(ttlOf(route), most);
    if (asked === this.round) this.answers.set(key, { destination, until });
    return destination;
  }

  private destinationFrom(key: string, route: MailRoute, known: KnownOfSite, now: number): Destination {
    if (route.kind === 'hosts') {
      const operator = operatorOf(route.mxNames ?? [], this.deps.operators ?? []);
      return { kind: 'site', name: operator?.name ?? laneName(route.site), hosts: route.hosts, operator, ...known };
    }
    if (route.kind !== 'trouble') return { kind: 'nowhere', route };
    const before = this.answers.get(key)?.destination;
    const failures = before?.kind === 'unresolved' ? before.failures + 1 : 1;
    const since = before?.kind === 'unresolved' ? before.since : now;
    const pause = UNRESOLVED_MS[failures - 1] ?? LONGEST_UNRESOLVED_MS;
    return { kind: 'unresolved', route, since, failures, until: now + pause };
  }
}

/** The facts of a site beside its hosts; it has a name of its own if it is a smarthost. */
type KnownOfSite = Pick<Site, 'relay' | 'domain' | 'sts' | 'stsFault' | 'tls'> & { name?: string };

/** Names the lane of a site. The name of a host without a dot must differ from an operator's name. */
const laneName = (site: string): string => (/[.:]/.test(site) ? site : `${site}.`);

const ttlOf = (route: MailRoute): number =>
  route.kind === 'hosts' ? Math.min(Math.max(route.ttl * 1000, LEAST_TTL_MS), MOST_TTL_MS) : NOWHERE_MS;

/** The keys of smarthosts, which are asked for several times for each mail. */
const smarthostKeys = new WeakMap<Route, string>();

/** Returns the key of an answer. Routes to one smarthost with other TLS or another login are other destinations in the same lane. */
function keyOf(domain: string, route: Route | undefined): string {
  if (route?.kind !== 'smarthost') return domain;
  const known = smarthostKeys.get(route);
  if (known !== undefined) return known;
  const key = `~${JSON.stringify([route.host, route.port, route.tls, route.auth])}`;
  smarthostKeys.set(route, key);
  return key;
}

/**
 * The large operators of mail hosts, by their MX hosts: a lane has the operator's name, and an operator may have its own limits.
 * The table is data (config/operators.yaml). A domain belongs to an operator only if all of its MX hosts do: otherwise a domain
 * could list one host of Google's and a tar-pit, and hold up all mail to Google. Pure.
 */

export interface MailOperator {
  readonly name: string;
  /** Host names, and all names below them. */
  readonly mx: readonly string[];
  /** Connections at most, in place of `delivery.lane.maxConcurrency`. */
  readonly maxConnections?: number | undefined;
  /** Mails over one connection at most. */
  readonly messagesPerConnection?: number | undefined;
}

/** Returns the operator of all of these hosts, or null. */
export function operatorOf(hosts: readonly string[], table: readonly MailOperator[]): MailOperator | null {
  if (hosts.length === 0) return null;
  const isOf = (host: string, { mx }: MailOperator): boolean =>
    mx.some((name) => host === name || host.endsWith(`.${name}`));
  const lower = hosts.map((host) => host.toLowerCase());
  return table.find((operator) => lower.every((host) => isOf(host, operator))) ?? null;
}
