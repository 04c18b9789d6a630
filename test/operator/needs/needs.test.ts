/** Facts that need a person: each kind of fact with its item, and their order. */
import assert from 'node:assert/strict';
import { needsOf } from '../../../src/operator/needs/needs.ts';
import type { AccountFacts, NeedFacts, ServerFacts } from '../../../src/operator/needs/rules.ts';
import type { HeldMail } from '../../../src/operator/holds.ts';

const NOW = Date.parse('2026-01-31T09:30:00.000Z');
const DAY = 86_400_000;
const rfc = (ms: number): string => new Date(ms).toISOString();

const noServer: ServerFacts = {
  held: [],
  set: [],
  domains: [],
  blocks: [],
  dnsTrouble: [],
  routes: {},
  closedPorts: [],
  certificates: [],
  findings: [],
  listed: [],
};
const noAccount: AccountFacts = { id: 'acc_1', name: 'default', domains: [], webhooks: [], keys: [], deferred: [] };
const needs = (server: Partial<ServerFacts> | null, account: Partial<AccountFacts> = {}) =>
  needsOf({
    now: NOW,
    server: server === null ? null : { ...noServer, ...server },
    accounts: [{ ...noAccount, ...account }],
  } satisfies NeedFacts);

const held = (by: HeldMail['by'], target: string, waiting: number): HeldMail => ({
  object: 'held_mail',
  by,
  target,
  account_id: by === 'domain_refused' ? 'acc_1' : null,
  waiting,
  since: rfc(NOW - DAY),
  until: null,
  set_by: 'receiver',
  message: `${target} keeps mail back.`,
});
const hold = {
  id: 'hld_1',
  kind: 'hold',
  scope: 'domain',
  target: 'dest.test',
  connections: null,
  per_minute: null,
  per_hour: null,
  per_day: null,
  note: 'ticket 99',
  until: null,
  created_at: rfc(NOW),
  created_by: 'member:ana@acme.test',
} as ServerFacts['set'][number];
const domain = {
  id: 'dom_1',
  name: 'acme.test',
  trusted: false,
  taken: false,
  status: 'failed',
  failing_since: rfc(NOW - DAY),
  verified_at: rfc(NOW - 2 * DAY),
  refused_at: rfc(NOW),
  records: [],
} as unknown as AccountFacts['domains'][number];
const webhook = {
  id: 'whk_1',
  url: 'https://hooks.test',
  status: 'active',
  disabled_reason: null,
  failing_since: null,
  last_success_at: null,
  last_failure_at: null,
};
const key = {
  id: 'key_1',
  name: 'shop',
  mode: 'live',
  created_at: rfc(NOW - 100 * DAY),
  expires_at: null,
  revoked_at: null,
};

