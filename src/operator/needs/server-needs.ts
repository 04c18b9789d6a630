/** The rules for what needs a person on the server: holds, blocks, ports, the certificate, disk and backups. Pure. */
import { pluralize } from '../../base/pluralize.ts';
import type { HeldMail } from '../holds.ts';
import { atNode, capital, need, SOON_MS, uri, waits, type Need, type Rule, type ServerFacts } from './need.ts';

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

const keptBack: Rule<ServerFacts> = ({ held, domains }) =>
  held.flatMap(({ by, target, message, waiting: mails, since, until }) => {
    if (by === 'operator' || by === 'domain_refused') return [];
    const { level, title, action, canTry } = keepers[by];
    return [
      need({
        kind: by,
        level,
        ...(title === undefined ? {} : { title: title(target) }),
        message: `${message}${waits(mails)}`,
        mails,
        since,
        until,
        try_domain: canTry === true ? (domains.find(({ lane }) => lane === target)?.domain ?? null) : null,
        action: action(target),
      }),
    ];
  });

/** Returns the name of a site without its domain: `outlook` for `outlook (outlook.com)`. */
const siteName = (site: string): string => site.replace(/ \(.*\)$/, '');

/** Blocks of an address by a receiver for which no mail waits now. */
const blocks: Rule<ServerFacts> = ({ blocks: all, held }) =>
  all
    .filter(({ site }) => !held.some(({ by, target }) => by === 'block_list' && target === siteName(site)))
    .map(({ source, node, site, since, until, reply }) =>
      need({
        kind: 'block_list',
        title: `${capital(siteName(site))} blocks us`,
        level: 'red',
        message: `${site} refuses mail from ${source ?? `the system's address${node === null ? '' : ` of the node ${node}`}`}: "${reply}". Nothing is sent there meanwhile.`,
        since,
        until,
        action: addresses,
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
        ...(connections === null ? [] : [pluralize(connections, 'connection')]),
        ...(rate === null ? [] : [`${pluralize(rate, 'mail')} a minute`]),
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
        action: { label: 'Doctor', href: '/doctor', command: 'posthorn config show' },
      }),
    );

/** From this number of domains on, our own resolver is the likely cause. */
const OUR_DNS = 3;

/** Mail whose way is not known. DNS of a single domain is usually the fault of its owner. */
const dns: Rule<ServerFacts> = ({ dnsTrouble: all }) => {
  const [first] = all;
  if (first === undefined) return [];
  const mails = all.reduce((sum, { waiting }) => sum + waiting, 0);
  const among = all.length === 1 ? '' : `DNS does not answer for ${pluralize(all.length, 'recipient domain')}. `;
  return [
    need({
      kind: 'dns_trouble',
      title:
        all.length === 1
          ? `DNS does not answer for ${first.domain}`
          : `DNS does not answer for ${String(all.length)} domains`,
      level: all.length >= OUR_DNS ? 'red' : 'amber',
      message: `${among}${first.message}${waits(mails)}`,
      mails,
      since: first.since,
      action: doctor('resolver'),
    }),
  ];
};

/** Returns why a port is not open. */
function whyClosed({ error }: ServerFacts['closedPorts'][number]): string {
  if (error === 'EACCES') return 'this user may not listen on it';
  return error === 'EADDRINUSE' ? 'another program has it' : (error ?? 'the cause is unknown');
}

const ports: Rule<ServerFacts> = ({ closedPorts }) =>
  closedPorts.map((one) => {
    const effect =
      one.name === 'mx' ? 'Bounces and complaints that come by mail are not received.' : 'Programs cannot send by it.';
    return need({
      kind: 'port_closed',
      level: 'red',
      message: `${atNode(one.node)}Port ${String(one.port)} (${one.name}) is not open: ${whyClosed(one)}. ${effect}`,
      since: one.since,
      action: doctor('listeners'),
    });
  });

const certificates: Rule<ServerFacts> = ({ certificates: all }, { now }) =>
  all
    .filter(({ until }) => until - now <= SOON_MS)
    .map(({ node, file, until }) =>
      need({
        kind: 'certificate',
        level: until <= now ? 'red' : 'amber',
        message: `${atNode(node)}The certificate ${file} ${until <= now ? 'has expired: clients refuse TLS' : 'expires soon; clients then refuse TLS'}.`,
        until: new Date(until).toISOString(),
        action: doctor('certificate'),
      }),
    );

const FINDING_NAMES: Readonly<Record<string, string>> = {
  disk: 'Disk',
  backups: 'Backups',
  settings: 'Settings',
  nodes: 'Nodes',
  secret_key: 'Secrets',
};

const findings: Rule<ServerFacts> = ({ findings: all }) =>
  all.map(({ node, check, status, why }) =>
    need({
      kind: check,
      level: status === 'failed' ? 'red' : 'amber',
      message: `${FINDING_NAMES[check] ?? check}${node === null ? '' : ` of the node ${node}`}: ${why}.`,
      action: doctor(check),
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
