/**
 * Where mail for a domain goes: by the operator's routes, to the simulator, or to the hosts that DNS names. DNS answers are
 * kept as long as they say; a domain is asked for once however much mail waits for it.
 */
import type { Clock } from '../../base/clock.ts';
import { SIMULATOR_DOMAIN } from '../../messages/delivery/delivery.ts';
import type { StsFault, StsPolicy } from '../../mail/sts-policy.ts';
import type { HostDane, TlsFacts } from '../connection/tls-policy.ts';
import type { HostAddress } from '../dns/mx.ts';
import type { MailRoute } from '../dns/mx.ts';
import { operatorOf, type MailOperator } from './operators.ts';

/** One host to dial. */
export interface Host {
  name: string;
  port: number;
  addresses: readonly HostAddress[];
  /** Of its MX record, lowest first; absent for a smarthost. */
  preference?: number;
  /** What DANE says of it; null or absent where nothing. */
  dane?: HostDane | null;
  /** DNSSEC vouches that this is a mail host of the domain, and for its addresses. */
  isValidated?: boolean;
}

/** Hosts under one set of limits. */
export interface Site {
  kind: 'site';
  /** The lane's name: the MX set, or `host:port` of a smarthost. */
  name: string;
  hosts: readonly Host[];
  /** The recipient domain; absent for a smarthost. */
  domain?: string;
  /** The recipient domain's MTA-STS policy. */
  sts?: StsPolicy | null;
  /** Why a policy that the domain announces could not be had, or null. */
  stsFault?: StsFault | null;
  /** What the operator says about TLS to the hosts of this domain, or null. */
  tls?: TlsOverride | null;
  /** Whose hosts these are, where the table of operators knows. */
  operator?: MailOperator | null;
  /** The smarthost that takes the mail, or null where it goes to the recipient's own hosts. */
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
  | { kind: 'hold' }
  /** There is nowhere to go; the mail learns why. */
  | { kind: 'nowhere'; route: Exclude<MailRoute, { kind: 'hosts' | 'trouble' }> }
  /** DNS does not say; it is asked again at `until`. That is about the domain: its mail waits without attempts. */
  | Unresolved;

export interface Unresolved {
  kind: 'unresolved';
  route: Extract<MailRoute, { kind: 'trouble' }>;
  since: number;
  until: number;
  /** Failed look-ups in a row. */
  failures: number;
}

/** An entry of `delivery.routes`. */
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
  /** The MTA-STS policy of a domain (mta/dns/sts.ts). */
  findPolicy?: (domain: string) => Promise<{ policy: StsPolicy | null; fault: StsFault | null }>;
  /** By MX records (mta/dns/mx.ts). */
  findHosts(domain: string, options: { fresh: boolean }): Promise<MailRoute>;
  /** The addresses of a smarthost given by name. */
  findRelay(host: string, port: number): Promise<MailRoute>;
}

export interface Sites {
  /** Whether a route holds mail back. */
  readonly holds: boolean;
  /** Whether DNS did not tell of some domain. */
  readonly someUnresolved: boolean;
  /** What is known now, or null where DNS has to be asked. */
  known(domain: string): Destination | null;
  /** What was known last, however long ago; null where nothing was. For who wants to tell, not to send. */
  lastKnown(domain: string): Destination | null;
  /** Whether DNS is being asked now. */
  isAsking(domain: string): boolean;
  /** Asks where needed. */
  find(domain: string): Promise<Destination>;
  /** Somebody wants to know now: a domain that DNS did not tell of is asked for again; null: all of them. */
  retry(domain: string | null): void;
  /** The clock was set to another time, so many ms on. */
  shift(ms: number): void;
  /** What is known of a domain's policies is old: it is asked for again with its next mail. */
  forget(domain: string): void;
  /** Other routes from now on; mail in a lane learns of them at its next attempt. */
  reroute(routes: Readonly<Record<string, Route>>): void;
}

const MOST_DOMAINS = 50_000;
const LEAST_TTL_MS = 5_000;
const MOST_TTL_MS = 3_600_000;
/** How long an answer that leads nowhere is good: about as long as the mail of one notifier needs to hear it. */
const NOWHERE_MS = 1_000;
/** Until a domain is asked for again, after the first, second ... failed look-up. */
const UNRESOLVED_MS = [2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 300_000] as const;
const LONGEST_UNRESOLVED_MS = 300_000;

