import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import type { Program } from '../../src/cli/cli.ts';
import { createExplainer } from '../../src/mta/limits/shaping.ts';
import { ran } from './ran.ts';

interface Classified {
  about: string | null;
  limit: object | null;
  shaping: { name: string }[];
  limits: { name: string }[];
}

const ownRule = { name: 'ours', match: { text: 'too fast' }, count: 1, within: '1m', action: 'alarm' };
const input = (text: string) => ({ input: Readable.from([Buffer.from(text)]) });

describe('posthorn classify', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-classify-'));
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });

  it('tells class, reason, rule and whether it suppresses, without a server or a database', async () => {
    const { code, out } = await ran(['classify', '550 5.1.1 no such user'], {
      POSTHORN_DATA_DIR: path.join(folder, 'none'),
    });
    assert.equal(code, 0);
    assert.deepEqual(
      out.split('\n').map((line) => line.split(/ +/)),
      [
        ['class', 'hard'],
        ['reason', 'mailbox_not_found'],
        ['suppress', 'yes'],
        ['rule', 'enhanced:unknown-mailbox'],
      ],
    );
  });

  it('prints one object as JSON', async () => {
    const reply = '550-5.7.1 taken for 550 5.7.1 spam';
    const { out } = await ran(['classify', '--json', reply]);
    assert.deepEqual(JSON.parse(out), {
      reply,
      class: 'block',
      reason: 'spam',
      rule: 'veto:spam',
      suppress: false,
      about: null,
      limit: null,
      shaping: [],
      limits: [],
    });
  });

  it('reads lines from standard input with -, one object a line', async () => {
    const lines = '550 5.1.1 no\r\n\nsmtp; 552 5.2.2 full\n421 4.3.0 \u0007 \u{9b}2J later\n';
    const { out } = await ran(['classify', '-', '--json'], {}, input(lines));
    const read = out.split('\n').map((line) => JSON.parse(line) as { reply: string; class: string });
    assert.deepEqual(
      read.map(({ class: bounceClass }) => bounceClass),
      ['hard', 'soft', 'soft'],
    );
    assert.ok(!out.includes('\u{9b}'));
    const { out: tabled } = await ran(['classify', '-'], {}, input(lines));
    assert.equal(tabled.split('\n').length, 4);
    assert.match(tabled, /^CLASS +REASON +SUPPRESS +RULE +REPLY\n/);
  });

  it('says nothing for nothing, and refuses what is too much', async () => {
    assert.deepEqual(await ran(['classify', '-'], {}, input('\n')), { code: 0, out: '', notes: '' });
    const { code, notes } = await ran(['classify', '-'], {}, input('x'.repeat(17 * 2 ** 20)));
    assert.deepEqual([code, notes.includes('field_too_long')], [65, true]);
  });

  it('says which limit would follow, and which rules of shaping count it', async () => {
    const program: Program = { openExplainer: (...given) => Promise.resolve(createExplainer(...given)) };
    const of = async (...args: string[]): Promise<Classified> =>
      JSON.parse((await ran(['classify', '--json', ...args], {}, program)).out) as Classified;
    const reply = '421 Rate limit reached';
    const named = ({ shaping }: Classified): string[] => shaping.map(({ name }) => name);
    const later = await of(reply, '--mx', 'mx00.gmx.net');
    assert.deepEqual([later.about, later.limit, named(later)], ['rate', null, ['gmx-later']]);
    assert.deepEqual(named(await of(reply, '--mx', 'mx.dest.test')), [], 'another host');
    const unknown = await of('550 5.1.1 no such user', '--mx', 'mx00.gmx.net');
    assert.deepEqual([unknown.about, unknown.limit, unknown.shaping], ['recipient', null, []]);
    const notice = await of('smtp; 550 5.7.1 refused', '--mx', 'mx00.gmx.net');
    assert.deepEqual([notice.about, notice.limit, notice.shaping], [null, null, []], 'a bounce mail teaches nothing');
    const { out } = await ran(['classify', '450 Reject due to policy violations', '--mx', 'mx00.gmx.net'], {}, program);
    assert.match(out, /^about +load\nlimit +closed after 10 in a row, for 1m, 2m, 4m, 8m, 15m$/m);
    assert.match(out, /^shaping +gmx-later: pause for 1h after 5 within 10m$/m);
    const env = { POSTHORN_DELIVERY__SHAPING: JSON.stringify([ownRule]) };
    assert.match(
      (await ran(['classify', '450 too fast'], env, program)).out,
      /^shaping +ours: alarm after 1 within 1m$/m,
    );
  });

  it('shows which rules for mail hold at the host and for the domain', async () => {
    const program: Program = { openExplainer: (...given) => Promise.resolve(createExplainer(...given)) };
    const rules = [
      { name: 'gmx', match: { operator: 'gmx' }, each: ['source'], perHour: 100, perDay: 1000 },
      { name: 'codes', match: { stream: 'codes' }, retry: ['1m', '2m'], maxAge: '1h' },
      { name: 'dest', match: { domain: 'dest.test' }, perDay: 1 },
    ];
    const env = { POSTHORN_DELIVERY__LIMITS: JSON.stringify(rules) };
    const { out } = await ran(['classify', '450 later', '--mx', 'mx00.gmx.net', '--domain', 'gmx.de'], env, program);
    assert.deepEqual(out.match(/^mail .*$/gm), [
      'mail      gmx: operator gmx: 100 an hour, 1000 a day, for each source',
      'mail      codes: stream codes: tried again after 1m, 2m, given up after 1h',
    ]);
    const of = async (...args: string[]): Promise<string[]> =>
      (
        JSON.parse((await ran(['classify', '450 later', '--json', ...args], env, program)).out) as Classified
      ).limits.map(({ name }) => name);
    assert.deepEqual(await of('--mx', 'mx.dest.test'), ['codes', 'dest']);
    assert.deepEqual(await of('--domain', 'dest.test'), ['codes', 'dest']);
  });

  it('knows whose host it was, and what was answered', async () => {
    const of = async (...args: string[]): Promise<string> =>
      (JSON.parse((await ran(['classify', '--json', ...args])).out) as { rule: string }).rule;
    assert.equal(await of('550 5.7.606 no', '--mx', 'acme.mail.protection.outlook.com'), 'operator:microsoft-banned');
    assert.equal(await of('550 5.7.606 no', '--mx', 'mx.dest.test'), 'fallback:policy-code');
    assert.equal(await of('550 5.1.1 no', '--phase', 'mail'), 'enhanced:unknown-mailbox@mail');
    const { code, notes } = await ran(['classify', '550 no', '--phase', 'lunch']);
    assert.equal(code, 64);
    assert.match(notes, /Allowed choices are connect, banner/);
  });

  it('formats finding 7: says of a reply that quotes another what the engine does with it', async () => {
    const reply = '450 mailbox unavailable: 550 5.7.1 mailbox not available';
    const { class: bounceClass, suppress } = JSON.parse((await ran(['classify', '--json', reply])).out) as Record<
      string,
      unknown
    >;
    assert.deepEqual([bounceClass, suppress], ['soft', false]);
  });

  it('asks the operator’s own rules first, and ends with 78 where they are wrong', async () => {
    const file = path.join(folder, 'rules.yaml');
    writeFileSync(file, 'rules: [{ name: ours, class: soft, reason: other, text: [no such user] }]\n');
    const env = { POSTHORN_DELIVERY__BOUNCE_RULES: file };
    assert.match((await ran(['classify', '550 5.1.1 no such user'], env)).out, /rule +own:ours/);
    writeFileSync(file, 'rules: [{ name: ours, class: soft, reason: other, text: [no such (user] }]\n');
    for (const args of [
      ['classify', '550 no'],
      ['config', 'check'],
    ]) {
      const { code, notes } = await ran(args, env);
      assert.equal(code, 78);
      assert.match(notes, /^delivery\.bounceRules: .*rules\.yaml: /);
    }
  });
});
