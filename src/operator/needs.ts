/**
 * Lists what a person should look at: one pure function from facts to items, for the Overview and for `posthorn status`.
 * A further kind of item is a function in `rules`, with its facts in `NeedFacts` (read by needs-facts.ts).
 */
import { stateOf, lostOf, lostText } from '../domains/lost-records.ts';
import type { DomainRecord } from '../domains/domain-record.ts';
import { DAY_MS } from '../base/time.ts';
import type { HeldMail } from './held-mail.ts';

export interface Need {
  object: 'need';
  kind: string;
  /** `red`: mail is refused or stands still; `amber`: it is slow, or will stand still. */
  level: 'red' | 'amber';
  /** Whole sentences: what is the case, and what it means. */
  message: string;
  /** Recipients whose mail is concerned now. */
  mails: number;
  since: string | null;
  /** When it ends by itself, is tried again, or gets worse; null where nothing is planned. */
  until: string | null;
  /** Where to act: a page of the dashboard, and a command. */
  action: { label: string; href: string; command: string };
  /** A recipient domain whose mail can be tried now, or null. */
  try_domain: string | null;
}

/** A hold or limit that a person has set. */
interface SetByPerson {
  id: string;
  kind: 'hold' | 'limit';
  scope: string;
  target: string;
  connections: number | null;
  per_minute: number | null;
  note: string | null;
  until: string | null;
  created_at: string | null;
  created_by: string | null;
}

/** Deferred mail of one lane with one kind of answer. */
export interface Deferred {
  lane: string;
  domain: string;
  /** The code that the receiver gives the cause, such as `TSS04`, or its SMTP code. */
  code: string;
  waiting: number;
  reply: string;
}

/** Facts about the server, which members that are not administrators do not see. */
export interface ServerFacts {
  held: readonly HeldMail[];
  set: readonly SetByPerson[];
  /** The lane of each recipient domain that mail waits for. */
  domains: readonly { domain: string; lane: string; waiting: number }[];
  blocks: readonly { source: string | null; site: string; since: string; until: string; reply: string }[];
  /** Routes of the settings by domain. */
  routes: Readonly<Record<string, { kind: string }>>;
  /** Ports for mail that could not be had. */
  closedPorts: readonly {
    name: string;
    port: number;
    holder: string | null;
    error: string | null;
    since: string | null;
  }[];
  /** The end of the certificate of the listeners, or null. */
  certificate: { file: string; until: number } | null;
  /** Findings of the doctor about disk and backups that are not ok. */
  findings: readonly { check: string; status: 'warning' | 'failed'; why: string }[];
  listed: readonly { ip: string; list: string }[];
}

/** Facts about one account. */
export interface AccountFacts {
  domains: readonly DomainRecord[];
  webhooks: readonly {
    id: string;
    url: string;
    status: string;
    disabled_reason: string | null;
    last_success_at: string | null;
    last_failure_at: string | null;
  }[];
  keys: readonly { id: string; name: string; expires_at: string | null; revoked_at: string | null }[];
  deferred: readonly Deferred[];
}

export interface NeedFacts {
  now: number;
  server: ServerFacts | null;
  account: AccountFacts;
}

type Given = Pick<Need, 'kind' | 'level' | 'message' | 'action'> & Partial<Need>;

const need = (given: Given): Need => ({
  object: 'need',
  mails: 0,
  since: null,
  until: null,
  try_domain: null,
  ...given,
});

/** Returns the items: first what stands still, then what has the most mail. */
export function needsOf(facts: NeedFacts): Need[] {
  const { server } = facts;
  const found = [
    ...(server === null ? [] : serverRules.flatMap((rule) => rule(server, facts))),
    ...accountRules.flatMap((rule) => rule(facts.account, facts)),
  ];
  return found.sort(
    (a, b) =>
      Number(b.level === 'red') - Number(a.level === 'red') || b.mails - a.mails || a.message.localeCompare(b.message),
  );
}

type Rule<Of> = (of: Of, facts: NeedFacts) => readonly Need[];

