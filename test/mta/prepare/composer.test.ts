import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createRequire } from 'node:module';
import { createLog } from '../../../src/base/log.ts';
import { ThreadRefusal } from '../../../src/base/threads.ts';
import { dkimRecord } from '../../../src/mail/dkim/key-record.ts';
import { createCompose, type StoredContent } from '../../../src/mta/prepare/compose.ts';
import { createComposer, Unencodable, type Composer } from '../../../src/mta/prepare/composer.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

/** mailauth brings no types. */
type DkimVerify = (
  mail: Buffer,
  options: { resolver: (name: string) => Promise<string[][]>; curTime: Date },
) => Promise<{ results: { status: { result: string } }[] }>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: DkimVerify };

const log = createLog({ level: 'error', format: 'json' });
const compose = createCompose({ remembered: 1 });
const html = `<h1>Žluťoučký</h1>${'<p>A line of <b>text</b> &amp; a <a href="https://acme.test/x">link</a>.</p>\n'.repeat(1000)}`;
const file = (size: number, contentType = 'application/pdf'): StoredContent['attachments'][number] => ({
  filename: 'příloha.pdf',
  contentType,
  contentId: null,
  disposition: 'attachment',
  content: Buffer.alloc(size, 'ab\r\n'),
});
const stored = (more: Partial<StoredContent>): StoredContent => ({
  id: 'cnt_1',
  html: null,
  text: 'hi',
  attachments: [],
  autoText: true,
  ...more,
});

describe('mta/prepare/composer', () => {
  let clock: FakeClock;
  let composer: Composer;
  beforeEach(() => {
    clock = new FakeClock();
    composer = createComposer({ clock, log });
  });
  afterEach(() => composer.close());

  const rows: [content: () => StoredContent, isApart: boolean, why: string][] = [
    [() => stored({}), false, 'a small text'],
    [() => stored({ html, text: null }), true, 'html with the text derived from it'],
    [() => stored({ html, text: 'given' }), true, 'html and text'],
    [() => stored({ html, text: null, autoText: false }), true, 'html alone'],
    [() => stored({ attachments: [file(300_000), file(10)] }), true, 'attachments'],
    [() => stored({ attachments: [file(100)] }), false, 'a small attachment'],
    [() => stored({ attachments: Array.from({ length: 40 }, () => file(10)) }), true, 'many small attachments'],
  ];
  for (const [content, isApart, why] of rows) {
    it(`gives the same octets ${isApart ? 'from a thread' : 'here'}: ${why}`, async () => {
      const here = await compose(content());
      const { composed: got, signed } = await composer.make(content(), null, 0);
      assert.deepEqual(signed, { kind: 'signed', signatures: '' });
      assert.ok(Buffer.isBuffer(got.content.body));
      assert.ok(got.content.body.equals(here.content.body));
      assert.deepEqual([got.content.headers, got.bodyHash], [here.content.headers, here.bodyHash]);
      assert.equal(clock.nextAt() !== null, isApart, 'an idle thread has a timer');
    });
  }

  it('signs the header of a mail with the lines of its content, small or large', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const key = { selector: 's1', domain: 'acme.test', algorithm: 'ed25519-sha256' as const, privateKey };
    for (const content of [stored({}), stored({ html })]) {
      const front = 'From: a@acme.test\r\nSubject: hi\r\n';
      const { composed, signed } = await composer.make(content, { front, timestamp: 1, keys: [key] }, 0);
      const signatures = signed.kind === 'signed' ? signed.signatures : assert.fail(signed.why);
      const { headers, body } = composed.content;
      const mail = Buffer.concat([Buffer.from(`${signatures}${front}${headers}\r\n`), body]);
      const { results } = await dkimVerify(mail, {
        curTime: new Date(2000),
        resolver: () => Promise.resolve([[dkimRecord(publicKey)]]),
      });
      assert.deepEqual(
        results.map(({ status }) => status.result),
        ['pass'],
      );
      const again = await composer.sign(
        { head: front + headers, bodyHash: composed.bodyHash, timestamp: 1, keys: [key] },
        0,
      );
      assert.deepEqual(again, signed, 'for the next recipient of the same content it is only signed');
    }
  });

  it('signs a long header where large contents are made, so that no batch waits for it', async () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const key = { selector: 's1', domain: 'acme.test', algorithm: 'ed25519-sha256' as const, privateKey };
    const head = `From: a@acme.test\r\n${'Cc:\r\n'.repeat(5000)}`;
    const signed = await composer.sign({ head, bodyHash: '', timestamp: 1, keys: [key] }, 0);
    assert.equal(signed.kind, 'signed');
    assert.notEqual(clock.nextAt(), null);
  });

  it('says what cannot be encoded, small or large, and goes on', async () => {
    for (const size of [10, 300_000]) {
      await assert.rejects(
        composer.make(stored({ attachments: [file(size, 'multipart/mixed')] }), null, 0),
        Unencodable,
      );
    }
    assert.ok((await composer.make(stored({ html }), null, 0)).composed.content.body.length > html.length);
  });

  it('ends its thread after a minute without work, and at a stop', async () => {
    await composer.make(stored({ html }), null, 0);
    assert.equal(clock.nextAt(), clock.now() + 60_000);
    clock.advance(60_000);
    assert.equal(clock.nextAt(), null);
    const cut = assert.rejects(composer.make(stored({ html }), null, 0), ThreadRefusal);
    await composer.close();
    await cut;
    assert.equal(clock.nextAt(), null);
  });

  it('has room for four large ones, in turn', async () => {
    const rooms = await Promise.all([1, 2, 3, 4].map(() => composer.room()));
    const order: number[] = [];
    const fifth = composer.room().then((done) => {
      order.push(5);
      return done;
    });
    const sixth = composer.room().then((done) => {
      order.push(6);
      return done;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(order, []);
    rooms[0]?.();
    (await fifth)?.();
    (await sixth)?.();
    assert.deepEqual(order, [5, 6]);
  });
});
