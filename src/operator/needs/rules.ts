/** The rules for what needs a person on the server: holds, blocks, ports, the certificate, disk and backups. Pure. */
import { numbersOf, pluralize } from '../../base/pluralize.ts';
import { DAY_MS } from '../../base/time.ts';
import type { DomainRecord } from '../../domains/domain-record.ts';
import type { Key, Webhook } from '../../client/types.ts';
import { z } from 'zod';
import { each, maybe, maybeTime, ofKind, text, whole } from '../../api/record-schema.ts';
import type { HeldMail, HoldRecord } from '../holds.ts';
import { lostOf, lostText, stateOf } from '../../domains/lost-records.ts';

export const Need = ofKind('need', {
  kind: text(),
  /** `red`: mail is refused or stands still; `amber`: it is slow, or will stand still; `grey`: it goes on by itself. */
  level: z.enum(['red', 'amber', 'grey']),
  title: text('The cause in a few words, without a full stop; the message says it whole.'),
  message: text('Whole sentences: what is the case, and what it means.'),
  mails: whole('Recipients whose mail is concerned now.'),
  since: maybeTime(),
  until: maybeTime('When it ends by itself, is tried again, or gets worse; null if nothing is planned.'),
  action: z.object(each(text(), 'label', 'href', 'command')).describe('Where to act: a page, and a command.'),
  try_domain: maybe('A recipient domain whose mail can be tried now, or null.'),
});
export type Need = z.infer<typeof Need>;

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
  /** Holds and limits that a person has set. */
  set: readonly HoldRecord[];
  /** The lane of each recipient domain that mail waits for. */
  domains: readonly { domain: string; lane: string; waiting: number }[];
  blocks: readonly {
    source: string | null;
    /** The node that the source is at, if there are several. */
    node: string | null;
    site: string;
    since: string;
    until: string;
    reply: string;
  }[];
  /** Recipient domains for which DNS does not answer, with how many recipients wait for it. */
  dnsTrouble: readonly { domain: string; waiting: number; message: string; since: string | null }[];
  /** Routes of the settings by domain. */
  routes: Readonly<Record<string, { kind: string }>>;
  /** Ports for mail that could not be opened. Here and below `node` names the node concerned, if there are several. */
  closedPorts: readonly {
    node: string | null;
    name: string;
    port: number;
    error: string | null;
    since: string | null;
  }[];
  /** The ends of the certificates of the listeners. */
  certificates: readonly { node: string | null; file: string; until: number }[];
  /** Findings of the doctor about disk, backups, settings, nodes and lost keys that are not ok. */
  findings: readonly { node: string | null; check: string; status: 'warning' | 'failed'; why: string }[];
  listed: readonly { ip: string; list: string }[];
}

export interface AccountFacts {
  id: string;
  name: string;
  domains: readonly DomainRecord[];
  webhooks: readonly Pick<
    Webhook,
    'id' | 'url' | 'status' | 'disabled_reason' | 'failing_since' | 'last_success_at' | 'last_failure_at'
  >[];
  keys: readonly Pick<Key, 'id' | 'name' | 'mode' | 'created_at' | 'expires_at' | 'revoked_at'>[];
  deferred: readonly Deferred[];
}

export interface NeedFacts {
  now: number;
  server: ServerFacts | null;
  /** Their names are told if there are several. */
  accounts: readonly AccountFacts[];
}

type Given = Pick<Need, 'kind' | 'level' | 'message' | 'action'> & Partial<Need>;

/** Returns the words that name the node of an item, for the beginning of its message. */
const atNode = (node: string | null): string => (node === null ? '' : `On the node ${node}: `);

/** Returns the first sentence without its end. A dot within a name or a number ends no sentence. */
const firstSentence = (message: string): string => /^.*?(?=[.;](?:\s|$)|$)/s.exec(message)?.[0] ?? message;

/** Returns a name as a sentence begins: `Outlook` for the lane `outlook`; the name of a host stays as it is. */
const capital = (name: string): string =>
  name.includes('.') ? name : name.replace(/^./, (first) => first.toUpperCase());

