/** Checks our host name. Many receivers refuse if greeting, name of the address and address of that name differ (RFC 5321 4.1.4, RFC 1912 2.1). */
import { isIPv4, isIPv6 } from 'node:net';
import { isPublicAddress, isPublicName, plainAddress } from '../../net/ip.ts';
import { failed, warning, type Check, type Probes, type Verdict } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine'>;

/** The most addresses that are checked. */
const MOST_ADDRESSES = 8;

/** Returns our public addresses: those of the machine, or those of its name if it is behind a NAT. */
export async function outsideAddresses(probes: Needs): Promise<readonly string[]> {
  const own = probes.machine.addresses().filter(isPublicAddress);
  const usable = probes.config.delivery.ipv6 === 'always' ? own : own.filter((ip) => !isIPv6(ip));
  if (usable.length > 0) return usable.slice(0, MOST_ADDRESSES);
  const named = await addressesOfName(probes);
  return named.ips.filter(isPublicAddress).slice(0, MOST_ADDRESSES);
}

async function addressesOfName({
  config,
  resolver,
}: Needs): Promise<{ ips: string[]; alias: string | null; trouble: string | null }> {
  const host = config.smtp.hostname;
  const answers = await Promise.all([resolver.a(host, { fresh: true }), resolver.aaaa(host, { fresh: true })]);
  const found = answers.filter((answer) => answer.kind === 'found');
  const alias = found.find(({ name }) => name !== host)?.name ?? null;
  const trouble = answers.find((answer) => answer.kind === 'trouble')?.text ?? null;
  return { ips: found.flatMap(({ records }) => records), alias, trouble };
}

export async function* name(probes: Needs): Check {
  const host = probes.config.smtp.hostname;
  if (!isPublicName(host))
    return yield failed(
      `smtp.hostname is ${host}, which is not a fully qualified name`,
      'Set `smtp.hostname` to the full name of this machine, such as mail.example.com.',
    );
  const named = await addressesOfName(probes);
  if (named.trouble !== null && named.ips.length === 0)
    return yield warning(`${host} cannot be looked up: ${named.trouble}`, 'See the line of `resolver`.');
  if (named.ips.length === 0)
    return yield failed(
      `${host} has no address in DNS`,
      `Publish an A record for ${host} with the public address of this machine.`,
    );
  const outside = await outsideAddresses(probes);
  yield* aliased(host, named.alias);
  yield* elsewhere(host, named.ips, outside);
  if (outside.length === 0)
    yield warning(
      `${host} leads to ${named.ips.join(', ')}, and this machine has no public address`,
      'Nothing to do on a closed network. For mail to the Internet publish the public address under this name.',
    );
  for (const ip of outside) yield* reverse(probes, host, ip);
  return `${host} leads to ${outside.join(', ')} and back`;
}

/** An MX must lead to a name that has the address itself (RFC 2181 section 10.3), and ours is what domains put into theirs. */
function aliased(host: string, alias: string | null): Verdict[] {
  if (alias === null) return [];
  const why = `${host} is an alias (CNAME) of ${alias}; the MX records of return paths may not lead to an alias`;
  return [warning(why, `Publish an A record for ${host} instead of the CNAME.`)];
}

function elsewhere(host: string, ips: readonly string[], outside: readonly string[]): Verdict[] {
  const strangers = outside.filter((ip) => !ips.some((one) => isSame(one, ip)));
  if (outside.length === 0 || strangers.length === 0) return [];
  const why = `${host} leads to ${ips.join(', ')}, but this machine has ${strangers.join(', ')}`;
  const cure = `Publish an A record for ${host} with ${strangers.join(', ')}, or set \`smtp.hostname\` to the name of that address.`;
  return [strangers.length === outside.length ? failed(why, cure) : warning(why, cure)];
}

async function* reverse({ resolver }: Needs, host: string, ip: string): AsyncGenerator<Verdict, void, undefined> {
  const answer = await resolver.ptr(ip, { fresh: true });
  if (answer.kind === 'trouble')
    return yield warning(`the name of ${ip} cannot be looked up: ${answer.text}`, 'See the line of `resolver`.');
  const names = answer.kind === 'found' ? answer.records.map((one) => one.toLowerCase()) : [];
  const cure = `Ask the provider of the address to set its reverse record (PTR) to ${host}; most providers have a field for it.`;
  if (names.length === 0) yield failed(`${ip} has no name (PTR record)`, cure);
  else if (!names.includes(host))
    yield warning(`${ip} is called ${names.slice(0, 3).join(', ')}, but greets as ${host}`, cure);
}

const isSame = (a: string, b: string): boolean => plainAddress(a) === plainAddress(b);

/** The answer of one list about one address. */
export interface Listing {
  ip: string;
  list: string;
  /** `refused`: it does not answer our resolver; `silent`: it does not answer. */
  state: 'clear' | 'listed' | 'refused' | 'silent';
  /** Its answer, or the error. */
  text: string;
}

/** Asks the lists of `doctor.blocklists` about these addresses, as far as they are IPv4. */
export async function askLists(
  { config, resolver }: Pick<Needs, 'config' | 'resolver'>,
  addresses: readonly string[],
): Promise<Listing[]> {
  const asked = addresses
    .filter((ip) => isIPv4(ip))
    .flatMap((ip) => config.doctor.blocklists.map((list) => ({ ip, list })));
  return await Promise.all(
    asked.map(async ({ ip, list }) => {
      const answer = await resolver.a(`${ip.split('.').reverse().join('.')}.${list}`, { fresh: true });
      return { ip, list, ...judged(answer) };
    }),
  );
}

