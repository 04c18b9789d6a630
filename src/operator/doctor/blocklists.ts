/** Checks whether block lists (RFC 5782) list our public IPv4 addresses. */
import { isIPv4 } from 'node:net';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import { outsideAddresses } from './name.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine'>;

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

export async function blocklists(probes: Needs): Promise<readonly Verdict[]> {
  const lists = probes.config.doctor.blocklists;
  if (lists.length === 0) return [ok('no list is asked: `doctor.blocklists` is empty')];
  const listings = await askLists(probes, await outsideAddresses(probes));
  if (listings.length === 0) return [ok('this machine has no public IPv4 address of its own, so no list is asked')];
  const ips = [...new Set(listings.map(({ ip }) => ip))];
  return orWell(listings.flatMap(verdictOn), `${ips.join(', ')} is on none of ${lists.join(', ')}`);
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