/** Makes an item; what is not given has its plainest value. */
export const need = (given: Given): Need => ({
  object: 'need',
  title: firstSentence(given.message),
  mails: 0,
  since: null,
  until: null,
  try_domain: null,
  ...given,
});

/** One kind of item: yields those that the facts hold. */
type Rule<Of> = (of: Of, facts: NeedFacts) => Iterable<Given>;

/** Certificates and keys that end within this time, in ms, are shown to people. */
const SOON_MS = 14 * DAY_MS;

const uri = encodeURIComponent;
export const waits = (n: number): string =>
  n === 0 ? '' : ` ${pluralize(n, 'recipient')} ${n === 1 ? 'waits' : 'wait'} for it.`;

const person = (by: string | null): string =>
  by === null || by === 'operator' ? 'The operator' : by.replace(/^member:/, '');
const noteOf = (note: string | null): string => (note === null ? '' : ` (${note})`);
const laneAction = (lane: string): Need['action'] => ({
  label: 'The lane',
  href: `/queue/lane?name=${uri(lane)}`,
  command: `posthorn queue lanes --lane ${lane}`,
});

const doctor = (check: string): Need['action'] => ({
  label: 'Doctor',
  href: '/doctor',
  command: `posthorn doctor --only ${check}`,
});
const addresses: Need['action'] = { label: 'Addresses', href: '/settings/sources', command: 'posthorn queue sources' };

interface Kept {
  level: Need['level'];
  title?: (target: string) => string;
  action: (target: string) => Need['action'];
  /** Its mail can be tried now. */
  canTry?: true;
}

/** Mail that is kept back, by what keeps it. Holds of people and refused domains are listed with their cause below, also while no mail waits. */
const keepers: Readonly<Record<Exclude<HeldMail['by'], 'operator' | 'domain_refused'>, Kept>> = {
  block_list: {
    level: 'red',
    title: (target) => `${capital(target)} blocks us`,
    action: () => addresses,
    canTry: true,
  },
  no_source: {
    level: 'red',
    title: (target) => `No address can send to ${target}`,
    action: () => addresses,
    canTry: true,
  },
  rest: { level: 'amber', title: (target) => `Mail to ${capital(target)} rests`, action: laneAction, canTry: true },
  route: {
    level: 'amber',
    action: (target) => ({
      label: 'Its mail',
      href: `/queue?domain=${uri(target)}`,
      command: `posthorn queue list --domain ${target}`,
    }),
  },
  stream_pause: {
    level: 'amber',
    action: () => ({ label: 'Streams', href: '/streams', command: 'posthorn queue holds' }),
  },
  warm_up: { level: 'amber', title: (target) => `A warm-up holds mail to ${target}`, action: () => addresses },
  account_pause: {
    level: 'red',
    action: () => ({ label: 'Accounts', href: '/accounts', command: 'posthorn accounts list' }),
  },
};

const keptBack: Rule<ServerFacts> = function* ({ held, domains }) {
  for (const { by, target, message, waiting: mails, since, until } of held) {
    if (by === 'operator' || by === 'domain_refused') continue;
    const { level, title, action, canTry } = keepers[by];
    yield {
      kind: by,
      level,
      ...(title === undefined ? {} : { title: title(target) }),
      message: `${message}${waits(mails)}`,
      mails,
      since,
      until,
      try_domain: canTry === true ? (domains.find(({ lane }) => lane === target)?.domain ?? null) : null,
      action: action(target),
    };
  }
};

/** Returns the name of a site without its domain: `outlook` for `outlook (outlook.com)`. */
const siteName = (site: string): string => site.replace(/ \(.*\)$/, '');

