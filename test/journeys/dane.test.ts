/**
 * DANE over the whole program with real DNSSEC: Unbound validates what NSD serves from zones that were signed a moment ago, and one
 * that was forged afterwards.
 */
import assert from 'node:assert/strict';
import { X509Certificate, createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { startApp, type App } from '../../src/app.ts';
import { systemClock } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/log.ts';
import { createResolver, type Resolver } from '../../src/net/resolver.ts';
import type { Config } from '../../src/config/schema.ts';
import { reachOperator, type Operator } from '../../src/operator/door/operator.ts';
import { configFor, makeStore, newFolder } from '../support/harness/app.ts';
import { expired, server as certificate, testCa } from '../support/harness/certificate.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { missingForDnssec, startSignedZones, type SignedZones } from '../support/fakes/signed-zones.ts';

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const key = `3 1 1 ${sha256(new X509Certificate(expired.cert).publicKey.export({ type: 'spki', format: 'der' }))}`;
const anchor = `2 0 1 ${sha256(new X509Certificate(testCa).raw)}`;
const other = `3 1 1 ${'ab'.repeat(32)}`;

const signed = (...records: string[]) => ({ kind: 'signed' as const, records });
const mx = ['@ MX 10 mx', 'mx A 127.0.0.1'];
const tlsa = (record: string, name = 'mx'): string => `_25._tcp.${name} TLSA ${record}`;
const zones = {
  'key.test': signed(...mx, tlsa(key)),
  'dest.test': signed('@ MX 10 mx1', 'mx1 A 127.0.0.1', tlsa(anchor, 'mx1')),
  'other.test': signed(...mx, tlsa(other)),
  'none.test': signed(...mx),
  'alias.test': signed('@ MX 10 www', 'www CNAME mx', 'mx A 127.0.0.1', tlsa(key)),
  'nomx.test': signed('@ A 127.0.0.1', tlsa(key, '@').replace('.@', '')),
  'unsigned.test': { kind: 'unsigned' as const, records: [...mx, tlsa(other)] },
  'bogus.test': {
    ...signed(...mx, tlsa(key)),
    tamper: (text: string) => text.replace(/(TLSA\s+3 1 1 ).{4}/, '$1dead'),
  },
};

/** The end of a mail to each domain. */
const rows: [domain: string, reason: string, end: string, policy: string | null, text: RegExp][] = [
  ['key.test', 'the key is published', 'delivered', 'dane', /./],
  ['dest.test', 'the trust anchor is published', 'delivered', 'dane', /./],
  ['other.test', 'another key is published', 'deferred', 'dane', /TLSA/],
  ['none.test', 'a signed zone without TLSA records', 'delivered', 'opportunistic', /./],
  ['alias.test', 'records where an alias leads', 'delivered', 'dane', /./],
  ['nomx.test', 'surely no MX, and records of the domain itself', 'delivered', 'dane', /./],
  ['unsigned.test', 'an unsigned zone: its records say nothing', 'delivered', 'opportunistic', /./],
  ['bogus.test', 'records that were forged', 'deferred', null, /TLSA records of mx.bogus.test cannot be had/],
];

describe('journey: DANE with real DNSSEC', () => {
  const stops: (() => Promise<unknown>)[] = [];
  let dns: SignedZones;
  let mail: FakeMailServer;
  let config: Config;
  let app: App;
  let operator: Operator;
  let headers: Record<string, string>;

  before(async function () {
    const absent = missingForDnssec();
    if (absent.length > 0)
      this.skip(`tools for DNSSEC are not installed: ${absent.join(', ')} (apt-get install unbound nsd ldnsutils)`);
    dns = await startSignedZones(zones);
    stops.unshift(dns.stop);
    // The expired leaf has the same key and names as the good one; the CA comes along, as DANE-TA needs.
    mail = await startMailServer({ tls: 'starttls', certificate: { ...certificate, cert: certificate.cert + testCa } });
    stops.unshift(mail.close);
    const folder = newFolder();
    stops.push(async () => {
      await rm(folder, { recursive: true, force: true });
    });
    await makeStore(folder);
    config = configFor(folder, mail.port, {
      delivery: { dnsServers: [dns.resolver], dnssecResolver: true, mtaSts: false, ipv6: 'never' },
    });
    app = await startApp(config, { log: createLog({ level: 'error', format: 'json' }) });
    stops.unshift(app.stop);
    operator = reachOperator(config);
    stops.unshift(() => operator.close());
    const made = await operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'dane', scopes: ['send', 'message:read', 'event:read'] },
    });
    await operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
    headers = { authorization: `Bearer ${made.key}`, 'content-type': 'application/json' };
  });
  after(async () => {
    for (const stop of stops) await stop();
  });

  async function asked<Body>(where: string, body?: object): Promise<Body> {
    const answer = await fetch(`${app.url}${where}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await answer.json()) as Body;
  }

  /** The events of one mail up to this type, by long poll. */
  async function ended(id: string, type: string): Promise<void> {
    for (let after = ''; ;) {
      const { data, next_cursor: next } = await asked<{
        data: { type: string; data: { message_id: string } }[];
        next_cursor: string;
      }>(`/v1/events?type=delivered,deferred,bounced&wait=20&limit=100${after}`);
      if (data.some((event) => event.type === type && event.data.message_id === id)) return;
      after = `&after=${next}`;
    }
  }

  for (const [domain, reason, end, policy, text] of rows)
    it(`${domain}: ${reason}: ${end}`, async () => {
      const { id } = await asked<{ id: string }>('/v1/messages', {
        from: 'hi@acme.test',
        to: `ana@${domain}`,
        subject: 's',
        text: 't',
      });
      await ended(id, end);
      const [attempt] = await app.db.prepared.all<{ tls_json: string | null; smtp_reply: string }>(
        'SELECT tls_json, smtp_reply FROM attempts WHERE message_id = ?',
        [id],
      );
      assert.ok(attempt);
      const tls =
        attempt.tls_json === null ? null : (JSON.parse(attempt.tls_json) as { policy: string; verified: boolean });
      assert.equal(tls?.policy ?? null, policy);
      if (policy === 'dane') assert.equal(tls?.verified, end === 'delivered');
      assert.match(attempt.smtp_reply, text);
      const [host] = (await operator.call('resolve', { domain })).hosts;
      assert.equal(host?.policy === 'dane', policy === 'dane', 'resolve says the same');
      assert.equal(host?.tlsa.length, policy === 'dane' ? 1 : 0);
    });

  it('tells validated answers from others, and forged ones from none', async () => {
    const resolver: Resolver = createResolver({ clock: systemClock }, { servers: [dns.resolver], timeoutMs: 120_000 });
    const look = async (name: string) => {
      const answer = await resolver.tlsa(`_25._tcp.mx.${name}`);
      return answer.kind === 'found'
        ? `found, ${answer.secure ? 'secure' : 'insecure'}`
        : answer.kind === 'trouble'
          ? answer.why
          : answer.kind;
    };
    const seen = await Promise.all(['key.test', 'unsigned.test', 'bogus.test', 'none.test'].map(look));
    await resolver.close();
    assert.deepEqual(seen, ['found, secure', 'found, insecure', 'servfail', 'no_domain']);
  });
});