export function createSites(deps: SitesDeps): Sites {
  const { clock } = deps;
  let { routes } = deps;
  /** Counts the changes of routes: an answer to a question from before one is not kept. */
  let round = 0;
  const answers = new Map<string, { destination: Destination; until: number }>();
  const asking = new Map<string, Promise<Destination>>();

  const routeOf = (domain: string): Route | undefined => (Object.hasOwn(routes, domain) ? routes[domain] : routes['*']);

  const overrideOf = (domain: string): TlsOverride | null =>
    deps.tls !== undefined && Object.hasOwn(deps.tls, domain) ? (deps.tls[domain] ?? null) : null;

  function known(domain: string): Destination | null {
    if (domain === SIMULATOR_DOMAIN) return { kind: 'simulator' };
    const route = routeOf(domain);
    if (route?.kind === 'discard' || route?.kind === 'hold') return { kind: route.kind };
    const answer = answers.get(keyOf(domain, route));
    return answer !== undefined && answer.until > clock.now() ? answer.destination : null;
  }

  function find(domain: string): Promise<Destination> {
    const ready = known(domain);
    if (ready !== null) return Promise.resolve(ready);
    const route = routeOf(domain);
    const key = keyOf(domain, route);
    let question = asking.get(key);
    if (question === undefined) {
      question = ask(domain, route, key).finally(() => asking.delete(key));
      asking.set(key, question);
    }
    return question;
  }

  async function ask(domain: string, route: Route | undefined, key: string): Promise<Destination> {
    const asked = round;
    if (route?.kind === 'smarthost') {
      const name = `${route.host}:${String(route.port)}`;
      return keep(key, asked, await deps.findRelay(route.host, route.port), name, { tls: route.tls, auth: route.auth });
    }
    const found = await deps.findHosts(domain, { fresh: false });
    // "No such domain" counts towards a bounce only when asked for afresh.
    const sure = found.kind === 'no_domain' && !found.fresh ? await deps.findHosts(domain, { fresh: true }) : found;
    const announced = sure.kind === 'hosts' ? await deps.findPolicy?.(domain) : undefined;
    return keep(key, asked, sure, null, null, {
      domain,
      sts: announced?.policy ?? null,
      stsFault: announced?.fault ?? null,
      tls: overrideOf(domain),
    });
  }

  function keep(
    key: string,
    asked: number,
    route: MailRoute,
    relayName: string | null,
    relay: Site['relay'],
    secured: Pick<Site, 'domain' | 'sts' | 'stsFault' | 'tls'> = {},
  ): Destination {
    const now = clock.now();
    const destination = destinationFrom(key, route, relayName, relay, secured, now);
    const until = destination.kind === 'unresolved' ? destination.until : now + ttlOf(route);
    if (asked !== round) return destination;
    answers.delete(key);
    answers.set(key, { destination, until });
    if (answers.size > MOST_DOMAINS) dropOldest(answers);
    return destination;
  }

  function destinationFrom(
    key: string,
    route: MailRoute,
    relayName: string | null,
    relay: Site['relay'],
    secured: Pick<Site, 'domain' | 'sts' | 'stsFault' | 'tls'>,
    now: number,
  ): Destination {
    if (route.kind === 'hosts') return { ...siteFrom(route, relayName, relay), ...secured };
    if (route.kind !== 'trouble') return { kind: 'nowhere', route };
    const before = answers.get(key)?.destination;
    const failures = before?.kind === 'unresolved' ? before.failures + 1 : 1;
    const since = before?.kind === 'unresolved' ? before.since : now;
    const pause = UNRESOLVED_MS[failures - 1] ?? LONGEST_UNRESOLVED_MS;
    return { kind: 'unresolved', route, since, failures, until: now + pause };
  }

  function siteFrom(
    route: Extract<MailRoute, { kind: 'hosts' }>,
    relayName: string | null,
    relay: Site['relay'],
  ): Site {
    const operator = operatorOf(route.mxNames ?? [], deps.operators ?? []);
    return {
      kind: 'site',
      name: relayName ?? operator?.name ?? laneName(route.site),
      hosts: route.hosts,
      operator,
      relay,
    };
  }

  return {
    get holds() {
      return Object.values(routes).some(({ kind }) => kind === 'hold');
    },
    get someUnresolved() {
      for (const { destination } of answers.values()) if (destination.kind === 'unresolved') return true;
      return false;
    },
    known,
    find,
    lastKnown(domain) {
      return known(domain) ?? answers.get(keyOf(domain, routeOf(domain)))?.destination ?? null;
    },
    isAsking: (domain) => asking.has(keyOf(domain, routeOf(domain))),
    retry(domain) {
      const key = domain === null ? null : keyOf(domain, routeOf(domain));
      for (const [one, answer] of answers)
        if (answer.destination.kind === 'unresolved' && (key === null || one === key)) answer.until = 0;
    },
    shift(ms) {
      for (const answer of answers.values()) answer.until += ms;
    },
    forget(domain) {
      answers.delete(domain);
    },
    reroute(changed) {
      routes = changed;
      round++;
      // A smarthost's answer holds its credentials.
      answers.clear();
      asking.clear();
    },
  };
}

/** A host without a dot must not pass for an operator. */
const laneName = (site: string): string => (/[.:]/.test(site) ? site : `${site}.`);

const ttlOf = (route: MailRoute): number =>
  route.kind === 'hosts' ? Math.min(Math.max(route.ttl * 1000, LEAST_TTL_MS), MOST_TTL_MS) : NOWHERE_MS;

const keyOf = (domain: string, route: Route | undefined): string =>
  route?.kind === 'smarthost' ? `~${route.host}:${String(route.port)}` : domain;

function dropOldest(map: Map<string, unknown>): void {
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