/** Blocks of an address by a receiver for which no mail waits now. */
const blocks: Rule<ServerFacts> = ({ blocks: all, held }) =>
  all
    .filter(({ site }) => !held.some(({ by, target }) => by === 'block_list' && target === siteName(site)))
    .map(({ source, node, site, since, until, reply }) => ({
      kind: 'block_list',
      title: `${capital(siteName(site))} blocks us`,
      level: 'red',
      message: `${site} refuses mail from ${source ?? `the system's address${node === null ? '' : ` of the node ${node}`}`}: "${reply}". Nothing is sent there meanwhile.`,
      since,
      until,
      action: addresses,
    }));

const setByPeople: Rule<ServerFacts> = ({ set, held, domains }) =>
  set.map((row) => {
    const { id, kind, scope, target, note, until, created_at: since, created_by: by } = row;
    const isLane = scope === 'lane';
    const mails = isLane
      ? domains.filter(({ lane }) => lane === target).reduce((sum, { waiting }) => sum + waiting, 0)
      : (held.find((one) => one.by === 'operator' && one.target === id)?.waiting ?? 0);
    const what =
      kind === 'limit'
        ? `limits the ${scope} ${target} to ${numbersOf(row).join(' and ')}`
        : `holds the ${scope} ${target}`;
    return {
      kind: kind === 'limit' ? 'limited_by_person' : 'held_by_person',
      level: 'amber',
      message: `${person(by)} ${what}${noteOf(note)}.${waits(mails)}`,
      mails,
      since,
      until,
      action: isLane
        ? laneAction(target)
        : { label: 'Holds', href: '/queue#holds', command: `posthorn queue release ${id}` },
    };
  });

/** Routes that throw mail away. One that holds mail is listed while mail waits for it. */
const routes: Rule<ServerFacts> = ({ routes: all }) =>
  Object.entries(all)
    .filter(([, { kind }]) => kind === 'discard')
    .map(([domain]) => ({
      kind: 'route_discards',
      level: domain === '*' ? 'red' : 'amber',
      message: `A route in the settings throws mail to ${domain === '*' ? 'every domain' : domain} away, and counts it as delivered.`,
      action: { label: 'Doctor', href: '/doctor', command: 'posthorn config show' },
    }));

/** From this number of domains on, our own resolver is the likely cause. */
const OUR_DNS = 3;

/** Mail whose way is not known. DNS of a single domain is usually the fault of its owner. */
const dns: Rule<ServerFacts> = function* ({ dnsTrouble: all }) {
  const [first] = all;
  if (first === undefined) return;
  const mails = all.reduce((sum, { waiting }) => sum + waiting, 0);
  const names = all.length === 1 ? first.domain : pluralize(all.length, 'recipient domain');
  yield {
    kind: 'dns_trouble',
    title: `DNS does not answer for ${names}`,
    level: all.length >= OUR_DNS ? 'red' : 'amber',
    message: `${all.length === 1 ? '' : `DNS does not answer for ${names}. `}${first.message}${waits(mails)}`,
    mails,
    since: first.since,
    action: doctor('resolver'),
  };
};

function whyClosed({ error }: ServerFacts['closedPorts'][number]): string {
  if (error === 'EACCES') return 'this user may not listen on it';
  return error === 'EADDRINUSE' ? 'another program has it' : (error ?? 'the cause is unknown');
}

const ports: Rule<ServerFacts> = ({ closedPorts }) =>
  closedPorts.map((one) => {
    const effect =
      one.name === 'mx' ? 'Bounces and complaints that come by mail are not received.' : 'Programs cannot send by it.';
    return {
      kind: 'port_closed',
      level: 'red',
      message: `${atNode(one.node)}Port ${String(one.port)} (${one.name}) is not open: ${whyClosed(one)}. ${effect}`,
      since: one.since,
      action: doctor('listeners'),
    };
  });

const certificates: Rule<ServerFacts> = ({ certificates: all }, { now }) =>
  all
    .filter(({ until }) => until - now <= SOON_MS)
    .map(({ node, file, until }) => ({
      kind: 'certificate',
      level: until <= now ? 'red' : 'amber',
      message: `${atNode(node)}The certificate ${file} ${until <= now ? 'has expired: clients refuse TLS' : 'expires soon; clients then refuse TLS'}.`,
      until: new Date(until).toISOString(),
      action: doctor('certificate'),
    }));