type Answer = Awaited<ReturnType<Probes['resolver']['a']>>;

function judged(answer: Answer): Pick<Listing, 'state' | 'text'> {
  if (answer.kind === 'no_domain' || answer.kind === 'no_data') return { state: 'clear', text: '' };
  if (answer.kind === 'trouble') return { state: 'silent', text: answer.text };
  const text = answer.records.join(', ');
  // RFC 5782 section 2.1; an address outside of 127/8 does not come from a list.
  const isRefusal = answer.records.every((code) => code.startsWith('127.255.255.') || !code.startsWith('127.'));
  return { state: isRefusal ? 'refused' : 'listed', text };
}

export async function* blocklists(probes: Needs): Check {
  const lists = probes.config.doctor.blocklists;
  if (lists.length === 0) return 'no list is asked: `doctor.blocklists` is empty';
  const listings = await askLists(probes, await outsideAddresses(probes));
  if (listings.length === 0) return 'this machine has no public IPv4 address of its own, so no list is asked';
  const ips = [...new Set(listings.map(({ ip }) => ip))];
  yield* listings.flatMap(verdictOn);
  return `${ips.join(', ')} is on none of ${lists.join(', ')}`;
}

const UNANSWERED = `Lists often refuse the large public resolvers: name one of your own in \`delivery.dnsServers\`, or take the list out of \`doctor.blocklists\`.`;

function verdictOn({ ip, list, state, text }: Listing): Verdict[] {
  switch (state) {
    case 'clear':
      return [];
    case 'silent':
      return [warning(`${list} does not answer about ${ip}: ${text}`, UNANSWERED)];
    case 'refused':
      return [refusalOf(list, text)];
    case 'listed': {
      const { name, cure } = meaningOf(list, text);
      return [failed(`${ip} is listed by ${name === null ? list : `${list}: ${name}`} (${text})`, cure)];
    }
  }
}

/** Codes by which Spamhaus refuses a query; other lists use some of them with the same meaning. */
const refusals: Readonly<Record<string, readonly [why: string, cure: string]>> = {
  '127.255.255.252': [
    'there is no list of this name',
    'Correct the name in `doctor.blocklists`: it is probably mistyped.',
  ],
  '127.255.255.254': ['the query came through a public resolver', UNANSWERED],
  '127.255.255.255': [
    'this resolver asks too often',
    'Name a resolver of your own in `delivery.dnsServers`; if it is one, get a key of the list for many queries.',
  ],
};

function refusalOf(list: string, text: string): Verdict {
  const known = text.split(', ').map((code) => refusals[code]);
  const [why, cure] = known.find((one) => one !== undefined) ?? ['', UNANSWERED];
  return warning(`${list} refuses to answer${why === '' ? ' this resolver' : `: ${why}`} (${text})`, cure);
}

const GENERAL_CURE =
  "Look the address up at the list's own site, end what caused it, and ask there to be taken off; until then send from another address.";
const LOOK_UP = 'https://check.spamhaus.org';

interface Meaning {
  name: string | null;
  cure: string;
}

/** The lists that a combined list of Spamhaus consists of, the gravest first. */
const spamhaus: readonly (readonly [codes: RegExp, meaning: Meaning])[] = [
  [
    /^127\.0\.0\.(?:2|9)$/,
    {
      name: 'SBL, spam was seen from it',
      cure: `Find whose mail it was (posthorn reputation, complaints) and stop it, then ask to be taken off at ${LOOK_UP}. The owner of the network often has to ask.`,
    },
  ],
  [
    /^127\.0\.0\.3$/,
    {
      name: 'CSS, mail like that of spammers was seen from it',
      cure: `Stop mail to old lists, check the host name and its PTR (line \`name\`), then take the address off at ${LOOK_UP}; it also ends by itself some days after the cause.`,
    },
  ],
  [
    /^127\.0\.0\.[4-7]$/,
    {
      name: 'XBL, a machine behind it is infected or an open proxy',
      cure: `Some program behind this address connects to spam traps: search this machine and, behind a NAT, all that share it. Allow outbound port 25 to Posthorn alone, then take the address off at ${LOOK_UP}.`,
    },
  ],
  [
    /^127\.0\.0\.1[01]$/,
    {
      name: 'PBL, a network that is not expected to send mail itself',
      cure: `This is no spam listing: the provider or Spamhaus entered the whole network, as of dial-up lines. If the address is fixed, set its PTR record and take it off at ${LOOK_UP}; otherwise send through the provider's relay (\`delivery.routes\`).`,
    },
  ],
];

/** Returns the meaning of the gravest code, if the list is known. */
function meaningOf(list: string, text: string): Meaning {
  const codes = text.split(', ');
  const known = /(?:^|\.)spamhaus\.(?:org|net)$/i.test(list)
    ? spamhaus.find(([pattern]) => codes.some((code) => pattern.test(code)))
    : undefined;
  return known?.[1] ?? { name: null, cure: GENERAL_CURE };
}