describe('operator/needs', () => {
  it('names the account if it is asked for several', () => {
    const deferred = [
      { lane: 'mx.dest.test', domain: 'dest.test', code: '4.2.2', waiting: 2, reply: '452 4.2.2 full' },
    ];
    const accounts = [noAccount, { ...noAccount, id: 'acc_2', name: 'Acme', deferred }];
    const [only, ...others] = needsOf({ now: NOW, server: null, accounts });
    assert.match(only?.message ?? '', /^Acme: /);
    assert.deepEqual(others, []);
  });

  it('is calm where there is nothing', () => {
    assert.deepEqual(needs({}), []);
    assert.deepEqual(needs(null), []);
    const trusted = { ...domain, trusted: true };
    assert.deepEqual(needs({}, { domains: [trusted], webhooks: [webhook], keys: [key] }), []);
  });

  for (const [name, server, account, kind, level, message] of [
    [
      'a block of our address',
      { held: [held('block_list', 'outlook', 6)] },
      {},
      'block_list',
      'red',
      /6 recipients wait/,
    ],
    [
      'a block without mail',
      { blocks: [{ source: null, node: null, site: 'outlook', since: rfc(NOW), until: rfc(NOW), reply: 'S3150' }] },
      {},
      'block_list',
      'red',
      /outlook refuses mail from the system's address: "S3150"/,
    ],
    [
      'a hold with its note',
      { set: [hold] },
      {},
      'held_by_person',
      'amber',
      /^ana@acme\.test holds the domain dest\.test \(ticket 99\)\.$/,
    ],
    [
      'a limit of a lane',
      { set: [{ ...hold, kind: 'limit', scope: 'lane', target: 'yahoo', per_minute: 2 }] },
      {},
      'limited_by_person',
      'amber',
      /limits the lane yahoo to 2 mails a minute/,
    ],
    ['a route that holds', { held: [held('route', 'dest.test', 1)] }, {}, 'route', 'amber', /1 recipient waits/],
    [
      'a route that discards all',
      { routes: { '*': { kind: 'discard' } } },
      {},
      'route_discards',
      'red',
      /every domain/,
    ],
    [
      'port 25 in other hands',
      { closedPorts: [{ node: null, name: 'mx', port: 25, error: 'EADDRINUSE', since: null }] },
      {},
      'port_closed',
      'red',
      /Port 25 \(mx\) is not open: another program has it\. Bounces/,
    ],
    [
      'a port for bounces that this user may not have',
      { closedPorts: [{ node: null, name: 'mx', port: 1025, error: 'EACCES', since: null }] },
      {},
      'port_closed',
      'red',
      /Port 1025 \(mx\) is not open: this user may not listen on it\. Bounces/,
    ],
    [
      'a certificate that ends',
      { certificates: [{ node: null, file: 'a.pem', until: NOW + DAY }] },
      {},
      'certificate',
      'amber',
      /expires soon/,
    ],
    [
      'one that has ended',
      { certificates: [{ node: null, file: 'a.pem', until: NOW - DAY }] },
      {},
      'certificate',
      'red',
      /has expired/,
    ],
    [
      'a full disk',
      { findings: [{ node: null, check: 'disk', status: 'failed', why: '9 MB free' }] },
      {},
      'disk',
      'red',
      /^Disk: 9 MB free\.$/,
    ],
    [
      'a listing',
      { listed: [{ ip: '203.0.113.7', list: 'bl.test' }] },
      {},
      'listed',
      'red',
      /on the block list bl\.test/,
    ],
    ['a refused domain', {}, { domains: [domain] }, 'domain_refused', 'red', /Mail from acme\.test is refused/],
    [
      'a domain that counts down',
      {},
      { domains: [{ ...domain, status: 'verified' }] },
      'domain_failing',
      'amber',
      /still sent for now/,
    ],
    [
      'a disabled webhook',
      {},
      { webhooks: [{ ...webhook, status: 'disabled' }] },
      'webhook_disabled',
      'red',
      /is disabled/,
    ],
    [
      'a failing webhook',
      {},
      { webhooks: [{ ...webhook, last_failure_at: rfc(NOW) }] },
      'webhook_failing',
      'amber',
      /five days/,
    ],
    ['a key that ends', {}, { keys: [{ ...key, expires_at: rfc(NOW + DAY) }] }, 'key_ends', 'amber', /ends soon/],
    ['a key that has ended', {}, { keys: [{ ...key, expires_at: rfc(NOW - DAY) }] }, 'key_ends', 'red', /has ended/],
  ] as const)
    it(`lists ${name}`, () => {
      const [one, ...more] = needs(server, account);
      assert.deepEqual(more, []);
      assert.deepEqual([one?.kind, one?.level], [kind, level]);
      assert.match(one?.message ?? '', message);
      assert.match(one?.action.href ?? '', /^\//);
      assert.match(one?.action.command ?? '', /^posthorn /);
    });

  it('says since when a webhook fails, which is not when it failed last', () => {
    const failing = { ...webhook, failing_since: rfc(NOW - DAY), last_failure_at: rfc(NOW) };
    const [one] = needs({}, { webhooks: [failing] });
    assert.equal(one?.since, rfc(NOW - DAY));
  });

  it('has one line for all mail whose DNS does not answer, red where it is probably our own resolver', () => {
    const trouble = (...domains: string[]): ServerFacts['dnsTrouble'] =>
      domains.map((domain) => ({
        domain,
        waiting: 2,
        message: `DNS does not tell where mail for ${domain} goes.`,
        since: null,
      }));
    const [one, ...more] = needs({ dnsTrouble: trouble('a.test') });
    assert.deepEqual(
      [one?.kind, one?.level, one?.message, more],
      ['dns_trouble', 'amber', 'DNS does not tell where mail for a.test goes. 2 recipients wait for it.', []],
    );
    const [all] = needs({ dnsTrouble: trouble('a.test', 'b.test', 'c.test') });
    assert.deepEqual([all?.level, all?.mails], ['red', 6]);
    assert.match(
      all?.message ?? '',
      /^DNS does not answer for 3 recipient domains\. .* a\.test goes\. 6 recipients wait/,
    );
    assert.equal(all?.action.command, 'posthorn doctor --only resolver');
  });

  it('lists no test key, and a key for a short time only in the last quarter of it', () => {
    const ends = { ...key, expires_at: rfc(NOW + DAY) };
    assert.deepEqual(needs({}, { keys: [{ ...ends, mode: 'test' }] }), []);
    assert.deepEqual(needs({}, { keys: [{ ...ends, created_at: rfc(NOW - 2 * DAY) }] }), []);
    assert.equal(needs({}, { keys: [{ ...ends, created_at: rfc(NOW - 3 * DAY) }] }).length, 1);
  });

  const mail = (lane: string, domainName: string, code: string, waiting: number) => ({
    lane,
    domain: domainName,
    code,
    waiting,
    reply: `421 ${code}`,
  });

  it('has one line for the cause of a large receiver, and none for what keeps the whole lane back', () => {
    const deferred = [
      mail('yahoo', 'yahoo.com', 'TSS04', 12),
      mail('yahoo', 'ymail.com', 'TSS04', 7),
      mail('google', 'gmail.com', '4.7.28', 3),
    ];
    const found = needs({ held: [held('rest', 'google', 3)] }, { deferred });
    assert.deepEqual(
      found.map(({ kind, mails, title, message }) => [kind, mails, title, message.split('.')[0]]),
      [
        [
          'deferred',
          19,
          'Yahoo defers mail: TSS04',
          'yahoo: 19 recipients deferred, TSS04, and tried again by schedule',
        ],
        ['rest', 3, 'Mail to Google rests', 'google keeps mail back'],
      ],
    );
    const behind = [
      { domain: 'yahoo.com', lane: 'yahoo', waiting: 20_000 },
      { domain: 'gmail.com', lane: 'google', waiting: 3 },
    ];
    assert.deepEqual(
      needs({ domains: behind }, { deferred }).map(({ message }) => / by schedule(.*?)\. The last/.exec(message)?.[1]),
      ['; 20,000 wait there in all', ''],
    );
    assert.deepEqual(
      needs(null, { deferred }).map(({ try_domain: domainName }) => domainName),
      [null, null],
      'only an administrator tries',
    );
  });

  it('has one grey line, the last, for greylists and full mailboxes, and a line for a host with much mail', () => {
    const deferred = [
      mail('mx.grey.test', 'grey.test', '4.7.1', 2),
      mail('mx.full.test', 'full.test', '4.2.2', 1),
      mail('google', 'gmail.com', '4.2.2', 1),
      mail('mx.down.test', 'down.test', 'no answer', 6),
      mail('mx.down.test', 'down.test', '4.3.2', 4),
    ];
    assert.deepEqual(
      needs({}, { deferred, keys: [{ ...key, expires_at: rfc(NOW + DAY) }] }).map(({ level, title, mails }) => [
        level,
        title,
        mails,
      ]),
      [
        ['amber', 'mx.down.test defers mail: no answer', 10],
        ['amber', 'The key "shop" ends soon', 0],
        ['grey', '4 mails at 3 hosts retry by themselves', 4],
      ],
    );
    assert.deepEqual(
      needs(null, { deferred: deferred.slice(1, 2) }).map(({ title }) => title),
      ['1 mail at 1 host retries by itself'],
    );
  });

  it('has one line for a block that keeps mail back, and puts what people have paused first', () => {
    const block = {
      source: null,
      node: null,
      site: 'outlook (outlook.com)',
      since: rfc(NOW),
      until: rfc(NOW),
      reply: 'S3150',
    };
    assert.deepEqual(
      needs({ held: [held('block_list', 'outlook', 4)], blocks: [block], set: [hold] }).map(({ title }) => title),
      ['ana@acme.test holds the domain dest.test (ticket 99)', 'Outlook blocks us'],
    );
    assert.deepEqual(
      needs({ blocks: [block] }).map(({ title }) => title),
      ['Outlook blocks us'],
    );
  });

  it('puts what stands still first, and then what has the most mail', () => {
    const found = needs(
      { held: [held('rest', 'google', 3), held('block_list', 'outlook', 3), held('rest', 'yahoo', 9)] },
      { webhooks: [{ ...webhook, status: 'disabled' }] },
    );
    assert.deepEqual(
      found.map(({ kind, mails }) => [kind, mails]),
      [
        ['block_list', 3],
        ['webhook_disabled', 0],
        ['rest', 9],
        ['rest', 3],
      ],
    );
  });
});
