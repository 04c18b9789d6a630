import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ThreadRefusal } from '../../src/base/threads.ts';
import type { BounceRule } from '../../src/config/bounce-rule.ts';
import { openReportParser } from '../../src/inbound/report-reader.ts';
import { createReportReader } from '../../src/inbound/report-reader.ts';
import { returnPathFor, returnPathKeys, type ReturnPathKey } from '../../src/messages/delivery/return-path.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const fixture = (name: string): Buffer =>
  readFileSync(path.resolve(import.meta.dirname, `../fixtures/reports/${name}.eml`));
const key: ReturnPathKey = { id: 1, secret: Buffer.alloc(32, 7) };
const FORGED = '101jz00000000000000000000070123456789abcdef';

describe('reading reports in threads', () => {
  const readers: { close(): Promise<void> }[] = [];
  const open = (keys: readonly ReturnPathKey[] | null): ReturnType<typeof createReportReader> => {
    const reader = createReportReader({ clock: new FakeClock() }, { keys, rules: () => [], count: 2 });
    readers.push(reader);
    return reader;
  };
  afterEach(async () => {
    for (const reader of readers.splice(0)) await reader.close();
  });

  it('gives what each mail says', async () => {
    const reader = open(null);
    const results = await Promise.all(
      ['dsn-failed', 'vacation', 'complaint'].map((name) => reader.read(fixture(name))),
    );
    assert.deepEqual(
      results.map((result) => (result.kind === 'read' ? [result.finding.kind, result.finding.token] : result)),
      [
        ['bounce', FORGED],
        ['auto_reply', FORGED],
        ['complaint', FORGED],
      ],
    );
  });

  it('judges each mail by the rules in force, also in a thread that runs', async () => {
    let rules: readonly BounceRule[] = [];
    const reader = createReportReader({ clock: new FakeClock() }, { keys: null, rules: () => rules, count: 1 });
    readers.push(reader);
    const verdict = async (): Promise<unknown> => {
      const result = await reader.read(fixture('dsn-failed'));
      return result.kind === 'read' ? result.finding.recipients[0]?.verdict : result;
    };
    assert.deepEqual(await verdict(), { class: 'hard', reason: 'mailbox_not_found' });
    rules = [{ name: 'own', class: 'soft', reason: 'other', text: ['user unknown'] }];
    assert.deepEqual(await verdict(), { class: 'soft', reason: 'other' });
    rules = [];
    assert.deepEqual(await verdict(), { class: 'hard', reason: 'mailbox_not_found' });
  });

  it('with keys leaves a token out that none of them made', async () => {
    const reader = open([key]);
    const forged = await reader.read(fixture('dsn-failed'));
    assert.ok(forged.kind === 'read' && forged.finding.token === null && forged.finding.kind === 'bounce');
    const local = returnPathFor(key, 'dlv_01jz0000000000000000000007');
    const real = await reader.read(fixture('dsn-failed'), {
      recipients: [`${local}@rp.shop.example`],
      sender: '',
      about: null,
    });
    assert.ok(real.kind === 'read' && real.finding.token === local.slice(2));
  });

  it('does not check tokens of unsubscribe addresses', async () => {
    const result = await open([key]).read(fixture('unsubscribe'));
    assert.ok(result.kind === 'read' && result.finding.token !== null);
  });

  it('leaves the bytes with the caller, and reads a part of a larger buffer', async () => {
    const mail = fixture('dsn-failed');
    const around = Buffer.concat([Buffer.from('Subject: other\n\n'), mail]);
    const result = await open(null).read(around.subarray(16));
    assert.ok(result.kind === 'read' && result.finding.kind === 'bounce');
    assert.equal(around.length, mail.length + 16);
  });

  it('counts the time of a mail that ends its thread', async () => {
    // Nothing of a mail is known to end it, so this is given what no thread takes.
    const recipients = [Symbol('no text') as unknown as string];
    assert.deepEqual(await open(null).read(fixture('vacation'), { recipients, sender: null, about: null }), {
      kind: 'unreadable',
      why: 'died',
      ms: 5000,
    });
  });

  it('says that it is closed', async () => {
    const reader = open(null);
    await reader.close();
    await assert.rejects(reader.read(fixture('vacation')), ThreadRefusal);
  });

  it('without a listener: as a record', async () => {
    const parser = openReportParser(null, []);
    const { record, fault } = await parser.parse(fixture('text-exim'));
    assert.deepEqual([record.kind, record.recipients[0]?.class, fault], ['bounce', 'hard', null]);
    await parser.close();
    await assert.rejects(parser.parse(fixture('text-exim')), ThreadRefusal);
  });

  it('with the keys of an installation, older ones included', async () => {
    const secrets: Record<string, Buffer> = { new: Buffer.alloc(32, 1), old: Buffer.alloc(32, 2) };
    const keyring = { keyIds: ['new', 'old'], derive: (_: string, id = 'new') => secrets[id] ?? Buffer.alloc(0) };
    const [current, older] = returnPathKeys(keyring);
    assert.deepEqual([current?.id, older?.id], [2, 1]);
    assert.ok(older !== undefined);
    const mail = fixture('dsn-failed')
      .toString()
      .replaceAll(`b+${FORGED}`, returnPathFor(older, 'dlv_01jz0000000000000000000007'));
    const parser = openReportParser(keyring, []);
    try {
      assert.match((await parser.parse(Buffer.from(mail))).record.token ?? '', /^101jz0/);
      assert.equal((await parser.parse(fixture('dsn-failed'))).record.token, null);
    } finally {
      await parser.close();
    }
  });
});
