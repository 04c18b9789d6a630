/** The settings of the delivery engine. */
import { z } from 'zod';
import {
  count,
  dnsServer,
  duration,
  filePath,
  flag,
  group,
  list,
  map,
  oneOf,
  unset,
  remotePort,
  routes,
  setting,
} from './kind.ts';
import { mailRules } from './mail-rules.ts';
import { shapingRules } from './shaping.ts';
import { sources } from './sources.ts';

const TLS_NEEDS = 'none, opportunistic, required, verified or dane';

export const deliverySettings = group('The delivery engine.', {
  remotePort: setting(remotePort(), 25, 'Port that mail hosts are dialled on.'),
  dnsServers: setting(list(dnsServer(), 16), [], 'DNS servers to ask, each an IP address with an optional port.', {
    fallbackText: "the system's, which are read again when they change",
  }),
  routes: setting(
    routes(),
    {},
    'Destination of mail by domain, or `*` for all others: `mx` (the hosts that DNS names), `discard`, `hold`, a smarthost `host:port`, or `{ host, port, tls, user, password }` with tls opportunistic, required, none or implicit.',
    { secret: true },
  ),
  allowPrivate: setting(
    flag(),
    false,
    'If true, mail hosts with loopback, private or link-local addresses are dialled.',
  ),
  dnssecResolver: setting(
    flag(),
    false,
    'Set to true if the DNS servers validate DNSSEC and are reached over a path that cannot be tampered with, which DANE (RFC 7672) needs. Then hosts that publish TLSA records get mail only over TLS that matches them.',
  ),
  ipv6: setting(
    oneOf('auto', 'never', 'always'),
    'auto',
    'When mail hosts are dialled over IPv6; `auto` does so only from an IPv6 address whose names agree in both directions.',
  ),
  sources: setting(
    sources(),
    [],
    'Addresses of this machine that mail leaves from: each with a name, `ipv4`, `ipv6` or both, its name in EHLO (else `smtp.hostname`), its pool (`default`), `warmUp` (true, or the day it began) if receivers do not know it yet, and with several nodes the `node` that has the address; every node may use one without. A stream names its pool; one without sources uses the default pool.',
    { fallbackText: 'none: the system chooses the address' },
  ),
  maxConnections: setting(
    count(1, 50_000),
    1000,
    'Outgoing connections open at once, over all lanes, idle ones included; keep it under the limit of file descriptors. Of 10 or more, broadcasts of one account leave a tenth to other mail; of 20 or more, one account leaves a twentieth, and so do all broadcasts together, and the last fiftieth is for accounts that have none.',
  ),
  maxAge: setting(duration('1m', '30d'), '72h', 'How long a mail is tried before it bounces as expired.'),
  smtputf8: setting(flag(), false, 'If true, addresses with a non-ASCII local part are accepted (SMTPUTF8).'),
  bounceRules: setting(
    list(filePath(), 20),
    [],
    'Files with your own rules for reading refusals, which are asked before the shipped ones; relative to the working directory.',
  ),
  retry: group('When a deferred mail is tried again.', {
    schedule: setting(
      list(duration('1s', '7d'), 100, 1),
      ['1m', '5m', '15m', '30m', '1h', '2h', '4h'],
      'Waits after the first, second, ... try, each varied by 20 %; the last one repeats.',
    ),
  }),
  lane: group(
    'How many connections one destination gets.',
    {
      initialConcurrency: setting(count(1, 1000), 2, 'Connections a lane starts with.'),
      maxConcurrency: setting(count(1, 1000), 10, 'Connections a lane can grow to while all goes well.'),
    },
    ({ initialConcurrency, maxConcurrency }) =>
      initialConcurrency <= maxConcurrency
        ? null
        : { member: 'maxConcurrency', expected: `at least initialConcurrency (${initialConcurrency})` },
  ),
  mtaSts: setting(
    flag(),
    true,
    'If true, the MTA-STS policies of recipient domains (RFC 8461) are looked up and obeyed.',
  ),
  tls: setting(
    map(z.enum(['none', 'opportunistic', 'required', 'verified', 'dane'], { error: TLS_NEEDS }), {
      expected: TLS_NEEDS,
      key: 'a domain in lower case',
      isKey: (name) => /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/.test(name),
    }),
    {},
    'The TLS that connections to the mail hosts of a recipient domain need, whatever its policies say: none (no TLS), opportunistic, required, verified (a trusted certificate of that name), or dane (TLSA records that match, with `delivery.dnssecResolver`).',
  ),
  shaping: setting(
    shapingRules(),
    [],
    'Rules for lanes that get replies of a kind too often, each with a name, the replies that it matches (class, reason, code such as 421, 4xx or 5.7.1, text as a regular expression, operator), how many within which time, and the action: slow (half the connections), pause (for) or alarm; with dryRun only a log line. One takes the place of that in `config/limits.yaml` with its name.',
  ),
  limits: setting(
    mailRules(),
    [],
    'Rules for mail: what it matches (absent: any), how many may go in an hour and a day, together or of `each` apart, and, without operator and source, the waits between tries and the age at which it is given up, of the first rule that has them.',
  ),
  operatorsFile: unset(
    filePath(),
    'File with the table of large operators of mail hosts, which replaces the shipped one.',
    { fallbackText: '`config/operators.yaml` of the program' },
  ),
  timeouts: group('How long each phase of an SMTP attempt may take (RFC 5321 section 4.5.3.2).', {
    connect: setting(duration('10ms', '10m'), '30s', 'Limit of the TCP connect.'),
    banner: setting(duration('10ms', '30m'), '300s', 'Limit of the wait for the greeting.'),
    bannerWithOthers: setting(
      duration('10ms', '30m'),
      '120s',
      'Limit of the wait for the greeting while other hosts remain to be tried.',
    ),
    tls: setting(duration('10ms', '30m'), '60s', 'Limit of STARTTLS and the TLS handshake.'),
    ehlo: setting(duration('10ms', '30m'), '300s', 'Limit of the wait for the answer to EHLO.'),
    auth: setting(duration('10ms', '30m'), '120s', 'Limit of the sign-in at a smarthost.'),
    mail: setting(duration('10ms', '30m'), '300s', 'Limit of the wait for the answer to MAIL FROM.'),
    rcpt: setting(duration('10ms', '30m'), '300s', 'Limit of the wait for the answer to RCPT TO.'),
    data: setting(duration('10ms', '30m'), '120s', 'Limit of the wait for the answer to DATA.'),
    block: setting(duration('10ms', '30m'), '180s', 'Limit of the time in which one block of the mail must be taken.'),
    dot: setting(duration('10ms', '30m'), '600s', 'Limit of the wait for the answer to the final dot.'),
    attempt: setting(duration('10ms', '2h'), '30m', 'Limit of a whole attempt over all hosts, up to its final dot.'),
  }),
  connection: group('How long a connection is used for more mails.', {
    idle: setting(duration('10ms', '5m'), '5s', 'How long an idle connection is kept for the next mail.'),
    maxMessages: setting(count(1, 100_000), 100, 'Mails sent over one connection.'),
    maxAge: setting(duration('1s', '1h'), '300s', 'Age from which a connection gets no further mail.'),
  }),
});
