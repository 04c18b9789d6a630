/** One fault at a time on a healthy installation: each is found, by the right check and with a cure that ends it, and no other is. */
import assert from 'node:assert/strict';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { addToStats } from '../../../src/events/stats.ts';
import { checkNames, examine, type CheckName } from '../../../src/operator/doctor/doctor.ts';
import type { Status } from '../../../src/operator/doctor/probes.ts';
import type { StatRow } from '../../../src/storage/tables.ts';
import { HOST, IP, Patient } from './healthy.ts';

type Fault = [
  what: string,
  make: (patient: Patient) => void | Promise<void>,
  check: CheckName,
  status: Exclude<Status, 'ok'>,
  why: RegExp,
  cure: RegExp,
  /** Checks that the same fault shows up in, besides. */
  ...also: CheckName[],
];

const DAY_MS = 86_400_000;

const faults: Fault[] = [
  [
    'the settings were edited, and a reload is enough',
    (p) => {
      p.written = { kind: 'edited', changes: { applied: ['delivery.routes'], needRestart: [] } };
    },
    'settings',
    'warning',
    /edited and not in force yet: delivery\.routes$/,
    /systemctl reload posthorn/,
  ],
  [
    'the settings were edited, and need a restart',
    (p) => {
      p.written = { kind: 'edited', changes: { applied: ['log.level'], needRestart: ['http.port'] } };
    },
    'settings',
    'warning',
    /edited and not in force yet: log\.level, http\.port$/,
    /systemctl restart posthorn/,
  ],
  [
    'the settings were edited with a mistake',
    (p) => {
      p.written = { kind: 'bad', mistakes: ['http.port: expected a port, found "eighty"'] };
    },
    'settings',
    'failed',
    /the next start would fail: http\.port: expected a port/,
    /posthorn config check/,
  ],
  [
    'outbound port 25 is blocked',
    (p) => {
      without(p.greetings, '8.8.4.4:25');
    },
    'outbound',
    'failed',
    /mx\.target\.example \(8\.8\.4\.4\), port 25 does not answer/,
    /open outbound TCP port 25.*smarthost/,
  ],
  [
    'outbound port 25 is rejected',
    (p) => {
      p.greetings['8.8.4.4:25'] = { kind: 'refused', why: 'ECONNREFUSED' };
    },
    'outbound',
    'failed',
    /cannot be reached: ECONNREFUSED/,
    /open outbound TCP port 25/,
  ],
  [
    'a proxy answers on port 25',
    (p) => {
      p.greetings['8.8.4.4:25'] = { kind: 'greeted', line: 'HTTP/1.1 400 Bad Request', ms: 1 };
    },
    'outbound',
    'failed',
    /is not a mail host: HTTP/,
    /open outbound/,
  ],
  [
    'mail hosts refuse our address',
    (p) => {
      p.greetings['8.8.4.4:25'] = { kind: 'greeted', line: '554 5.7.1 your IP is listed', ms: 1 };
    },
    'outbound',
    'warning',
    /refuses us: 554 5\.7\.1/,
    /block list/,
  ],
  [
    'DNS knows nothing of the Internet',
    (p) => {
      p.zones['mx.target.example A'] = [];
    },
    'outbound',
    'failed',
    /mx\.target\.example has no address in DNS/,
    /offline.*doctor\.mailHost/,
  ],
  [
    'a smarthost refuses the password',
    (p) => {
      p.settings['delivery'] = {
        routes: { 'dest.example': { host: '9.1.1.2', port: 587, user: 'me', password: 'x' } },
      };
      p.relays['9.1.1.2'] = { kind: 'refused', why: '535 5.7.8 bad credentials' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.2, port 587, refuses the password of me \(route dest\.example\): 535/,
    /Correct `user` and `password`/,
  ],
  [
    'a smarthost cannot be reached',
    (p) => {
      p.settings['delivery'] = {
        routes: { 'dest.example': { host: '9.1.1.2', port: 587, user: 'me', password: 'x' } },
      };
      p.relays['9.1.1.2'] = { kind: 'unreachable', why: 'ENETUNREACH' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.2, port 587, cannot be reached: ENETUNREACH/,
    /Is the smarthost running/,
  ],
  [
    'the address of a source is not on this machine',
    (p) => {
      p.settings['delivery'] = { sources: [{ name: 'out1', ipv4: '192.0.2.77' }] };
    },
    'settings',
    'failed',
    /192\.0\.2\.77 of out1 is not on this machine/,
    /Correct `delivery\.sources`/,
  ],
  [
    'a proxy is not trusted',
    (p) => {
      p.proxies = ['10.0.0.2'];
    },
    'settings',
    'warning',
    /10\.0\.0\.2 sends X-Forwarded-For/,
    /add 10\.0\.0\.2 to `http\.trustedProxies`/,
  ],
  ...(
    [
      ['is not set', {}, /is not set: opens and clicks of mail are not tracked/],
      ['is of this machine', { publicUrl: 'https://127.0.0.1:8025' }, /opens on this machine only/],
      ['is of a private network', { publicUrl: 'https://10.1.2.3' }, /opens in a private network only/],
    ] as const
  ).map(([what, http, why]): Fault => [
    `the address for links ${what}`,
    (p) => void (p.settings['http'] = http),
    'settings',
    'warning',
    why,
    /address under which recipients reach this server/,
  ]),
  [
    'the smarthost of one domain is down',
    (p) => {
      p.settings['delivery'] = { routes: { 'dest.example': '9.1.1.2:587' } };
      p.relays['9.1.1.2'] = { kind: 'failed', why: 'ECONNREFUSED' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.2, port 587, cannot be used: ECONNREFUSED/,
    /Is the smarthost running/,
  ],
  [
    'a smarthost of all mail does not offer the TLS that its route asks for',
    (p) => {
      p.settings['delivery'] = { routes: { '*': { host: '9.1.1.1', port: 25, tls: 'required' } } };
      p.relays['9.1.1.1'] = { kind: 'failed', why: 'the server does not offer STARTTLS' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.1, port 25, cannot be used: the server does not offer STARTTLS/,
    /offers no STARTTLS here: use its port/,
  ],
  [
    'a smarthost has no address',
    (p) => {
      p.settings['delivery'] = { routes: { 'dest.example': 'relay.example:587' } };
      p.zones['relay.example AAAA'] = ['2a01:4f8::77'];
    },
    'outbound',
    'failed',
    /the smarthost relay\.example has no address in DNS/,
    /Correct its host/,
  ],
  [
    'more smarthosts than are tried',
    (p) => {
      const routes = Array.from({ length: 12 }, (_, n) => [`d${String(n)}.example`, `9.1.1.${String(n)}:25`]);
      p.settings['delivery'] = { routes: Object.fromEntries(routes) as object };
    },
    'outbound',
    'warning',
    /^only the first 10 of 12 smarthosts and logins were tried$/,
    /posthorn queue lanes/,
  ],
  [
    'a smarthost speaks no TLS on the port of the route',
    (p) => {
      p.settings['delivery'] = {
        routes: { 'dest.example': { host: '9.1.1.2', port: 587, tls: 'implicit', user: 'me', password: 'x' } },
      };
      const why = 'TLS failed: the other side does not speak TLS on this port (wrong version number)';
      p.relays['9.1.1.2'] = { kind: 'failed', why };
    },
    'outbound',
    'failed',
    /does not speak TLS on this port/,
    /Set `tls` of the route as the port wants it: `implicit` is for port 465/,
  ],
  [
    'a smarthost has no TLS',
    (p) => {
      p.settings['delivery'] = {
        routes: { 'dest.example': { host: '9.1.1.2', port: 587, user: 'me', password: 'x' } },
      };
      p.relays['9.1.1.2'] = { kind: 'failed', why: 'the server does not offer STARTTLS' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.2, port 587, does not let me \(route dest\.example\) sign in: the server does not offer STARTTLS/,
    /offers no STARTTLS here: use its port/,
  ],
  [
    'a password goes in clear',
    (p) => {
      p.settings['delivery'] = {
        routes: { 'dest.example': { host: '9.1.1.2', port: 25, tls: 'none', user: 'me', password: 'x' } },
      };
    },
    'outbound',
    'warning',
    /"dest\.example" says `tls: none`, so its password goes to 9\.1\.1\.2 in clear/,
    /tls: required/,
  ],
  [
    'the smarthost is down',
    (p) => {
      p.settings['delivery'] = { routes: { '*': '9.1.1.1:587' } };
      p.relays['9.1.1.1'] = { kind: 'failed', why: 'no answer within 8 s' };
    },
    'outbound',
    'failed',
    /9\.1\.1\.1, port 587, cannot be used: no answer/,
    /Is the smarthost running/,
  ],
  [
    'no PTR',
    (p) => {
      without(p.zones, `${IP} PTR`);
    },
    'name',
    'failed',
    /5\.9\.10\.11 has no name/,
    /reverse record \(PTR\) to mail\.posthorn\.example/,
  ],
  [
    "the PTR is the provider's",
    (p) => {
      p.zones[`${IP} PTR`] = ['static.11.10.9.5.provider.example'];
    },
    'name',
    'warning',
    /is called static\.11.*greets as mail\.posthorn/,
    /PTR\) to mail\.posthorn/,
  ],
  [
    'the name leads elsewhere',
    (p) => {
      p.zones[`${HOST} A`] = ['5.9.99.99'];
      p.greetings['5.9.99.99:25'] = { kind: 'greeted', line: `220 ${HOST} ESMTP Posthorn`, ms: 1 };
    },
    'name',
    'failed',
    /leads to 5\.9\.99\.99, but this machine has 5\.9\.10\.11/,
    /Publish an A record/,
    'mx',
  ],
  [
    'the machine has moved, and bounces go where it was',
    (p) => {
      p.zones[`${HOST} A`] = ['5.9.99.99'];
    },
    'mx',
    'warning',
    /leads to 5\.9\.99\.99, which is not an address of this machine: bounces go there/,
    /See the line of `name`/,
    'name',
  ],
  [
    'the name is not in DNS',
    (p) => {
      p.zones[`${HOST} A`] = [];
    },
    'name',
    'failed',
    /has no address in DNS/,
    /Publish an A record for mail\.posthorn/,
    'mx',
  ],
  [
    'the name is an alias',
    (p) => {
      without(p.zones, `${HOST} A`);
      p.zones[`${HOST} CNAME`] = ['box.provider.example'];
      p.zones['box.provider.example A'] = [IP];
    },
    'name',
    'warning',
    /alias \(CNAME\) of box\.provider/,
    /A record .* instead of the CNAME/,
  ],
  [
    'smtp.hostname is not a full name',
    (p) => {
      p.settings['smtp'] = { hostname: 'box.localdomain' };
      p.zones['box.localdomain A'] = [IP];
      p.greetings[`${IP}:25`] = { kind: 'greeted', line: '220 box.localdomain ESMTP Posthorn', ms: 1 };
      p.certify('box.localdomain', p.office.clock.now());
    },
    'name',
    'failed',
    /not a fully qualified name/,
    /Set `smtp\.hostname`/,
    'domains',
  ],
  [
    'inbound port 25 is closed',
    (p) => {
      without(p.greetings, `${IP}:25`);
    },
    'mx',
    'failed',
    /port 25 of mail.* cannot be reached/,
    /open inbound TCP port 25/,
  ],
  [
    'another program has port 25',
    (p) => {
      p.greetings[`${IP}:25`] = { kind: 'greeted', line: '220 box.example ESMTP Postfix', ms: 1 };
    },
    'mx',
    'failed',
    /another program: 220 box\.example ESMTP Postfix/,
    /Stop that program/,
  ],
  [
    'another program with our name has port 25',
    (p) => {
      p.greetings[`${IP}:25`] = { kind: 'greeted', line: `220 ${HOST} ESMTP Postfix (Debian)`, ms: 1 };
    },
    'mx',
    'failed',
    /another program: 220 mail\.posthorn\.example ESMTP Postfix/,
    /docs\/beside-postfix\.md/,
  ],
  [
    'another program has port 25 and does not hand bounces over',
    (p) => {
      p.greetings[`${IP}:25`] = { kind: 'greeted', line: `220 ${HOST} ESMTP Postfix`, ms: 1 };
      p.settings['smtp'] = { hostname: HOST, mx: { host: '127.0.0.1', port: 2525 } };
      p.detour = { ok: false, why: 'port 25 of 5.9.10.11 did not take a bounce: 554 Relay access denied', ms: 9 };
    },
    'mx',
    'failed',
    /does not hand bounces over: port 25 of 5\.9\.10\.11 did not take a bounce: 554/,
    /docs\/beside-postfix\.md/,
  ],
  [
    'the MX listener has another port',
    (p) => {
      without(p.greetings, `${IP}:25`);
      p.settings['smtp'] = { hostname: HOST, mx: { port: 2525 } };
    },
    'mx',
    'warning',
    /we listen on port 2525/,
    /CAP_NET_BIND_SERVICE/,
  ],
  [
    'no MX for the return path',
    (p) => {
      without(p.zones, 'rp.shop.example MX');
    },
    'domains',
    'failed',
    /MX record of the return path at rp\.shop\.example is missing/,
    /Publish: the MX record of rp\.shop\.example with this value   \(all of them: posthorn domains records shop\.example\)/,
  ],
  [
    'SPF does not name us',
    (p) => {
      p.zones['rp.shop.example TXT'] = ['v=spf1 a:old.example -all'];
    },
    'domains',
    'failed',
    /SPF record at rp\.shop\.example is not as it should be: v=spf1 a:old/,
    /before its "all": v=spf1 a:old\.example a:mail\.posthorn\.example -all/,
  ],
  [
    'two SPF records',
    (p) => {
      p.zones['rp.shop.example TXT'] = ['v=spf1 a:mail.posthorn.example ~all', 'v=spf1 -all'];
    },
    'domains',
    'failed',
    /SPF record at rp\.shop\.example is there more than once: v=spf1 a:mail\.posthorn\.example ~all \| v=spf1 -all/,
    /^rp\.shop\.example may have only one of its 2 SPF records .* Keep this one and delete the other/,
  ],
  [
    'two DMARC records',
    (p) => {
      p.zones['_dmarc.shop.example TXT'] = ['v=DMARC1; p=none', 'v=DMARC1; p=reject'];
    },
    'domains',
    'warning',
    /DMARC record at _dmarc\.shop\.example is there more than once/,
    /Keep this one and delete the other: v=DMARC1; p=none/,
  ],
  [
    'a name with the domain twice',
    (p) => {
      p.zones['rp.shop.example.shop.example MX'] = p.zones['rp.shop.example MX'] ?? [];
      without(p.zones, 'rp.shop.example MX');
    },
    'domains',
    'failed',
    /MX record of the return path at rp\.shop\.example is at a name with the domain twice/,
    /is at rp\.shop\.example\.shop\.example, .* Rename it to rp there/,
  ],
  [
    'a tracking host at a name with the domain twice',
    (p) => {
      p.settings['http'] = { publicUrl: 'https://links.us.example' };
      p.settings['tracking'] = { domainHosts: true };
      p.zones['track.shop.example.shop.example CNAME'] = ['links.us.example'];
    },
    'domains',
    'warning',
    /alias of the tracking host at track\.shop\.example is at a name with the domain twice/,
    /Rename it to track there/,
  ],
  [
    'a tracking host whose target has the domain added',
    (p) => {
      p.settings['http'] = { publicUrl: 'https://links.us.example' };
      p.settings['tracking'] = { domainHosts: true };
      p.zones['track.shop.example CNAME'] = ['links.us.example.shop.example'];
    },
    'domains',
    'warning',
    /alias of the tracking host at track\.shop\.example .*: links\.us\.example\.shop\.example/,
    /^The web form has added the domain to the host\. Write links\.us\.example\. with a final dot/,
  ],
  [
    'a key that a web form has cut',
    (p) => {
      const name = Object.keys(p.zones).find((key) => key.endsWith('r._domainkey.shop.example TXT')) ?? '';
      p.zones[name] = [String(p.zones[name]?.[0]).slice(0, 255)];
    },
    'domains',
    'failed',
    /DKIM key at .* is cut off: v=DKIM1/,
    /two quoted strings/,
  ],
  [
    'an alias where a TXT record is wanted',
    (p) => {
      without(p.zones, 'rp.shop.example TXT');
      p.zones['rp.shop.example CNAME'] = ['parking.example'];
    },
    'domains',
    'failed',
    /SPF record at rp\.shop\.example cannot be there: the name is an alias/,
    /is an alias \(CNAME\) of parking\.example.*Delete the CNAME, then publish/,
  ],
  [
    'a domain has lost a record and sends for now',
    async (p) => {
      without(p.zones, 'rp.shop.example TXT');
      await p.office.deps.db.commit.transact((tx) =>
        tx.run(`UPDATE domains SET refused_at = ?`, [Date.parse('2026-02-03T09:30:00Z')]),
      );
    },
    'domains',
    'failed',
    /SPF record at rp\.shop\.example is missing; mail from it keeps going until 2026-02-03T09:30:00\.000Z$/,
    /Publish: the TXT record of rp\.shop\.example with this value[^]*\nv=spf1/,
  ],
  [
    'a domain has lost a record and is refused',
    async (p) => {
      without(p.zones, 'rp.shop.example TXT');
      await p.office.deps.db.commit.transact((tx) =>
        tx.run(`UPDATE domains SET status = 'failed', refused_at = ?`, [Date.parse('2026-01-31T09:30:00Z')]),
      );
    },
    'domains',
    'failed',
    /SPF record at rp\.shop\.example is missing; mail from it is refused since 2026-01-31T09:30:00\.000Z$/,
    /Publish: the TXT record of rp\.shop\.example with this value[^]*\nv=spf1/,
  ],
  [
    'the DKIM key is gone',
    (p) => {
      removeRsaKey(p);
    },
    'domains',
    'failed',
    /DKIM key at .*_domainkey\.shop\.example is missing/,
    /Publish: the TXT record of .*_domainkey\.shop\.example with this value[^]*\nv=DKIM1/,
  ],
  [
    'no DMARC record',
    (p) => {
      without(p.zones, '_dmarc.shop.example TXT');
    },
    'domains',
    'warning',
    /DMARC record at _dmarc\.shop\.example is missing/,
    /v=DMARC1; p=none/,
  ],
  [
    'DNS of a domain does not answer',
    (p) => {
      p.zones['rp.shop.example MX'] = 'SERVFAIL';
    },
    'domains',
    'warning',
    /cannot be looked up/,
    /resolver/,
  ],
  [
    'nobody consents to DMARC reports',
    async (p) => {
      await p.addDomain('other.example', { returnPath: 'rp.bounces.test' });
      without(p.zones, 'other.example._report._dmarc.rp.bounces.test TXT');
    },
    'domains',
    'warning',
    /other\.example\._report\._dmarc\.rp\.bounces\.test is missing/,
    /v=DMARC1/,
  ],
  [
    'a bounce is not heard',
    (p) => {
      p.selfTest = { ok: false, why: 'not recognised within 5 s', ms: 5000 };
    },
    'bounce',
    'failed',
    /not recognised within 5 s/,
    /log/,
  ],
  [
    'no bounce can have an address at a host name without a dot',
    (p) => {
      p.settings['smtp'] = { hostname: 'box' };
      p.zones['box A'] = [IP];
      p.greetings[`${IP}:25`] = { kind: 'greeted', line: '220 box ESMTP Posthorn', ms: 1 };
      p.certify('box', p.office.clock.now());
      p.selfTest = { ok: false, why: 'the MX listener did not take a bounce: 553 5.1.3 this is not an address', ms: 9 };
    },
    'bounce',
    'failed',
    /553 5\.1\.3/,
    /No mail can have an address at box, which has no dot\. Set `smtp\.hostname`; see the line of `name`/,
    'name',
    'domains',
  ],
  [
    'no bounce is taken for lack of room',
    (p) => {
      p.selfTest = { ok: false, why: 'the MX listener did not take a bounce: 452 4.3.1 there is no room now', ms: 9 };
    },
    'bounce',
    'failed',
    /452 4\.3\.1/,
    /see the line of `disk`/,
  ],
  ...(
    [
      ['127.0.0.2, 127.0.0.10', 'failed', /SBL, spam was seen from it/, /posthorn reputation/],
      ['127.0.0.3', 'failed', /CSS, mail like that of spammers/, /old lists/],
      ['127.0.0.4', 'failed', /XBL, a machine behind it is infected/, /search this machine/],
      ['127.0.0.11', 'failed', /PBL, a network that is not expected/, /no spam listing.*PTR record.*relay/],
      ['127.255.255.252', 'warning', /there is no list of this name/, /mistyped/],
      ['127.255.255.254', 'warning', /through a public resolver/, /`delivery\.dnsServers`/],
      ['127.255.255.255', 'warning', /asks too often/, /resolver of your own/],
    ] as const
  ).map(([codes, status, why, cure]): Fault => [
    `zen.spamhaus.org says ${codes}`,
    (p) => {
      p.lists = ['zen.spamhaus.org'];
      p.zones[`${IP.split('.').reverse().join('.')}.zen.spamhaus.org A`] = codes.split(', ');
    },
    'blocklists',
    status,
    why,
    cure,
  ]),
  [
    'the clock is late',
    (p) => {
      p.timeOffset = 300_000;
    },
    'clock',
    'failed',
    /the clock is 300 s behind/,
    /systemd-timesyncd/,
  ],
  [
    'the clock is a little fast',
    (p) => {
      p.timeOffset = -7000;
    },
    'clock',
    'warning',
    /7 s ahead/,
    /systemd-timesyncd/,
  ],
  [
    'no time server answers',
    (p) => {
      p.timeOffset = null;
    },
    'clock',
    'warning',
    /cannot be held against time\.example/,
    /UDP 123/,
  ],
  [
    'the clock was set back',
    async (p) => {
      await p.office.deps.db.commit.transact((tx) =>
        tx.run(
          `INSERT INTO events (id, account_id, type, at, test, message_id, delivery_id, status, machine, detail_json) VALUES ('evt_x', 'a', 'sent', ?, 0, 'm', 'd', 'queued', 0, '{}')`,
          [p.office.clock.now() + DAY_MS],
        ),
      );
    },
    'clock',
    'failed',
    /86400 s from the future/,
    /systemd-timesyncd/,
  ],
  [
    'there is no backup',
    (p) => {
      p.backups = { kind: 'read', dir: '/backups', count: 0, newest: null };
    },
    'backups',
    'warning',
    /no backup in \/backups/,
    /posthorn backup create/,
  ],
  [
    'last night there was no backup',
    (p) => {
      aged(p, 1.6 * DAY_MS);
    },
    'backups',
    'warning',
    /is 38 hours old/,
    /posthorn-backup\.timer/,
  ],
  [
    'for a long time there was no backup',
    (p) => {
      aged(p, 9 * DAY_MS);
    },
    'backups',
    'failed',
    /is 9 days old/,
    /posthorn-backup\.timer/,
  ],
  [
    'backups have no keys',
    (p) => {
      aged(p, 3_600_000, false);
    },
    'backups',
    'warning',
    /has no keys in it/,
    /backup\.passphrase/,
  ],
  [
    'a backup by hand has no keys',
    (p) => {
      p.settings['backup'] = { passphrase: 'correct horse battery' };
      aged(p, 3_600_000, false);
    },
    'backups',
    'warning',
    /has no keys in it/,
    /sudo systemctl start posthorn-backup/,
  ],
  [
    'backups cannot be read',
    (p) => {
      p.backups = { kind: 'unreadable', dir: '/backups', text: 'EACCES' };
    },
    'backups',
    'warning',
    /cannot be read: EACCES/,
    /rights of \/backups/,
  ],
  [
    'the disk is full',
    (p) => {
      p.machine = { ...p.machine, freeBytes: () => Promise.resolve(400 * 2 ** 20) };
    },
    'disk',
    'failed',
    /400 MiB free, below storage\.minFreeBytes \(512MiB\): new mail is refused/,
    /larger disk/,
  ],
  [
    'the disk of a database outside of the data folder is full',
    (p) => {
      p.settings['storage'] = { url: `sqlite:${p.folder}/own/posthorn.db` };
      const freeBytes = (dir: string): Promise<number> =>
        Promise.resolve((dir.endsWith('/own') ? 400 : 40_000) * 2 ** 20);
      p.machine = { ...p.machine, freeBytes };
    },
    'disk',
    'failed',
    /400 MiB free, below/,
    /give \S+\/own a larger disk/,
  ],
  [
    'the disk is nearly full',
    (p) => {
      p.machine = { ...p.machine, freeBytes: () => Promise.resolve(700 * 2 ** 20) };
    },
    'disk',
    'warning',
    /700 MiB free; at 512MiB/,
    /larger disk/,
  ],
  [
    'the folder is open to all',
    (p) => {
      chmodSync(p.folder, 0o755);
    },
    'files',
    'failed',
    /open to every user.*755/,
    /chmod 750/,
  ],
  [
    'the database belongs to root',
    (p) => {
      const { machine } = p;
      const real = p.probes().machine;
      p.machine = {
        ...machine,
        file: async (file) => {
          const facts = await real.file(file);
          return facts === null || !file.endsWith('.db') ? facts : { ...facts, uid: facts.uid + 1 };
        },
      };
    },
    'files',
    'failed',
    /posthorn\.db belongs to user/,
    /chown/,
  ],
  [
    'others may read the key',
    (p) => {
      chmodSync(path.join(p.folder, 'secret.key'), 0o644);
    },
    'secret_key',
    'failed',
    /may be read by others \(mode 644\)/,
    /chmod 600/,
  ],
  [
    'the key is gone',
    (p) => {
      rmSync(path.join(p.folder, 'secret.key'));
    },
    'secret_key',
    'failed',
    /secret\.key is missing/,
    /backup/,
  ],
  [
    'the key is another',
    (p) => {
      writeFileSync(path.join(p.folder, 'secret.key'), `abcd ${Buffer.alloc(32).toString('base64url')}\n`, {
        mode: 0o600,
      });
    },
    'secret_key',
    'failed',
    /lacks the key \w+: .*\(\d+ DKIM keys/,
    /backup/,
  ],
  [
    'the key is damaged',
    (p) => {
      writeFileSync(path.join(p.folder, 'secret.key'), 'abcd what\n', { mode: 0o600 });
    },
    'secret_key',
    'failed',
    /line 1: expected/,
    /backup/,
  ],
  [
    'DNS does not answer',
    (p) => {
      p.zones['posthorn-doctor.invalid A'] = 'TIMEOUT';
    },
    'resolver',
    'failed',
    /DNS does not answer/,
    /delivery\.dnsServers/,
  ],
  [
    'there is no DNS, and mail does not need it',
    (p) => {
      p.zones['posthorn-doctor.invalid A'] = 'TIMEOUT';
      p.settings['delivery'] = { routes: { '*': '8.1.1.1:25' } };
    },
    'resolver',
    'warning',
    /sends all mail without it/,
    /closed network/,
    'outbound',
  ],
  [
    'there is no room, whatever the settings say',
    (p) => {
      p.settings['storage'] = { minFreeBytes: 0 };
      p.machine = { ...p.machine, freeBytes: () => Promise.resolve(1_000_000) };
    },
    'disk',
    'failed',
    /0 MiB free: new mail is refused/,
    /larger disk/,
  ],
  [
    'DNS invents answers',
    (p) => {
      p.zones['posthorn-doctor.invalid A'] = ['8.1.1.1'];
    },
    'resolver',
    'failed',
    /invents answers/,
    /delivery\.dnsServers/,
  ],
  [
    'DNS does not validate',
    (p) => {
      p.secure = [];
      p.zones['broken.example A'] = ['8.1.1.1'];
    },
    'dnssec',
    'warning',
    /signed\.example, a signed zone, does not come back as validated/,
    /unbound/,
  ],
  [
    'DANE counts on DNS that does not validate',
    (p) => {
      p.settings['delivery'] = { dnssecResolver: true };
      p.zones['broken.example A'] = ['8.1.1.1'];
    },
    'dnssec',
    'failed',
    /answers for broken\.example/,
    /unbound/,
  ],
  [
    'our address is on a block list',
    (p) => {
      p.zones['11.10.9.5.list.example A'] = ['127.0.0.2'];
    },
    'blocklists',
    'failed',
    /5\.9\.10\.11 is listed by list\.example \(127\.0\.0\.2\)/,
    /taken off/,
  ],
  [
    'the list refuses our resolver',
    (p) => {
      p.zones['11.10.9.5.list.example A'] = ['127.255.255.254'];
    },
    'blocklists',
    'warning',
    /refuses to answer: the query came through a public resolver/,
    /delivery\.dnsServers/,
  ],
  [
    'the certificate has expired',
    (p) => {
      p.certify(HOST, p.office.clock.now() - 11 * 366 * DAY_MS);
    },
    'certificate',
    'failed',
    /expired on 202/,
    /Renew/,
  ],
  [
    'the certificate ends soon',
    (p) => {
      const at = new Date(p.office.clock.now() + 7 * DAY_MS);
      at.setUTCFullYear(at.getUTCFullYear() - 10);
      p.certify(HOST, at.getTime());
    },
    'certificate',
    'warning',
    /expires on/,
    /Renew/,
  ],
  [
    'the certificate has another name',
    (p) => {
      p.certify('www.example', p.office.clock.now());
    },
    'certificate',
    'failed',
    /is not for mail\.posthorn\.example/,
    /with the name mail\.posthorn/,
  ],
  [
    'the certificate is self-signed',
    (p) => {
      p.certify(HOST, p.office.clock.now(), { isSelfSigned: true });
    },
    'certificate',
    'warning',
    /signed by itself/,
    /Let's Encrypt/,
  ],
  [
    'the certificate file is gone',
    (p) => {
      rmSync(p.certFile);
    },
    'certificate',
    'failed',
    /tls\.certFile: expected a readable file/,
    /tls\.certFile/,
  ],
  [
    'the books do not balance',
    async (p) => {
      await p.office.deps.db.commit.transact((tx) =>
        tx.run(
          `INSERT INTO counters (account_id, day, from_status, to_status, n) VALUES ('a', '2026-01-01', 'none', 'queued', 3)`,
        ),
      );
    },
    'books',
    'failed',
    /queued: 3 by the counters, 0 by the rows/,
    /restore a backup/,
  ],
  [
    'an endpoint is disabled',
    (p) => endpoint(p, { status: 'disabled', disabled_reason: 'No call has succeeded.' }),
    'webhooks',
    'failed',
    /hook\.example.* is disabled \(No call has succeeded\.\)/,
    /posthorn webhooks enable whk_1/,
  ],
  [
    'an endpoint fails',
    (p) => endpoint(p, { failures: 4, failing_since: p.office.clock.now() - 3 * 3_600_000 }),
    'webhooks',
    'warning',
    /has failed for 3 hours/,
    /deliveries/,
  ],
  [
    'broadcasts without https',
    async (p) => {
      p.settings['http'] = { publicUrl: 'http://mail.posthorn.example' };
      await broadcastSent(p);
    },
    'one_click',
    'warning',
    /plain http, so broadcasts \(broadcast\)/,
    /http\.publicUrl/,
  ],
  [
    'the submission port was taken',
    (p) => {
      p.ports = { ...p.ports, submission: null };
    },
    'listeners',
    'failed',
    /port for submission, 587, is in use by another program/,
    /ss -ltnp/,
  ],
  [
    'the bounce port was taken',
    (p) => {
      p.ports = { ...p.ports, mx: null };
    },
    'listeners',
    'failed',
    /port for bounces, 25, is in use by another program/,
    /smtp\.mx\.port/,
    'bounce',
  ],
];

const without = (table: object, key: string): void => void Reflect.deleteProperty(table, key);

function removeRsaKey({ zones }: Patient): void {
  for (const [key, value] of Object.entries(zones)) if (String(value[0]).includes('k=rsa')) without(zones, key);
}

async function endpoint(patient: Patient, fields: Record<string, unknown>): Promise<void> {
  const account = (await patient.office.deps.db.reader('accounts').first()) as { id: string };
  const row = {
    id: 'whk_1',
    account_id: account.id,
    url: 'https://hook.example/in',
    description: '',
    events_json: '[]',
    streams_json: '[]',
    domains_json: '[]',
    include_machine_events: 0,
    include_engagement: 0,
    concurrency: 1,
    header_names_json: '[]',
    headers_sealed: null,
    secrets_sealed: patient.office.deps.keyring.seal('webhook whk_1', '[]'),
    status: 'active',
    disabled_reason: null,
    cursor: 0,
    failures: 0,
    failing_since: null,
    warned_at: null,
    rests_until: null,
    last_success_at: null,
    last_failure_at: null,
    created_at: 0,
    created_by: '',
    updated_at: 0,
    ...fields,
  };
  const names = Object.keys(row);
  await patient.office.deps.db.commit.transact((tx) =>
    tx.run(`INSERT INTO webhooks (${names.join()}) VALUES (${names.map(() => '?').join()})`, Object.values(row)),
  );
}

async function broadcastSent({ office }: Patient): Promise<void> {
  const account = (await office.deps.db.reader('accounts').first()) as { id: string };
  const at = office.clock.now() - DAY_MS;
  const counted = new Map<string, StatRow>();
  addToStats(
    counted,
    {
      accountId: account.id,
      at,
      test: false,
      stream: 'broadcast',
      domain: 'shop.example',
      recipient: 'a@dest.example',
      tags: [],
      template: null,
    },
    ['sent'],
  );
  await office.deps.db.commit.insert({ event_counts: [...counted.values()] });
}

describe('the doctor', () => {
  let patient: Patient;
  beforeEach(async () => {
    patient = await Patient.open();
  });
  afterEach(() => patient.close());

  it('finds nothing on a healthy installation', async () => {
    const findings = await patient.examine();
    assert.deepEqual(
      findings.filter(({ status }) => status !== 'ok'),
      [],
    );
    assert.ok(findings.every(({ why, cure }) => why !== '' && cure === null));
    assert.equal(new Set(findings.map(({ check }) => check)).size, checkNames.length);
  });

  it('takes a program on port 25 that hands bounces over for right', async () => {
    patient.greetings[`${IP}:25`] = { kind: 'greeted', line: `220 ${HOST} ESMTP Postfix`, ms: 1 };
    patient.settings['smtp'] = { hostname: HOST, mx: { host: '127.0.0.1', port: 2525 } };
    const [line, ...more] = (await patient.examine()).filter(({ check }) => check === 'mx');
    assert.equal(line?.status, 'ok');
    assert.match(line.why, /which hands bounces to rp\.shop\.example over to us/);
    assert.deepEqual([more, patient.detours], [[], [`${IP}:25 rp.shop.example`]]);
  });

  it('finds nothing either where an account has endpoints that work, and domains that are trusted', async () => {
    await endpoint(patient, {});
    await patient.addDomain('intern.example', { trusted: true });
    patient.zones['rp.intern.example MX'] = [];
    patient.settings['http'] = { publicUrl: 'http://mail.posthorn.example' };
    const findings = await patient.examine();
    assert.deepEqual(
      findings.filter(({ status }) => status !== 'ok'),
      [],
    );
  });

  it('tries each login of a smarthost, over IPv6 too where that is used, and shows no password', async () => {
    const login = (password: string) => ({ host: 'relay.example', port: 587, user: 'me', password });
    patient.settings['delivery'] = {
      ipv6: 'always',
      routes: { 'a.example': login('secret-1'), 'b.example': login('secret-2'), 'c.example': login('secret-2') },
    };
    patient.zones['relay.example AAAA'] = ['2a01:4f8::77'];
    patient.relays['relay.example'] = { kind: 'refused', why: '535 no' };
    const lines = (await patient.examine()).filter(({ check, status }) => check === 'outbound' && status !== 'ok');
    assert.deepEqual(
      lines.map(({ why }) => why),
      ['(route a.example)', '(route b.example and 1 more)'].map(
        (route) => `the smarthost relay.example, port 587, refuses the password of me ${route}: 535 no`,
      ),
    );
    assert.doesNotMatch(JSON.stringify(lines), /secret/);
    assert.deepEqual(patient.dialled, ['2a01:4f8::77', '2a01:4f8::77']);
  });

  it('finds a key file that is gone also where nothing is sealed yet: no start makes another one beside a database', async () => {
    rmSync(path.join(patient.folder, 'secret.key'));
    const probes = patient.probes();
    assert.ok(probes.store.kind === 'store');
    const store = { ...probes.store, sealedSecrets: () => Promise.resolve([]) };
    const [finding] = await examine({ ...probes, store }, ['secret_key']);
    assert.equal(finding?.status, 'failed');
    assert.match(finding.why, /secret\.key is missing, and there is a database/);
    assert.match(finding.cure ?? '', /lost for good/);
  });

  for (const [what, make, check, status, why, cure, ...also] of faults)
    it(`finds: ${what}`, async () => {
      await make(patient);
      const bad = (await patient.examine()).filter((finding) => finding.status !== 'ok');
      const found = bad.find((finding) => finding.check === check);
      assert.ok(found, JSON.stringify(bad));
      assert.equal(found.status, status);
      assert.match(found.why, why);
      assert.match([found.cure, ...found.copy].join('\n'), cure);
      assert.deepEqual(
        bad.filter((one) => one.check !== check && !also.some((name) => name === one.check)),
        [],
      );
    });
});

function aged(patient: Patient, ms: number, hasKeys = true): void {
  const at = patient.office.clock.now() - ms;
  patient.backups = {
    kind: 'read',
    dir: '/backups',
    count: 1,
    newest: { name: 'posthorn-x', at, bytes: 1, hasKeys },
  };
}