const uri = encodeURIComponent;
const counted = (n: number, noun: string): string => `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;
const waits = (n: number): string =>
  n === 0 ? '' : ` ${counted(n, 'recipient')} ${n === 1 ? 'waits' : 'wait'} for it.`;
const person = (by: string | null): string =>
  by === null || by === 'operator' ? 'The operator' : by.replace(/^member:/, '');
const noteOf = (note: string | null): string => (note === null ? '' : ` (${note})`);
const laneAction = (lane: string): Need['action'] => ({
  label: 'The lane',
  href: `/queue/lane?name=${uri(lane)}`,
  command: `posthorn queue lanes --lane ${lane}`,
});

/** Mail that is kept back without a person's doing: block lists, warm-up, rests, routes, pauses of streams. */
const keptBack: Rule<ServerFacts> = ({ held, domains }) =>
  held.flatMap((one) => {
    const { by, target, message, waiting: mails, since, until } = one;
    const domain = domains.find(({ lane }) => lane === target)?.domain ?? null;
    const given = { kind: by, message: `${message}${waits(mails)}`, mails, since, until };
    switch (by) {
      case 'block_list':
        return [
          need({
            ...given,
            level: 'red',
            try_domain: domain,
            action: { label: 'Addresses', href: '/settings/sources', command: 'posthorn queue sources' },
          }),
        ];
      case 'rest':
        return [need({ ...given, level: 'amber', try_domain: domain, action: laneAction(target) })];
      case 'route':
        return [
          need({
            ...given,
            level: 'amber',
            action: {
              label: 'Its mail',
              href: `/queue?domain=${uri(target)}`,
              command: `posthorn queue list --domain ${target}`,
            },
          }),
        ];
      case 'stream_pause':
        return [
          need({
            ...given,
            level: 'amber',
            action: { label: 'Streams', href: '/streams', command: 'posthorn queue holds' },
          }),
        ];
      case 'warm_up':
        return [
          need({
            ...given,
            level: 'amber',
            action: { label: 'Addresses', href: '/settings/sources', command: 'posthorn queue sources' },
          }),
        ];
      case 'account_pause':
        return [
          need({
            ...given,
            level: 'red',
            action: { label: 'Accounts', href: '/accounts', command: 'posthorn accounts list' },
          }),
        ];
      // Both are listed with their cause below, also while no mail waits.
      case 'operator':
      case 'domain_refused':
        return [];
    }
  });

/** Blocks of an address by a receiver for which no mail waits now. */
const blocks: Rule<ServerFacts> = ({ blocks: all, held }) =>
  all
    .filter(({ site }) => !held.some(({ by, target }) => by === 'block_list' && target === site))
    .map(({ source, site, since, until, reply }) =>
      need({
        kind: 'block_list',
        level: 'red',
        message: `${site} refuses mail from ${source ?? "the system's address"}: "${reply}". Nothing is sent there meanwhile.`,
        since,
        until,
        action: { label: 'Addresses', href: '/settings/sources', command: 'posthorn queue sources' },
      }),
    );

/** Holds and limits that people have set. */
const setByPeople: Rule<ServerFacts> = ({ set, held, domains }) =>
  set.map(
    ({ id, kind, scope, target, connections, per_minute: rate, note, until, created_at: since, created_by: by }) => {
      const isLane = scope === 'lane';
      const mails = isLane
        ? domains.filter(({ lane }) => lane === target).reduce((sum, { waiting }) => sum + waiting, 0)
        : (held.find((one) => one.by === 'operator' && one.target === id)?.waiting ?? 0);
      const limits = [
        ...(connections === null ? [] : [counted(connections, 'connection')]),
        ...(rate === null ? [] : [`${counted(rate, 'mail')} a minute`]),
      ];
      const what =
        kind === 'limit' ? `limits the ${scope} ${target} to ${limits.join(' and ')}` : `holds the ${scope} ${target}`;
      return need({
        kind: kind === 'limit' ? 'limited_by_person' : 'held_by_person',
        level: 'amber',
        message: `${person(by)} ${what}${noteOf(note)}.${waits(mails)}`,
        mails,
        since,
        until,
        action: isLane
          ? laneAction(target)
          : {
              label: 'Holds',
              href: '/queue#holds',
              command: kind === 'hold' ? `posthorn queue release ${id}` : 'posthorn queue holds',
            },
      });
    },
  );

/** Routes that throw mail away. One that holds mail is listed while mail waits for it. */
const routes: Rule<ServerFacts> = ({ routes: all }) =>
  Object.entries(all)
    .filter(([, { kind }]) => kind === 'discard')
    .map(([domain]) =>
      need({
        kind: 'route_discards',
        level: domain === '*' ? 'red' : 'amber',
        message: `A route in the settings throws mail to ${domain === '*' ? 'every domain' : domain} away, and counts it as delivered.`,
        action: { label: 'Doctor', href: '/doctor', command: 'posthorn doctor --only holds' },
      }),
    );

const ports: Rule<ServerFacts> = ({ closedPorts }) =>
  closedPorts.map(({ name, port, holder, error, since }) =>
    need({
      kind: 'port_closed',
      level: 'red',
      message: `Port ${String(port)} (${name}) is not open: ${holder === null ? (error ?? 'unknown cause') : `${holder} has it`}. ${port === 25 ? 'Bounces and complaints that come by mail are not received.' : 'Programs cannot send by it.'}`,
      since,
      action: { label: 'Doctor', href: '/doctor', command: 'posthorn doctor --only listeners' },
    }),
  );

const SOON_MS = 14 * DAY_MS;

const certificate: Rule<ServerFacts> = ({ certificate: own }, { now }) =>
  own === null || own.until - now > SOON_MS
    ? []
    : [
        need({
          kind: 'certificate',
          level: own.until <= now ? 'red' : 'amber',
          message: `The certificate ${own.file} ${own.until <= now ? 'has expired: clients refuse TLS' : 'expires soon; clients then refuse TLS'}.`,
          until: new Date(own.until).toISOString(),
          action: { label: 'Doctor', href: '/doctor', command: 'posthorn doctor --only certificate' },
        }),
      ];

const findings: Rule<ServerFacts> = ({ findings: all }) =>
  all.map(({ check, status, why }) =>
    need({
      kind: check,
      level: status === 'failed' ? 'red' : 'amber',
      message: `${check === 'disk' ? 'Disk' : 'Backups'}: ${why}.`,
      action: { label: 'Doctor', href: '/doctor', command: `posthorn doctor --only ${check}` },
    }),
  );

const lists: Rule<ServerFacts> = ({ listed }) =>
  listed.map(({ ip, list }) =>
    need({
      kind: 'listed',
      level: 'red',
      message: `${ip} is on the block list ${list}: mail hosts that use it refuse mail from this server.`,
      action: { label: 'Since when', href: '/reputation', command: 'posthorn reputation' },
    }),
  );

const serverRules: readonly Rule<ServerFacts>[] = [
  keptBack,
  blocks,
  setByPeople,
  routes,
  ports,
  certificate,
  findings,
  lists,
];

const sendingDomains: Rule<AccountFacts> = ({ domains }, { server }) =>
  domains.flatMap((domain) => {
    const { id, name, records, refused_at: at, taken } = domain;
    const state = stateOf(domain);
    const action = { label: 'Its DNS records', href: `/domains/${id}`, command: `posthorn domains show ${name}` };
    const mails = server?.held.find(({ by, target }) => by === 'domain_refused' && target === name)?.waiting ?? 0;
    const because = lostText(lostOf(records));
    if (state === 'refused')
      return [
        need({
          kind: 'domain_refused',
          level: 'red',
          message: `Mail from ${name} is refused, because ${because}.${waits(mails)}`,
          mails,
          since: at,
          action,
        }),
      ];
    if (state === 'failing')
      return [
        need({
          kind: 'domain_failing',
          level: 'amber',
          message: `${name}: ${because}. Mail from it is still sent for now, and is refused after that.`,
          until: at,
          action,
        }),
      ];
    if (state !== 'unverified') return [];
    const why = taken ? 'another account has verified the name' : 'its DNS records were not all found yet';
    return [
      need({
        kind: 'domain_unverified',
        level: 'amber',
        message: `Mail from ${name} is refused: ${why}.${waits(mails)}`,
        mails,
        action,
      }),
    ];
  });

const webhooks: Rule<AccountFacts> = ({ webhooks: all }) =>
  all.flatMap(({ id, url, status, disabled_reason: why, last_success_at: good, last_failure_at: bad }) => {
    const action = { label: 'The webhook', href: `/webhooks/${id}`, command: `posthorn webhooks list` };
    if (status === 'disabled')
      return [
        need({
          kind: 'webhook_disabled',
          level: 'red',
          message: `The webhook ${url} is disabled: ${why ?? 'it failed'}.`,
          action,
        }),
      ];
    if (status !== 'active' || bad === null || (good !== null && good >= bad)) return [];
    return [
      need({
        kind: 'webhook_failing',
        level: 'amber',
        message: `The last call to the webhook ${url} failed. It is called again, and is disabled after five days of failures.`,
        since: bad,
        action,
      }),
    ];
  });

const keys: Rule<AccountFacts> = ({ keys: all }, { now }) =>
  all.flatMap(({ id, name, expires_at: at, revoked_at: revoked }) => {
    const end = at === null ? Infinity : Date.parse(at);
    if (revoked !== null || end - now > SOON_MS || now - end > SOON_MS) return [];
    return [
      need({
        kind: 'key_ends',
        level: end <= now ? 'red' : 'amber',
        message: `The key ${name} ${end <= now ? 'has ended: requests with it are refused' : 'ends soon; requests with it are refused then'}.`,
        until: at,
        action: { label: 'The key', href: `/developer/keys/${id}`, command: `posthorn keys list` },
      }),
    ];
  });

/** Deferred mail, one line for a lane and cause. What keeps a whole lane back is told above. */
const deferred: Rule<AccountFacts> = ({ deferred: all }, { server }) => {
  const told = new Set(
    server?.held.filter(({ by }) => by === 'rest' || by === 'block_list').map(({ target }) => target),
  );
  const groups = new Map<string, Deferred>();
  for (const one of all) {
    if (told.has(one.lane)) continue;
    const key = `${one.lane} ${one.code}`;
    groups.set(key, { ...one, waiting: one.waiting + (groups.get(key)?.waiting ?? 0) });
  }
  return [...groups.values()].map(({ lane, domain, code, waiting, reply }) =>
    need({
      kind: 'deferred',
      level: 'amber',
      message: `${lane.startsWith('~') ? domain : lane}: ${counted(waiting, 'recipient')} deferred, ${code}. They are tried again by their schedule. The last answer: ${reply}`,
      mails: waiting,
      try_domain: server === null ? null : domain,
      action: {
        label: 'The mail',
        href: `/messages?status=deferred&q=${uri(`@${domain}`)}`,
        command: `posthorn queue list --domain ${domain} --status deferred`,
      },
    }),
  );
};

const accountRules: readonly Rule<AccountFacts>[] = [sendingDomains, webhooks, keys, deferred];