const FINDING_NAMES: Readonly<Record<string, string>> = {
  disk: 'Disk',
  backups: 'Backups',
  settings: 'Settings',
  nodes: 'Nodes',
  secret_key: 'Secrets',
};

const findings: Rule<ServerFacts> = ({ findings: all }) =>
  all.map(({ node, check, status, why }) => ({
    kind: check,
    level: status === 'failed' ? 'red' : 'amber',
    message: `${FINDING_NAMES[check] ?? check}${node === null ? '' : ` of the node ${node}`}: ${why}.`,
    action: doctor(check),
  }));

const lists: Rule<ServerFacts> = ({ listed }) =>
  listed.map(({ ip, list }) => ({
    kind: 'listed',
    level: 'red',
    message: `${ip} is on the block list ${list}: mail hosts that use it refuse mail from this server.`,
    action: { label: 'Since when', href: '/reputation', command: 'posthorn reputation' },
  }));

export const serverRules: readonly Rule<ServerFacts>[] = [
  keptBack,
  blocks,
  setByPeople,
  routes,
  dns,
  ports,
  certificates,
  findings,
  lists,
];

const sendingDomains: Rule<AccountFacts> = function* ({ id: account, domains }, { server }) {
  for (const domain of domains) {
    const { id, name, records, refused_at: at, taken } = domain;
    const state = stateOf(domain);
    const action = { label: 'Its DNS records', href: `/domains/${id}`, command: `posthorn domains show ${name}` };
    const isOf = (held: HeldMail): boolean =>
      held.by === 'domain_refused' && held.account_id === account && held.target === name;
    const mails = server?.held.find(isOf)?.waiting ?? 0;
    const because = lostText(lostOf(records));
    if (state === 'refused') {
      const message = `Mail from ${name} is refused, because ${because}.${waits(mails)}`;
      yield { kind: 'domain_refused', level: 'red', message, mails, since: at, action };
    } else if (state === 'failing') {
      const message = `${name}: ${because}. Mail from it is still sent for now, and is refused once the grace period has ended.`;
      yield { kind: 'domain_failing', level: 'amber', message, until: at, action };
    } else if (state === 'unverified') {
      const why = taken ? 'another account has verified the name' : 'its DNS records were not all found yet';
      const message = `Mail from ${name} is refused: ${why}.${waits(mails)}`;
      yield { kind: 'domain_unverified', level: 'amber', message, mails, action };
    }
  }
};

const webhooks: Rule<AccountFacts> = function* ({ webhooks: all }) {
  for (const one of all) {
    const { id, url, status, disabled_reason: why, last_success_at: good, last_failure_at: bad } = one;
    const action = { label: 'The webhook', href: `/webhooks/${id}`, command: 'posthorn webhooks list' };
    if (status === 'disabled') {
      const message = `The webhook ${url} is disabled: ${(why ?? 'it failed').replace(/\.$/, '')}.`;
      yield { kind: 'webhook_disabled', level: 'red', message, action };
    } else if (status === 'active' && bad !== null && (good === null || good < bad)) {
      const message = `The last call to the webhook ${url} failed. It is called again, and is disabled after five days of failures.`;
      yield { kind: 'webhook_failing', level: 'amber', message, since: one.failing_since ?? bad, action };
    }
  }
};

/** Live keys that end. A test key sends no mail, and a key that was made for a short time is listed in the last quarter of it. */
const keys: Rule<AccountFacts> = function* ({ keys: all }, { now }) {
  for (const { id, name, mode, created_at: made, expires_at: at, revoked_at: revoked } of all) {
    if (mode === 'test' || revoked !== null || at === null) continue;
    const end = Date.parse(at);
    const soon = Math.min(SOON_MS, (end - Date.parse(made)) / 4);
    if (end - now > soon || now - end > SOON_MS) continue;
    yield {
      kind: 'key_ends',
      level: end <= now ? 'red' : 'amber',
      message: `The key "${name}" ${end <= now ? 'has ended: requests with it are refused' : 'ends soon; requests with it are refused then'}.`,
      until: at,
      action: { label: 'The key', href: `/developer/keys/${id}`, command: 'posthorn keys list' },
    };
  }
};

