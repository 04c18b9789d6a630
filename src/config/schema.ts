/** Every setting: type, default and a sentence. `config show`, docs/configuration.md and config/posthorn.yaml are made from this tree too. */
import { hostname } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { BLOCKED_EXTENSIONS } from '../base/blocked-extensions.ts';
import { postgresUrlFault } from '../base/postgres-url.ts';
import { isNodeName, parseEndpoint } from './endpoint.ts';
import {
  bearerToken,
  count,
  duration,
  filePath,
  flag,
  hostName,
  ipNetwork,
  list,
  listenAddress,
  listenPort,
  mailAddress,
  oneOf,
  unset,
  size,
  text,
  webAddress,
  map,
  matching,
  orUnknown,
  group,
  notes,
  setting,
  type SettingNote,
} from './kind.ts';
import { deliverySettings } from './delivery-settings.ts';

const AMOUNT = { error: 'a whole number from 1' };
const amount = z.int(AMOUNT).min(1, AMOUNT);
const PLAN_FORM = '{ requestsPerMinute, mailsPerDay, mailsPerMonth }';
const plan = z.strictObject(
  {
    requestsPerMinute: amount,
    mailsPerDay: amount.nullable().default(null),
    mailsPerMonth: amount.nullable().default(null),
  },
  { error: orUnknown(PLAN_FORM) },
);

/** A plan: what an account may ask of the API. `null` mails mean no limit. */
type Plan = Readonly<z.output<typeof plan>>;

const requestsOnly = (requestsPerMinute: number): Plan => ({
  requestsPerMinute,
  mailsPerDay: null,
  mailsPerMonth: null,
});

/** Plans that are always there; one of the same name in the settings takes its place. `unlimited` is a number too, since headers show it. */
const BUILT_IN_PLANS: Readonly<Record<string, Plan>> = {
  starter: requestsOnly(120),
  standard: requestsOnly(600),
  pro: requestsOnly(6000),
  unlimited: requestsOnly(1_000_000),
};

const plans = map(plan, {
  expected: PLAN_FORM,
  key: 'a plan name of lower-case letters, digits and hyphens',
  isKey: (name) => /^[a-z][a-z0-9-]{0,31}$/.test(name),
});

function mailHostPort(written: string): string | null {
  const endpoint = parseEndpoint(written);
  return endpoint?.port == null ? null : written.toLowerCase();
}

/** Returns a URL of a database, or null. A password would be shown wherever the URL is. */
function databaseUrl(written: string): string | null {
  if (/^sqlite:[^:]/.test(written)) return written;
  return postgresUrlFault(written) === null ? written : null;
}

