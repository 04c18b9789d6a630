import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Control } from '../../src/operator/door/control.ts';
import { HELD_WITHOUT_END } from '../../src/messages/delivery/delivery.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { Office } from '../operator/office.ts';
import { run } from '../../src/cli/cli.ts';
import { ran, type Ran } from './ran.ts';

type Json = Record<string, unknown>;

/** The members a record has, in order. */
const members = (text: string): string[] => Object.keys(JSON.parse(text) as Json);
const dataOf = (text: string): Json[] => (JSON.parse(text) as { data: Json[] }).data;

describe('the posthorn command beside a running server', () => {
  let office: Office;
  let control: Control;
  before(async () => {
    office = await Office.open();
    control = await office.serve();
  });
  after(async () => {
    await control.close();
    await office.close();
  });
  const posthorn = (args: readonly string[], input: string[] = []): Promise<Ran> =>
    ran(args, { POSTHORN_DATA_DIR: office.folder }, { input: inputOf(input) });
  const good = async (...args: string[]): Promise<string> => {
    const { code, out, notes } = await posthorn(args);
    assert.equal(code, 0, notes);
    return out;
  };

  it('accounts: add, list, plan', async () => {
    assert.deepEqual(members(await good('accounts', 'add', 'Acme', '--json')), [
      'object',
      'id',
      'name',
      'plan',
      'paused',
      'created_at',
    ]);
    assert.match(await good('accounts', 'plan', 'Acme', 'pro'), /^NAME +PLAN.*\nAcme +pro /);
    assert.deepEqual(
      dataOf(await good('accounts', 'list', '--json')).map(({ name, plan }) => [name, plan]),
      [
        ['default', 'unlimited'],
        ['Acme', 'pro'],
      ],
    );
    assert.match(await good('accounts', 'list'), /^NAME .*\ndefault .*\nAcme /);
  });

  it('keys: create, list, revoke', async () => {
    const made = await good(
      'keys',
      'create',
      '--name',
      'outside',
      '--json',
      '--scopes',
      'send,event:read',
      '--scopes',
      'domain',
      '--ttl',
      '30d',
      '--allowed-ips',
      '192.0.2.1,::1',
      '--mode',
      'test',
    );
    assert.deepEqual(members(made), [
      'object',
      'id',
      'name',
      'mode',
      'prefix',
      'scopes',
      'domains',
      'allowed_ips',
      'expires_at',
      'last_used_at',
      'last_used_ip',
      'last_used_endpoint',
      'requests_24h',
      'created_at',
      'created_by',
      'revoked_at',
      'key',
    ]);
    const { id, key, scopes, mode, allowed_ips: ips, expires_at: end } = JSON.parse(made) as Json;
    assert.match(String(key), /^ak_test_[0-9A-Za-z]{8}_/);
    assert.deepEqual(
      [mode, scopes, ips, end],
      ['test', ['send', 'event:read', 'domain'], ['192.0.2.1', '::1'], '2026-03-02T09:30:00.000Z'],
    );
    assert.deepEqual(members(await good('keys', 'list', '--json')), ['data']);
    assert.match(await good('keys', 'list'), /^NAME .*\noutside +test +ak_test_/);
    assert.match(await good('keys', 'revoke', String(id)), new RegExp(`outside .*${String(id)}`));
    const again = JSON.parse(await good('keys', 'revoke', String(id), '--json')) as Json;
    assert.deepEqual([again['id'], again['revoked_at']], [id, '2026-01-31T09:30:00.000Z']);
  });

  it('keys create shows the key on a line of its own', async () => {
    const { out, notes } = await posthorn(['keys', 'create', '--name', 'k', '--scopes', 'send']);
    assert.match(out.split('\n').at(-1) ?? '', /^ak_live_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/);
    assert.match(notes, /not shown again/);
  });

  it('says of an empty list that it is empty, beside what programs read', async () => {
    const { out, notes } = await posthorn(['webhooks', 'list']);
    assert.deepEqual([out, notes], ['', 'nothing to show']);
    assert.equal((await posthorn(['webhooks', 'list', '--json'])).notes, '');
  });

  it('domains: add, records, verify, list', async () => {
    const added = await good('domains', 'add', 'sender.test', '--trust', '--json');
    assert.deepEqual(members(added).slice(0, 6), ['object', 'id', 'name', 'status', 'taken', 'records']);
    assert.equal((JSON.parse(added) as Json)['status'], 'verified');
    const [first] = dataOf(await good('domains', 'records', 'sender.test', '--json'));
    assert.deepEqual(Object.keys(first ?? {}).slice(0, 4), ['purpose', 'type', 'host', 'value']);
    const waiting = await posthorn(['domains', 'add', 'wait.test', '--return-path', 'b.wait.test']);
    assert.match(waiting.out, /^wait\.test is pending\n[^]*\nb\.wait\.test\. MX 10 mail\.example\.com\.\n/);
    assert.match(waiting.notes, /posthorn domains verify wait\.test/);
    assert.match(
      await good('domains', 'verify', 'wait.test'),
      /^wait\.test is pending\n\nPURPOSE +STATUS[^]*dkim +missing +yes/,
    );
    office.resolver.zones = { 'b.wait.test TXT': ['v=spf1 ~all', 'v=spf1 -all'] };
    assert.match(await good('domains', 'verify', 'wait.test'), /b\.wait\.test +v=spf1 ~all \| v=spf1 -all$/m);
    office.resolver.zones = {};
    assert.equal((JSON.parse(await good('domains', 'verify', 'sender.test', '--json')) as Json)['status'], 'verified');
    assert.deepEqual(
      dataOf(await good('domains', 'list', '--json')).map(({ name }) => name),
      ['wait.test', 'sender.test'],
    );
    assert.match(await good('domains', 'list'), /sender\.test +verified/);
    assert.match(
      await good('domains', 'show', 'sender.test'),
      /^sender\.test is verified\nTrusted: DNS is not asked, and mail from it goes\.\n\nPURPOSE/,
    );
    const shown = JSON.parse(await good('domains', 'show', 'wait.test', '--json')) as Json;
    assert.deepEqual([shown['failing_since'], shown['refused_at'], shown['notes']], [null, null, []]);
  });

  it('domains records are lines for a zone file, with strings that DNS can hold', async () => {
    const lines = (await good('domains', 'records', 'sender.test')).split('\n');
    const key = lines.find((line) => line.includes('k=rsa') && !line.startsWith(';')) ?? '';
    const strings = [...key.matchAll(/"([^"]*)"/g)].map(([, text]) => text ?? '');
    assert.ok(strings.length > 1 && strings.every((text) => text.length <= 255));
    const values = dataOf(await good('domains', 'records', 'sender.test', '--json')).map(({ value }) => value);
    assert.ok(values.includes(strings.join('')));
    assert.ok(lines.includes(`;   value in a web form: ${strings.join('')}`), 'in one piece, too');
    assert.ok(lines.includes(';   name in a web form: rp (or rp.sender.test)'));
    const [zone, value, quoted] = await Promise.all(
      ['zone', 'value', 'quoted'].map((form) => good('domains', 'records', 'sender.test', '--form', form)),
    );
    assert.match(zone ?? '', /^\S+\. 3600 IN TXT "v=DKIM1; k=rsa; [^"]*" "[^"]*"$/m);
    assert.match(value ?? '', /^\S+  TXT  v=DKIM1; k=rsa; [^"]*$/m);
    assert.match(quoted ?? '', /^rp\.sender\.test  MX  10 mail\.example\.com$/m);
  });

  it('send: a mail with its text from an option or from standard input', async () => {
    const sent = await good(
      'send',
      '--from',
      'Ops <a@sender.test>',
      '--to',
      'b@dest.test',
      '--subject',
      'One',
      '--text',
      'x',
      '--json',
    );
    assert.deepEqual(members(sent).slice(0, 4), ['object', 'id', 'batch_id', 'status']);
    const piped = await posthorn(
      ['send', '--from', 'a@sender.test', '--to', 'b@dest.test', '--subject', 'Two'],
      ['some ', 'text'],
    );
    assert.deepEqual([piped.code, /^(msg_\w{26}) is queued$/.test(piped.out)], [0, true]);
    const texts = (await office.deps.db.reader('contents').orderBy('id')) as { text: string }[];
    assert.deepEqual(
      texts.map(({ text }) => text),
      ['x', 'some text'],
    );
    const flood = await posthorn(
      ['send', '--from', 'a@sender.test', '--to', 'b@dest.test', '--subject', 'Two'],
      ['x'.repeat(6 * 2 ** 20)],
    );
    assert.deepEqual([flood.code, flood.notes.includes('more than 5242880 bytes')], [65, true]);
  });

  it('messages: list, show, trace', async () => {
    const [newest] = dataOf(await good('messages', 'list', '--json', '--limit', '1'));
    const id = String(newest?.['id']);
    await office.defer(id, office.clock.now() + 3_600_000);
    assert.match(
      await good('messages', 'list', '--status', 'deferred'),
      new RegExp(`${id} +deferred +b@dest\\.test +Two`),
    );
    const shown = JSON.parse(await good('messages', 'show', id, '--json')) as Record<string, Json[]>;
    assert.deepEqual([shown['recipients']?.length, shown['attempts']?.length, shown['events']?.length], [1, 1, 2]);
    assert.match(await good('messages', 'show', id), /^id +msg_[^]*\nsubject +Two\n[^]*452|mailbox full/);
    assert.deepEqual(Object.keys(dataOf(await good('messages', 'trace', id, '--json'))[0] ?? {}), [
      'at',
      'what',
      'recipient',
      'text',
      'message_id',
    ]);
    assert.match(
      await good('messages', 'trace', id),
      /^2026\S+ {2}accepted +from a@sender\.test[^]*\n\S+ {2}attempt +b@dest\.test {2}attempt 1 deferred/,
    );
  });

  it('queue: lanes, list, flush', async () => {
    const now = office.clock.now();
    office.lanes = [
      {
        name: 'mx1.dest.test',
        source: null,
        waiting: 1,
        slots: 0,
        limit: 1,
        perMinute: null,
        cause: '421 slow down',
        causeAt: now,
        limits: [{ what: 'connections', to: 1, by: 'receiver', cause: '421 slow down', since: now }],
        waits: [],
        parkedUntil: null,
        lastReply: '\u001b[2J',
        lastProgressAt: now,
        changes: [],
      },
    ];
    assert.deepEqual(members(await good('queue', 'lanes', '--json')), ['data', 'domains', 'nodes', 'oldest_at']);
    assert.match(await good('queue', 'lanes', '--lane', 'mx.dest.test'), /UNDER 1 MIN .* OLDEST\n2 +0 +0 +0 +0 +0 +20/);
    assert.match(
      await good('queue', 'lanes'),
      /^LANE[^]*mx1\.dest\.test +1 +0 +0 +1 +- +- +1 connection: 421 slow down +\\u001b\[2J\nmx\.dest\.test +2 [^]*\n\nDOMAIN[^]*\ndest\.test +2 +1 /,
    );
    const changes = [{ at: now, what: 'connections' as const, to: '1 connection', cause: '421 slow down' }];
    office.lanes = office.lanes.map((lane) => ({ ...lane, changes }));
    assert.match(
      await good('queue', 'lanes', '--lane', 'mx1.dest.test'),
      /^LANE[^]*\n\nLIMIT +TO +BY[^]*\nconnections +1 +receiver +2026\S+ +421 slow down\n\nAT +NOW +WHY\n2026\S+ +1 connection +421 slow down$/,
    );
    assert.deepEqual([(await posthorn(['queue', 'lanes', '--lane', 'nowhere'])).code], [66]);
    assert.equal(
      dataOf(await good('queue', 'list', '--domain', 'dest.test', '--status', 'deferred', '--json')).length,
      1,
    );
    assert.match(await good('queue', 'list'), /^NEXT TRY/);
    assert.equal(await good('queue', 'flush', '--domain', 'dest.test', '--json'), '{\n  "flushed": 1\n}');
    assert.match(await good('queue', 'flush', '--all'), /^0 deliveries that waited for a later time are tried now/);
  });

  it('queue: hold, pause, holds, limit, release, cancel', async () => {
    const held = JSON.parse(await good('queue', 'hold', '--domain', 'Dest.test', '--note', 'moving', '--json')) as Json;
    assert.deepEqual(Object.keys(held), [
      'object',
      'id',
      'kind',
      'scope',
      'target',
      'account_id',
      'domain',
      'stream',
      'key_id',
      'batch_id',
      'message_id',
      'catches_new',
      'connections',
      'per_minute',
      'per_hour',
      'per_day',
      'note',
      'until',
      'created_at',
      'created_by',
      'lane_known',
      'others',
    ]);
    assert.deepEqual(
      [held['target'], held['catches_new'], held['note'], held['until']],
      ['dest.test', false, 'moving', null],
    );
    assert.match(
      await good('queue', 'pause', '--stream', 'transactional', '--for', '2h'),
      /paused +stream transactional +yes +2026/,
    );
    assert.match(
      await good('queue', 'limit', '--lane', 'mx1', '--connections', '1', '--per-minute', '30'),
      /at most 1 connection, 30 mails a minute +lane mx1/,
    );
    const limited = await posthorn(['queue', 'limit', '--lane', 'mx1', '--connections', '2']);
    assert.match(limited.out, /at most 2 connections/);
    assert.match(
      limited.notes,
      /^there is no lane "mx1" now: it takes effect .*`posthorn queue lanes`.*`posthorn queue release hld_\w+`/,
    );
    assert.equal(dataOf(await good('queue', 'holds', '--json')).length, 3, 'a limit takes the place of the last');
    for (const wrong of ['6O', '', '0', '1.5', '1000001']) {
      const { code, notes } = await posthorn(['queue', 'limit', '--lane', 'mx1', '--per-minute', wrong]);
      assert.equal(code, 64, `--per-minute ${wrong}: ${notes}`);
    }
    assert.equal(dataOf(await good('queue', 'holds', '--json')).length, 3, 'a typing error does not end the limit');
    assert.equal(await good('queue', 'limit', '--lane', 'mx1'), 'the limit has ended');
    const part = ['queue', 'limit', '--account', 'default', '--domain', 'dest.test'];
    assert.match(
      await good(...part, '--per-hour', '500', '--per-day', '5000', '--for', '2h', '--note', 'ticket 9'),
      /at most 500 mails an hour, 5,000 mails a day +account acc_\w+ \(domain dest\.test\) .* ticket 9$/,
    );
    for (const refused of [
      [...part, '--connections', '1'],
      ['queue', 'limit', '--all', '--per-minute', '5'],
    ])
      assert.match((await posthorn(refused)).notes, /connections and mails a minute are those of a whole lane/);
    const everything = await good('queue', 'limit', '--all', '--per-day', '7', '--json');
    const [limit] = dataOf(everything);
    assert.deepEqual(
      [limit?.['scope'], limit?.['per_hour'], limit?.['per_day'], limit?.['lane_known']],
      ['all', null, 7, null],
    );
    assert.equal((await posthorn(['queue', 'limit'])).code, 65);
    for (const limited of [part, ['queue', 'limit', '--all']])
      assert.equal(await good(...limited), 'the limit has ended');
    assert.equal((await posthorn(part)).code, 66);
    const paused = await posthorn(['queue', 'pause', '--lane', 'mx1']);
    assert.match(paused.notes, /^there is no lane "mx1" now/);
    assert.match(await good('queue', 'resume', '--lane', 'mx1'), / released +lane mx1/);
    assert.equal((await posthorn(['queue', 'resume', '--lane', 'mx1'])).code, 66);
    const again = await posthorn(['queue', 'pause', '--lane', 'mx1', '--json']);
    assert.deepEqual([(JSON.parse(again.out) as Json)['lane_known'], again.notes], [false, '']);
    assert.match(await good('queue', 'resume', '--lane', 'mx1'), /lane mx1/);
    assert.match(await good('queue', 'resume', '--stream', 'transactional'), /stream transactional/);
    const kept = await office.mail('k@kept.test');
    await good('queue', 'hold', '--message', kept);
    await office.deps.db.commit.transact((tx) =>
      tx.run('UPDATE deliveries SET due_at = ? WHERE message_id = ?', [HELD_WITHOUT_END, kept]),
    );
    assert.match(await good('queue', 'lanes'), /\nkept\.test .* when released +2026/);
    await good('queue', 'release', '--message', kept);
    await good('queue', 'cancel', '--message', kept);
    const twice = await posthorn(['queue', 'hold', '--domain', 'dest.test']);
    assert.match(twice.notes, /^the domain dest\.test is held already, by hld_\w+: .*`posthorn queue release hld_\w+`/);
    await good('queue', 'release', /hld_\w+/.exec(twice.out)?.[0] ?? '');
    assert.match(await good('queue', 'release', String(held['id'])), /domain dest\.test/);
    assert.equal(await good('queue', 'holds'), 'nothing is held');
    const id = await office.mail('c@lone.test');
    assert.match(
      await good('messages', 'why', id),
      /c@lone\.test +queued +queued +- +- +us +It is due and waits for its turn\./,
    );
    const lane = ['--lane', 'mx.lone.test'];
    assert.match(await good('queue', 'list', ...lane, '--class', 'transactional'), /NEXT TRY +SINCE .*c@lone\.test/s);
    assert.equal(await good('queue', 'list', ...lane, '--older-than', '6h'), '');
    assert.match(await good('queue', 'flush', ...lane), /^0 deliveries .* are tried now/);
    assert.equal(await good('queue', 'cancel', ...lane), '1 delivery is canceled');
    assert.equal(await good('queue', 'cancel', '--message', id), '0 deliveries are canceled');
    const { code, notes } = await posthorn(['queue', 'cancel', '--source', 'one']);
    assert.deepEqual([code, notes.includes('--source')], [64, true]);
    const nameless = await posthorn(['queue', 'cancel']);
    assert.deepEqual(
      [nameless.code, nameless.notes.includes('a message ('), nameless.notes.includes('source')],
      [65, true, false],
    );
    assert.doesNotMatch(await good('queue', 'cancel', '--help'), /--source/);
    for (const act of ['flush', 'cancel', 'list'])
      assert.equal((await posthorn(['queue', act, '--lane', 'mx.mistyped.test'])).code, 66, act);
    assert.equal((await posthorn(['queue', 'list', '--class', 'urgent'])).code, 64);
  });

  it('domains: a name that several accounts have added is named by its id', async () => {
    await good('accounts', 'add', 'Twice');
    await good('domains', 'add', 'twice.test');
    await good('domains', 'add', 'twice.test', '--account', 'Twice');
    const { code, notes } = await posthorn(['domains', 'show', 'twice.test']);
    assert.equal(code, 65);
    const id = /(dom_\w+) \(Twice\)/.exec(notes)?.[1] ?? assert.fail(notes);
    assert.match(await good('domains', 'show', id), /twice\.test/);
  });

  it('resolve: where mail goes', async () => {
    assert.match(await good('resolve', 'Away.test'), /^domain +away\.test\nroute +discard/);
    office.resolved = {
      destination: {
        kind: 'site',
        name: 'google',
        relay: null,
        operator: { name: 'google', mx: [], messagesPerConnection: 50 },
        sts: { mode: 'enforce', mx: ['*.google.com'], maxAge: 86_400 },
        hosts: [
          { name: 'mx.google.com', port: 25, preference: 5, addresses: [{ ip: '192.0.2.1', family: 4 }] },
          { name: 'mx.evil.test', port: 25, preference: 9, addresses: [] },
        ],
      },
      needs: [
        { kind: 'need', need: { mode: 'required', verify: 'name', policy: 'mta-sts', tlsa: [] } },
        { kind: 'refused', text: 'not named', policy: 'mta-sts' },
      ],
      lane: null,
    };
    const told = await good('resolve', 'dest.test');
    assert.match(told, /lane +google\n[^]*MTA-STS +enforce: \*\.google\.com\n[^]*mails a connection +50\n/);
    assert.match(
      told,
      /mx\.google\.com +25 +5 +192\.0\.2\.1 +required, verified +mta-sts\nmx\.evil\.test .*never: no mail goes there +not named/,
    );
    assert.deepEqual(members(await good('resolve', 'dest.test', '--json')), [
      'object',
      'domain',
      'route',
      'problem',
      'lane',
      'operator',
      'hosts',
      'sts',
      'source',
      'limits',
      'node',
    ]);
    office.resolved = {
      destination: {
        kind: 'nowhere',
        route: { kind: 'refused', enhanced: '5.1.10', reason: 'null_mx', text: 'null MX' },
      },
      needs: [],
      lane: null,
    };
    assert.match(await good('resolve', 'dest.test'), /problem +5\.1\.10 null MX/);
  });

  it('events tail: what there is, and from a time on', async () => {
    const all = (await good('events', 'tail', '--no-follow', '--json', '--types', 'sent,deferred'))
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    assert.deepEqual(
      all.map(({ object, type }) => [object, type]),
      [
        ['event', 'sent'],
        ['event', 'deferred'],
      ],
    );
    assert.match(
      await good('events', 'tail', '--no-follow', '--since', '2026-01-31T00:00:00Z', '--types', 'deferred'),
      /^2026-01-31T09:30:00\.000Z {2}deferred +b@dest\.test {2}msg_\w+ {2}4\.2\.2 mailbox full$/,
    );
    assert.equal(await good('events', 'tail', '--no-follow', '--since', '2099-01-31T00:00:00Z'), '');
  });

  it('reputation: numbers, and what may have changed them', async () => {
    const list = { ip: '192.0.2.25', list: 'list.example' };
    const now = office.clock.now();
    await office.deps.db.commit.insert({
      listings: [{ ...list, since: now, until: null, codes: '127.0.0.2' }],
      list_checks: [{ ...list, state: 'listed', at: now }],
    });
    await good('accounts', 'add', 'Quiet');
    assert.match(
      await good('reputation'),
      /What may have changed it\nAT .*\n[^]*listed +192\.0\.2\.25 by list\.example \(127\.0\.0\.2\)[^]*Block lists\nIP .*\n192\.0\.2\.25 +list\.example +listed/,
    );
    const record = JSON.parse(await good('reputation', '--account', 'Quiet', '--json')) as Json;
    assert.deepEqual(Object.keys(record).slice(-2), ['moments', 'block_lists']);
  });

  it('books: balanced or not', async () => {
    assert.deepEqual(members(await good('books', '--json')), ['balanced', 'accepted', 'lines', 'faults']);
    assert.match(await good('books'), /\nbalanced: 4 recipients accepted$/);
    await office.deps.db.commit.transact((tx) => tx.run(`UPDATE counters SET n = n + 1`));
    const wrong = await posthorn(['books']);
    assert.deepEqual([wrong.code, wrong.out.includes('NOT balanced')], [1, true]);
  });

  for (const [args, code, says, reason] of [
    [['accounts'], 64, /Usage/, 'no command'],
    [['keys', 'create', '--name', 'x'], 64, /--scopes/, 'a required option'],
    [['keys', 'create', '--name', 'x', '--scopes', 'send', '--ttl', '30'], 64, /duration/, 'a duration without unit'],
    [['keys', 'create', '--name', 'x', '--scopes', 'send', '--mode', 'prod'], 64, /live, test/, 'no such mode'],
    [
      ['keys', 'create', '--name', 'x', '--scopes', 'sned'],
      65,
      /^posthorn: --scopes must be one of `send`, [^\n]+ \(invalid_field\)\n {2}cure: {2}`posthorn keys create --help` describes/,
      'no such scope',
    ],
    [['doctor', '--only', 'nope'], 65, /^[^\n]+there are settings, [^\n]+\n {2}cure: [^\n]+$/, 'no such check'],
    [
      ['keys', 'revoke', 'key_x'],
      66,
      /no such key\. \(not_found\)\n {2}cure: {2}`posthorn keys list` shows those that there are\.$/,
      'no such key',
    ],
    [['messages', 'show', 'nope'], 66, /cure: {2}`posthorn messages list` shows/, 'no such message'],
    [
      ['queue', 'list', '--account', 'nope'],
      66,
      /^[^\n]+: see `posthorn accounts list` \(not_found\)$/,
      'no such account',
    ],
    [['queue', 'watch', '--message', 'nope'], 66, /no message "nope"/, 'no message to watch'],
    [['keys', 'revoke', 'constructor'], 66, /no such key/, 'a name that every object of JavaScript has'],
    [['messages', 'list', '--to', ''], 64, /'--to <address>' has an empty value/, 'a variable that is not set'],
    [['backup', 'create', ''], 64, /argument 'folder' is empty/, 'it would take the working directory'],
    [
      ['suppressions', 'remove', 'old@dest.test', '--stream='],
      64,
      /'--stream <slug>' has an empty value/,
      'it would take away the entries of all streams',
    ],
    [['queue', 'hold', '--domain', 'dest.test', '--for', '400d'], 64, /from 1s to 366d/, 'longer than holds last'],
    [['keys', 'list', '--account', 'nobody'], 66, /no account "nobody"/, 'no such account'],
    [['domains', 'records', 'nowhere.test'], 66, /no such domain/, 'no such domain'],
    [
      ['domains', 'records', 'x.test', '--form', 'csv'],
      64,
      /Allowed choices are zone, value, quoted/,
      'an unknown form',
    ],
    [['domains', 'add', 'sender.test'], 65, /already_exists/, 'added before'],
    [
      ['send', '--from', 'a@else.test', '--to', 'b@dest.test', '--subject', 's', '--text', 't'],
      65,
      /domain_not_verified/,
      'a foreign domain',
    ],
    [
      [
        'send',
        '--from',
        'a@sender.test',
        '--to',
        'b@dest.test',
        '--to',
        'c@dest.test',
        '--subject',
        's',
        '--text',
        't',
      ],
      64,
      /'--to <mailbox>' is given twice/,
      'two recipients, of which one would be lost',
    ],
    [
      ['messages', 'trace', '\u001b[2J'],
      66,
      /no message "\\u001b\[2J"|\\\\u001b/,
      'what steers a terminal is shown as text',
    ],
    [['resolve', 'ana@dest.test'], 65, /not a domain name/, 'an address where its domain belongs'],
    [['resolve', 'no domain'], 65, /not a domain name/, 'what no domain can be'],
    [['stats', '--hours', '24', '--days', '3'], 64, /cannot be used with option '--days/, 'two ranges'],
    [['stats', '--hours', '745'], 64, /from 1 to 744/, 'more hours than a month has'],
    [['stats', '--days', '401'], 64, /from 1 to 400/, 'more days than there are figures of'],
    [['messages', 'list', '--status', 'lost'], 65, /--status must be one or more of/, 'no such status'],
    [['messages', 'list', '--limit', '1001'], 64, /1 to 1000/, 'too many'],
    [['queue', 'flush'], 65, /name all mail, or any of a domain/, 'nothing said'],
    [['events', 'tail', '--no-follow', '--since', 'yesterday'], 64, /duration/, 'no time'],
    [['events', 'tail', '--no-follow', '--types', 'arrived'], 65, /`type` must be one or more of sent/, 'no such type'],
    [['migrate'], 73, /the server is running/, 'not behind its back'],
    [['serve'], 70, /without a server/, 'nothing to serve was handed in'],
  ] as const) {
    it(`${args.join(' ')} ends with ${String(code)}: ${reason}`, async () => {
      const ended = await posthorn(args);
      assert.equal(ended.code, code, ended.notes);
      assert.match(ended.notes, says);
      assert.equal(ended.out, '');
    });
  }

  for (const command of ['accounts', 'keys', 'domains', 'send', 'messages', 'queue', ['events', 'tail']]) {
    it(`${[command].flat().join(' ')} --help has examples`, async () => {
      assert.match(await good(...[command].flat(), '--help'), /Examples:\n {2}\$ posthorn/);
    });
  }
});

describe('a list that is longer than what is shown', () => {
  let office: Office;
  let control: Control;
  before(async () => {
    office = await Office.open();
    control = await office.serve();
    for (const name of ['a', 'b', 'c']) {
      const id = await office.mail(`${name}@dest.test`);
      const [row] = (await office.deps.db.reader('deliveries').where({ message_id: id })) as DeliveryRow[];
      assert.ok(row);
      const { account_id, message_id, id: delivery_id } = row;
      const about = { account_id, message_id, delivery_id, detail_json: '{}', raw: Buffer.alloc(1), size: 1 };
      const from = { client_ip: '192.0.2.1', sender: '', recipients_json: '[]', received_at: office.clock.now() };
      await office.deps.db.commit.insert({
        reports: [{ id: `rep_${name}`, state: 'unverified', kind: 'bounce', ...about, ...from }],
      });
      assert.equal((await posthorn('suppressions', 'add', `${name}@old.test`)).code, 0);
    }
  });
  after(async () => {
    await control.close();
    await office.close();
  });
  const posthorn = (...args: string[]): Promise<Ran> => ran(args, { POSTHORN_DATA_DIR: office.folder });

  for (const [args, beyond] of [
    [['messages', 'list'], '; `posthorn export messages` writes all'],
    [['queue', 'list'], '; the other options narrow the list'],
    [['suppressions', 'list'], '; `posthorn suppressions export` writes all'],
    [['audit'], '; `posthorn export audit` writes all of an account'],
    [['inbound', 'unverified'], ''],
  ] as const)
    it(`${args.join(' ')} says so beside what programs read, and how to get the rest`, async () => {
      const cut = await posthorn(...args, '--limit', '2');
      assert.deepEqual([cut.code, cut.out.split('\n').length], [0, 3]);
      assert.equal(cut.notes, `these are the first 2, and there are more: --limit shows up to 1000${beyond}`);
      assert.equal((await posthorn(...args, '--limit', '1000')).notes, '');
      assert.equal((await posthorn(...args, '--limit', '2', '--json')).notes, '');
    });
});

describe('events tail beside a server that stops', () => {
  it('follows until then', async () => {
    const office = await Office.open();
    const control = await office.serve();
    const ids: string[] = [];
    const sendOne = async (): Promise<void> => {
      const id = await office.mail('b@dest.test');
      ids.push(id);
      await office.defer(id, office.clock.now() + 60_000);
    };
    await sendOne();
    const [lines, notes]: [string[], string[]] = [[], []];
    const out = (line: string): void => {
      lines.push(line);
      if (lines.length === 1) void sendOne();
      else void control.close();
    };
    const env = { POSTHORN_DATA_DIR: office.folder, POSTHORN_SMTP__HOSTNAME: 'mail.example.com' };
    const code = await run(['events', 'tail', '--json'], env, { out, note: (line) => void notes.push(line) });
    await office.close();
    assert.deepEqual([code, notes], [69, ['posthorn: the server has stopped']]);
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { data: Json }).data['message_id']),
      ids,
    );
  });
});

describe('the posthorn command without a server', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cli-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const posthorn = (...args: string[]): Promise<Ran> => ran(args, { POSTHORN_DATA_DIR: folder });

  it('works on the database', async () => {
    assert.equal((await posthorn('accounts', 'list')).code, 66);
    const made = await posthorn('keys', 'create', '--name', 'k', '--scopes', 'send', '--json');
    assert.equal(made.code, 0, made.notes);
    const { id, key, ...record } = JSON.parse(made.out) as Json;
    assert.match(String(key), /^ak_live_/);
    assert.deepEqual(dataOf((await posthorn('keys', 'list', '--json')).out), [
      { object: record['object'], id, ...record },
    ]);
    assert.equal((await posthorn('keys', 'revoke', String(id))).code, 0);
    assert.equal((await posthorn('keys', 'revoke', 'key_x')).code, 66);
    for (const args of [
      ['domains', 'list'],
      ['messages', 'list'],
      ['queue', 'list'],
      ['events', 'tail', '--no-follow'],
      ['books'],
    ]) {
      assert.equal((await posthorn(...args)).code, 0, args.join(' '));
    }
  });

  for (const args of [
    ['send', '--from', 'a@b.test', '--to', 'c@d.test', '--subject', 's', '--text', 't'],
    ['queue', 'lanes'],
    ['queue', 'flush', '--all'],
  ]) {
    it(`${args.slice(0, 2).join(' ')} says how to start one`, async () => {
      const { code, notes } = await posthorn(...args);
      assert.deepEqual([code, notes], [69, 'posthorn: the server is not running: start it with `posthorn serve`']);
      assert.deepEqual(readdirSync(folder), [], 'nothing is made for it');
    });
  }
});

async function* inputOf(parts: readonly string[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield Buffer.from(part);
}

describe('the posthorn command on a machine whose name has no dot', () => {
  it('says with the DNS records that they cannot work', async () => {
    const office = await Office.open();
    const posthorn = (...args: string[]): Promise<Ran> =>
      ran(args, { POSTHORN_DATA_DIR: office.folder, POSTHORN_SMTP__HOSTNAME: 'vm' });
    try {
      const added = await posthorn('domains', 'add', 'wait.test');
      assert.equal(added.code, 0, added.notes);
      assert.match(added.out, /MX 10 vm\./);
      for (const { notes } of [added, await posthorn('domains', 'records', 'wait.test')])
        assert.match(notes, /name this machine as vm, which is not a full name.*Set smtp\.hostname/);
    } finally {
      await office.close();
    }
  });
});