/** From this many recipients on, deferred mail is more than a receiver's greylist or a full mailbox. */
const MANY_DEFERRED = 10;

/** Returns whether a large receiver refuses us for what we send, whatever the number: its own code, or a code of policy (RFC 3463, x.7). */
const isAboutUs = ({ lane, code }: Deferred): boolean => !lane.includes('.') && /^(?:[45]\.7\.|[A-Z]+\d)/.test(code);

/** Deferred mail: one line for a large receiver's cause, one for a host with much, and one for all the rest. What keeps a whole lane back is an item already. */
const deferred: Rule<AccountFacts> = ({ deferred: all }, { server }) => {
  const listed = new Set(
    server?.held.filter(({ by }) => by === 'rest' || by === 'block_list').map(({ target }) => target),
  );
  const groups = new Map<string, Deferred>();
  for (const one of all) {
    if (listed.has(one.lane)) continue;
    const key = isAboutUs(one) ? `${one.lane} ${one.code}` : one.lane.startsWith('~') ? one.domain : one.lane;
    const before = groups.get(key);
    groups.set(key, { ...(before ?? one), waiting: one.waiting + (before?.waiting ?? 0) });
  }
  // Mail that was not tried yet waits behind what was deferred, and is most of it if a host is down.
  const inAll = ({ lane, waiting }: Deferred): number => {
    const there = lane.startsWith('~') ? [] : (server?.domains ?? []).filter((one) => one.lane === lane);
    return Math.max(
      waiting,
      there.reduce((sum, one) => sum + one.waiting, 0),
    );
  };
  const isMuch = (one: Deferred): boolean => isAboutUs(one) || inAll(one) >= MANY_DEFERRED;
  const found = [...groups.values()];
  return [
    ...found.filter(isMuch).map((one) => deferredNeed(one, inAll(one), server === null ? null : one.domain)),
    ...littleDeferred(found.filter((one) => !isMuch(one))),
  ];
};

function deferredNeed(
  { lane, domain, code, waiting, reply }: Deferred,
  total: number,
  tryDomain: string | null,
): Given {
  const name = lane.startsWith('~') ? domain : lane;
  const inAll = total > waiting ? `; ${total.toLocaleString('en-US')} wait there in all` : '';
  return {
    kind: 'deferred',
    title: `${capital(name)} defers mail: ${code}`,
    level: 'amber',
    message: `${name}: ${pluralize(waiting, 'recipient')} deferred, ${code}, and tried again by schedule${inAll}. The last answer: ${reply}`,
    mails: waiting,
    try_domain: tryDomain,
    action: {
      label: 'The mail',
      href: `/messages?status=deferred&q=${uri(`@${domain}`)}`,
      command: `posthorn queue list --domain ${domain} --status deferred`,
    },
  };
}

function littleDeferred(little: readonly Deferred[]): Given[] {
  if (little.length === 0) return [];
  const mails = little.reduce((sum, { waiting }) => sum + waiting, 0);
  const hosts = new Set(little.map(({ lane, domain }) => (lane.startsWith('~') ? domain : lane))).size;
  const title = `${pluralize(mails, 'mail')} at ${pluralize(hosts, 'host')} ${mails === 1 ? 'retries' : 'retry'} by ${mails === 1 ? 'itself' : 'themselves'}`;
  return [
    {
      kind: 'deferred_little',
      level: 'grey',
      message: `${title}.`,
      mails,
      action: {
        label: 'The mail',
        href: '/messages?status=deferred',
        command: 'posthorn queue list --status deferred',
      },
    },
  ];
}

export const accountRules: readonly Rule<AccountFacts>[] = [sendingDomains, webhooks, keys, deferred];