export const settings = group(
  '',
  {
    dataDir: setting(
      filePath(),
      './data',
      'Folder of the database, the keys and the command socket; relative to the working directory.',
    ),
    http: group('The API.', {
      host: setting(listenAddress(), '127.0.0.1', 'Address the API listens on.'),
      port: setting(listenPort(), 8025, 'Port the API listens on; 0 takes a free one.'),
      publicUrl: unset(
        webAddress(),
        'Address under which recipients and callers reach this server; links in mail and the OpenAPI document begin with it. Until it is set, no mail is tracked.',
        { fallbackText: '`http://127.0.0.1:<http.port>`, https with `http.tls`' },
      ),
      trustedProxies: setting(
        list(ipNetwork(), 100),
        [],
        'Proxies whose X-Forwarded-For header is believed: addresses or CIDR ranges.',
      ),
      tls: setting(
        flag(),
        false,
        'If true, the API itself speaks HTTPS, with the certificate of `tls.certFile`, which it needs.',
      ),
    }),
    tls: group(
      'The certificate of the SMTP listeners, and of the API if `http.tls` is on, which needs both. Without them the SMTP listeners have that of `posthorn tls install`, else one signed by itself. Files are read again within a minute after they change.',
      {
        certFile: unset(filePath(), 'PEM file with the certificate chain, which the user of the service can read.'),
        keyFile: unset(filePath(), 'PEM file with the private key that belongs to `tls.certFile`.'),
      },
      ({ certFile, keyFile }) =>
        (certFile === null) === (keyFile === null)
          ? null
          : { member: certFile === null ? 'certFile' : 'keyFile', expected: 'certFile and keyFile both, or neither' },
    ),
    smtp: group('The name of this server in SMTP, and its listeners.', {
      hostname: unset(
        hostName(),
        'Name of this host in EHLO and Received; it should resolve to our address and back.',
        { fallbackText: "the system's fully qualified name" },
      ),
      operatorAddress: unset(
        mailAddress(),
        'Mail address of the operator. It gets mail to postmaster@ and abuse@ that is not a report, and notices without a better recipient.',
      ),
      mx: group('The listener for bounces and replies.', {
        host: setting(listenAddress(), '0.0.0.0', 'Address the listener for bounces binds to.'),
        port: unset(listenPort(), 'Port of the listener for bounces; 0 takes a free one.', {
          fallbackText: '25, or 2525 when not privileged',
        }),
      }),
      submission: group('The listener for applications that speak only SMTP.', {
        host: setting(listenAddress(), '127.0.0.1', 'Address the submission listeners bind to.'),
        port: unset(listenPort(), 'Port for submission with STARTTLS; 0 takes a free one.', {
          fallbackText: '587, or 2587 when not privileged',
        }),
        tlsPort: unset(listenPort(), 'Port for submission with TLS from the start; 0 takes a free one.', {
          fallbackText: '465, or 2465 when not privileged',
        }),
        trustedNetworks: setting(
          list(ipNetwork(), 100),
          [],
          'Clients that may submit without TLS, and with `trustedKey` without signing in: addresses or CIDR ranges.',
        ),
        trustedKey: unset(
          matching('the id of an API key', /^key_[0-9a-z]{26}$/),
          'Key that clients of the trusted networks send with when they do not sign in.',
        ),
        clientConnections: setting(
          count(0, 100_000),
          1000,
          'Connections that clients may have at once on each of the two ports, beside the 500 of strangers. Clients are the addresses of the trusted networks, and those from which a program has signed in within the last hour.',
        ),
        clientConnectionsPerMinute: unset(
          count(1, 1_000_000),
          'Connections that clients may make in a minute from one address.',
          { fallbackText: 'no limit' },
        ),
        notify: setting(
          oneOf('sender', 'operator', 'none'),
          'sender',
          'Recipient of the notice about a final failure of a submitted mail: `sender` is the sender of its envelope if that domain is verified, else the operator.',
        ),
      }),
    }),
    delivery: deliverySettings,
    domains: group('Sending domains.', {
      grace: setting(
        duration('0s', '30d'),
        '72h',
        'How long a verified domain keeps sending after a required DNS record was found missing or wrong; `0s` refuses its mail at once. A change also applies to running countdowns.',
      ),
    }),
    simulator: group('Simulated mail, which never leaves this server.', {
      domain: setting(
        hostName(),
        'simulator.posthorn.test',
        'Domain whose recipients play a fixed part (delivered@, bounced@, ...) without a network.',
      ),
    }),
    tracking: group('Opens, clicks and unsubscribe links.', {
      domainHosts: unset(
        flag(),
        'If true, the links of a sending domain lead to `track.<domain>` once DNS leads that name to this server. With https each of these names needs a certificate.',
        { fallbackText: 'true if `http.publicUrl` is plain http' },
      ),
      storeIp: setting(
        oneOf('full', 'truncated', 'none'),
        'full',
        'How much of the address of a person who opens or clicks is stored; truncated is its /24, of IPv6 its /48.',
      ),
      storeUserAgent: setting(flag(), true, 'If true, the User-Agent of a person who opens or clicks is stored.'),
      scannersFile: unset(filePath(), 'File with the rules that tell machines from people.', {
        fallbackText: '`config/scanners.yaml` of the program',
      }),
    }),
    node: group('This server among those that use the same PostgreSQL database (docs/several-nodes.md).', {
      name: unset(
        text('1 to 63 letters, digits, dots, hyphens and underscores', (written) =>
          isNodeName(written) ? written : null,
        ),
        'The name of this node, which no other node may have.',
        { fallbackText: 'the name of the machine' },
      ),
      roles: setting(
        list(oneOf('delivery', 'chores'), 2),
        ['delivery', 'chores'],
        'What this node does beside accepting mail and serving the dashboard: `delivery` sends mail and calls webhooks, `chores` may lead, which means the housekeeping.',
      ),
    }),
    storage: group('The database.', {
      url: unset(
        text('sqlite:<path of the file>, or postgres://<user>@<host>/<database> without a password', databaseUrl),
        'The database to use: a file, or PostgreSQL 15 or later (docs/postgresql.md).',
        { fallbackText: '`sqlite:<dataDir>/posthorn.db`' },
      ),
      password: unset(
        matching('a password of 1 to 1024 characters', /^.{1,1024}$/s),
        'Password of the user of a PostgreSQL database.',
        { secret: true },
      ),
      passwordFile: unset(
        filePath(),
        'File with that password, instead of `storage.password`; its last line end is not part of it.',
      ),
      minFreeBytes: setting(
        size('0B', '1TiB'),
        '512MiB',
        'Free disk space under which new mail is refused; delivery goes on.',
      ),
    }),
    idempotency: group('Repeated requests.', {
      onMismatch: setting(
        oneOf('replay', 'error'),
        'replay',
        'The answer to a known Idempotency-Key with another body: the first answer again, or an error 409.',
      ),
    }),
    limits: group('Limits of one request.', {
      recipients: setting(count(1, 1000), 50, 'Distinct addresses in to, cc and bcc of one message.'),
      bulkRecipients: setting(count(1, 100_000), 1000, 'Entries of one bulk send.'),
      attachments: setting(count(0, 1000), 50, 'Attachments of one message.'),
      blockedExtensions: setting(
        list(
          text('a file extension without its dot', (written) =>
            /^[a-z0-9_-]{1,20}$/i.test(written) ? written.toLowerCase() : null,
          ),
          1000,
        ),
        BLOCKED_EXTENSIONS,
        'Extensions of attachments that are refused.',
      ),
      htmlBytes: setting(size('1KiB', '64MiB'), '5MiB', 'Size of the html body in UTF-8.'),
      textBytes: setting(size('1KiB', '64MiB'), '5MiB', 'Size of the text body in UTF-8.'),
      messageBytes: setting(size('1KiB', '128MiB'), '25MiB', 'Size of one message after MIME encoding.'),
      bodyBytes: setting(size('1KiB', '256MiB'), '50MiB', 'Size of a request body, after decompression.'),
      singleBodyBytes: setting(size('1KiB', '256MiB'), '40MiB', 'Size of a request body that is not a bulk send.'),
    }),
    plans: setting(
      plans,
      {},
      'Plans by name: requests per minute of an account, and optionally mails per day and month.',
      {
        fallbackText:
          'starter 120, standard 600, pro 6000, unlimited 1000000 requests a minute; others are added to these',
      },
    ),
    retention: group('How long finished mail and its records are kept. Unfinished mail is never deleted.', {
      content: setting(duration('1h', '3650d'), '30d', 'How long bodies and attachments are kept.'),
      messages: setting(duration('1h', '3650d'), '90d', 'How long message records are kept.'),
      events: setting(duration('1h', '3650d'), '90d', 'How long events are kept.'),
      audit: setting(duration('1h', '3650d'), '365d', 'How long the audit log is kept.'),
      reports: setting(duration('1h', '3650d'), '30d', 'How long received bounce, complaint and TLS reports are kept.'),
      requestDetails: setting(
        duration('1h', '3650d'),
        '30d',
        'How long queries, texts of errors and redacted bodies of the request log are kept.',
      ),
    }),
    requestLog: group('The request log of the API.', {
      bodies: setting(
        oneOf('none', 'refused', 'all'),
        'refused',
        'Requests whose JSON body is kept, redacted: none, those that were refused or failed, or all.',
      ),
    }),
    log: group('The log on standard output.', {
      level: setting(oneOf('debug', 'info', 'warn', 'error'), 'info', 'The lowest level that is written.'),
      addresses: setting(
        oneOf('full', 'hashed'),
        'full',
        'Whether mail addresses are written; `hashed` puts the first 16 digits of their SHA-256 in the place of each, before the domain.',
      ),
      format: unset(oneOf('json', 'pretty'), 'One JSON object a line, or coloured lines for people.', {
        fallbackText: 'json, or pretty on a terminal',
      }),
    }),
    metrics: group('Figures for Prometheus, at `/metrics`.', {
      port: unset(listenPort(), 'Port of their own; 0 takes a free one.', {
        fallbackText: "none: they are on the API's port for `metrics.token`, and nowhere without one",
      }),
      host: setting(listenAddress(), '127.0.0.1', 'Address that `metrics.port` listens on.'),
      token: unset(bearerToken(), 'Token that a reader has to send as `Authorization: Bearer <token>`.', {
        fallbackText: 'none: any client that reaches `metrics.port` may read',
        secret: true,
      }),
    }),
    webhooks: group('Calls to the endpoints of customers.', {
      allowHttp: setting(flag(), false, 'If true, endpoints may use plain http and port 80.'),
      allowCidrs: setting(
        list(ipNetwork(), 100),
        [],
        'Private networks that endpoints may be in: addresses or CIDR ranges.',
      ),
    }),
    backup: group('Backups of a SQLite database, made by `posthorn backup create` and before it is migrated.', {
      dir: unset(
        // Relative, it would be another folder for a command than for the service.
        matching('a path from the root, such as /var/backups/posthorn', /^\//),
        'Folder that backups are made in; better on another disk than the data.',
        { fallbackText: '`<dataDir>/backups`' },
      ),
      keep: setting(count(1, 1000), 7, 'How many backups are kept; older ones are removed when a new one is complete.'),
      passphrase: unset(
        matching('a passphrase of 12 to 1024 characters', /^.{12,1024}$/s),
        'Passphrase under which the keys (`secret.key`) are put into backups.',
        { fallbackText: 'none: backups are made without the keys', secret: true },
      ),
      beforeMigration: setting(
        flag(),
        true,
        'If true, a backup is made before a new version changes the database; the last three of these are kept.',
      ),
    }),
    doctor: group('Outside services that `posthorn doctor` uses.', {
      mailHost: setting(
        text('host:port', mailHostPort),
        'gmail-smtp-in.l.google.com:25',
        'Mail host that is dialled to see whether outbound port 25 is open.',
      ),
      timeServer: setting(hostName(), 'pool.ntp.org', 'NTP server that the clock is compared with.'),
      blocklists: setting(
        list(hostName(), 20),
        ['zen.spamhaus.org', 'bl.spamcop.net', 'psbl.surriel.com'],
        'DNS block lists that are asked about our public addresses.',
      ),
      signedZone: setting(
        hostName(),
        'iana.org',
        'A zone with DNSSEC, whose address a validating resolver marks as secure.',
      ),
      brokenZone: setting(
        hostName(),
        'dnssec-failed.org',
        'A zone whose signatures are wrong, which a validating resolver refuses.',
      ),
    }),
    dashboard: group('The dashboard.', {
      port: unset(listenPort(), 'Port of the dashboard.', { fallbackText: '`http.port`' }),
      secondFactor: setting(
        oneOf('optional', 'administrators', 'everyone'),
        'optional',
        'Who must have a second factor. Without one they see only the page that switches it on.',
      ),
    }),
  },
  ({ http, tls }) =>
    http.tls && tls.certFile === null
      ? { member: 'http.tls', expected: 'false, or tls.certFile and tls.keyFile given' }
      : null,
);

/** The facts that defaults depend on; read from the process by surroundings.ts. */
export interface Surroundings {
  /** Working directory, the start of relative paths. */
  cwd: string;
  /** True if ports below 1024 can be bound (root, or CAP_NET_BIND_SERVICE). */
  privileged: boolean;
  terminal: boolean;
  hostname: string;
}

/** The second step: fills in values that depend on the machine or on other settings. Paths become absolute. */
export function decide(written: z.output<typeof settings>, around: Surroundings) {
  const { http, tls, smtp, storage, log, dashboard, tracking } = written;
  const absolute = (file: string): string => path.resolve(around.cwd, file);
  const port = (usual: number): number => (around.privileged ? usual : usual + 2000 + (usual === 25 ? 500 : 0));
  const dataDir = absolute(written.dataDir);
  const isPublicUrlChosen = http.publicUrl !== null;
  const publicUrl = http.publicUrl ?? `${http.tls ? 'https' : 'http'}://127.0.0.1:${http.port}`;
  return {
    ...written,
    dataDir,
    http: { ...http, publicUrl, isPublicUrlChosen },
    tracking: {
      ...tracking,
      domainHosts: tracking.domainHosts ?? publicUrl.startsWith('http:'),
      scannersFile: tracking.scannersFile === null ? null : absolute(tracking.scannersFile),
    },
    tls:
      tls.certFile === null || tls.keyFile === null
        ? null
        : { certFile: absolute(tls.certFile), keyFile: absolute(tls.keyFile) },
    smtp: {
      ...smtp,
      hostname: smtp.hostname ?? around.hostname,
      isHostnameChosen: smtp.hostname !== null,
      mx: { ...smtp.mx, port: smtp.mx.port ?? port(25), isPortChosen: smtp.mx.port !== null },
      submission: {
        ...smtp.submission,
        port: smtp.submission.port ?? port(587),
        tlsPort: smtp.submission.tlsPort ?? port(465),
        /** A default port may be in use by another program; then the listener is left out. */
        isPortChosen: smtp.submission.port !== null,
        isTlsPortChosen: smtp.submission.tlsPort !== null,
      },
    },
    delivery: {
      ...written.delivery,
      bounceRules: written.delivery.bounceRules.map(absolute),
      operatorsFile: written.delivery.operatorsFile === null ? null : absolute(written.delivery.operatorsFile),
    },
    node: { ...written.node, name: written.node.name ?? hostname().slice(0, 63) },
    storage: {
      ...storage,
      url: storage.url ?? `sqlite:${path.join(dataDir, 'posthorn.db')}`,
      passwordFile: storage.passwordFile === null ? null : absolute(storage.passwordFile),
    },
    plans: { ...BUILT_IN_PLANS, ...written.plans },
    log: { ...log, format: log.format ?? (around.terminal ? 'pretty' : 'json') },
    dashboard: { ...dashboard, port: dashboard.port ?? http.port },
    backup: {
      ...written.backup,
      dir: written.backup.dir ?? path.join(dataDir, 'backups'),
    },
  };
}

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** The settings as the program uses them: complete, frozen, durations in milliseconds, sizes in bytes. */
export type Config = DeepReadonly<ReturnType<typeof decide>>;

export interface SettingEntry {
  /** Path with dots: `http.port`. */
  path: string;
  note: SettingNote;
}

export function listSettings(schema: z.ZodType = settings, at: readonly string[] = []): SettingEntry[] {
  const note = notes.get(schema);
  if (note === undefined) throw new Error(`${at.join('.')} was not declared by setting() or group()`);
  if (note.is === 'setting') return [{ path: at.join('.'), note }];
  return Object.entries(note.members).flatMap(([name, member]) => listSettings(member, [...at, name]));
}

/** Fills in the default of each absent or null setting, so that defaults pass the same checks. The schema reports unknown members. */
export function complete(written: unknown, schema: z.ZodType = settings): unknown {
  const note = notes.get(schema);
  if (note?.is === 'setting') return written ?? note.fallback;
  const from = written ?? {};
  if (note === undefined || typeof from !== 'object' || Array.isArray(from)) return written;
  const members = Object.entries(note.members).map(
    ([name, member]) => [name, complete(Reflect.get(from, name), member)] as const,
  );
  return { ...from, ...Object.fromEntries(members) };
}
