import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createLog } from '../../../src/base/log.ts';
import type { SigningKey } from '../../../src/mail/dkim/sign.ts';
import { deliveryOf, type ReturnPathKey } from '../../../src/messages/delivery/return-path.ts';
import {
  createPrepare,
  type Failed,
  type Held,
  type Prepared,
  type PrepareDeps,
  type Preparing,
  type Ready,
} from '../../../src/mta/prepare/prepare.ts';
import { textFor } from '../../../src/storage/sql.ts';
import type { Connection } from '../../../src/storage/connection.ts';
import type { BodyFacts } from '../../../src/mail/body-facts.ts';
import { FreshMails } from '../../../src/messages/store/fresh-mails.ts';
import { relaxedBodyHash } from '../../../src/mail/dkim/canonicalize.ts';
import { readToken, type TrackingKey } from '../../../src/tracking/token.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../../src/storage/tables.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { ACCOUNT, HOUR, NOW, contentRow, deliveryRow, messageRow } from '../../support/harness/mail-rows.ts';
import { hrefsOf, pixelOf, readMail as readSeen } from '../../support/harness/seen-mail.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const { privateKey } = generateKeyPairSync('ed25519');
const key: SigningKey = { selector: 's1', domain: 'acme.test', algorithm: 'ed25519-sha256', privateKey };
const returnPathKey: ReturnPathKey = { id: 1, secret: Buffer.alloc(32, 1) };
const trackingKey: TrackingKey = { tag: Buffer.alloc(3, 1), sign: Buffer.alloc(32, 2), seal: Buffer.alloc(32, 3) };

/** Prepares mails to the end. */
function prepareWith(
  deps: PrepareDeps,
): ((deliveryId: string) => Promise<Prepared | Held>) & { close(): Promise<void> } {
  const { begin, close } = createPrepare(deps);
  const prepare = async (deliveryId: string): Promise<Prepared | Held> => {
    const begun = await begin(deliveryId);
    if (begun.kind === 'held') return begun;
    return begun.kind === 'failed' ? begun.failure : begun.mail;
  };
  return Object.assign(prepare, { close });
}

describe('mta/prepare/prepare', () => {
  let temp: TempDatabase;
  let statements: string[];
  let broken: ((sql: string) => boolean) | null;
  let deps: PrepareDeps;

  beforeEach(async () => {
    temp = await openTempDatabase();
    statements = [];
    broken = null;
    const prepared: Connection = {
      ...temp.db.prepared,
      all: (sql, values) => {
        const text = textFor('sqlite', sql);
        statements.push(text);
        return broken?.(text) === true ? Promise.reject(new Error('no disk')) : temp.db.prepared.all(sql, values);
      },
    };
    deps = {
      clock: new FakeClock(),
      log: createLog({ level: 'error', format: 'json' }),
      db: { prepared },
      keysFor: () => Promise.resolve({ kind: 'ready', keys: [key] }),
      returnPathDomain: (_account, domain) => Promise.resolve(`rp.${domain}`),
      returnPathKey,
      trackingKey,
      keyring: { open: () => assert.fail('nothing is sealed') },
    };
  });
  afterEach(() => temp.close());

  async function store(
    message: Partial<MessageRow> = {},
    delivery: Partial<DeliveryRow> = {},
    content = contentRow(),
  ): Promise<DeliveryRow> {
    const row = messageRow({ content_id: content.id, ...message });
    const made = deliveryRow({ message_id: row.id, ...delivery });
    const isNew = (await temp.db.prepared.all('SELECT 1 FROM contents WHERE id = ?', [content.id])).length === 0;
    await temp.db.commit.insert({ contents: isNew ? [content] : [], messages: [row], deliveries: [made] });
    return made;
  }
  function ready(mail: Prepared | Held): Ready & { text: string; head: string } {
    assert.ok(mail.kind === 'ready', JSON.stringify(mail));
    const text = Buffer.concat([...mail.data]).toString('latin1');
    return { ...mail, text, head: text.slice(0, text.indexOf('\r\n\r\n') + 2).replace(/\r\n[ \t]+/g, ' ') };
  }

  it('says what its connection has to satisfy before it is signed', async () => {
    const { begin, close } = createPrepare(deps);
    for (const [row, tlsRequest] of [
      [await store({}), null],
      [await store({ require_tls: 1 }), 'require'],
    ] as const) {
      const begun = await begin(row.id);
      assert.ok(begun.kind === 'preparing');
      assert.deepEqual(begun.wanted, { messageId: row.message_id, tlsRequest });
      await begun.mail;
    }
    await close();
  });

  it('says before anybody is dialled that a mail is gone or cannot be signed', async () => {
    const { id } = await store({});
    const keysFor: PrepareDeps['keysFor'] = () => Promise.resolve({ kind: 'unavailable', why: 'no key' });
    const { begin, close } = createPrepare({ ...deps, keysFor });
    assert.deepEqual(await begin('dlv_gone'), { kind: 'failed', failure: { kind: 'gone' } });
    assert.deepEqual(await begin(id), { kind: 'failed', failure: { kind: 'unsigned', why: 'no key' } });
    await close();
  });

  it('composes, signs and addresses a mail', async () => {
    const made = await store({
      cc_json: '[["Bo","bo@dest.test"]]',
      bcc_json: '[[null,"cy@dest.test"]]',
      reply_to_json: '[[null,"help@acme.test"]]',
      headers_json: '[["X-Order","17"]]',
      to_name: 'Ana ž',
    });
    const mail = ready(await prepareWith(deps)(made.id));
    const [local, domain] = mail.envelopeFrom.split('@');
    assert.equal(domain, 'rp.acme.test');
    assert.equal(deliveryOf([returnPathKey], local ?? ''), made.id);
    assert.deepEqual(
      [mail.recipient, mail.messageId, mail.smtpUtf8, mail.test],
      ['ana@dest.test', made.message_id, false, false],
    );
    assert.equal(mail.size, mail.text.length);
    for (const line of [
      /^DKIM-Signature: .*d=acme\.test;.*s=s1/m,
      /^From: Acme <hi@acme\.test>/m,
      /^To: =\?utf-8\?.*\?= <ana@dest\.test>/im,
      /^Cc: Bo <bo@dest\.test>/m,
      /^Reply-To: help@acme\.test/m,
      /^Subject: Welcome/m,
      /^Date: Sat, 31 Jan 2026 09:30:00 \+0000/m,
      new RegExp(`^Message-ID: <${made.message_id}@acme\\.test>`, 'im'),
      new RegExp(`^X-Message-Id: ${made.message_id}`, 'm'),
      new RegExp(`^Feedback-ID: transactional:${ACCOUNT.slice(-16)}:transactional:posthorn\r\n`, 'm'),
      /^X-Order: 17/m,
      /^MIME-Version: 1\.0/m,
    ]) {
      assert.match(mail.head, line);
    }
    for (const line of mail.head.split('\r\n').filter((one) => one.startsWith('Feedback-ID')))
      assert.ok(line.length <= 78, `formats finding 9: ${line}`);
    assert.doesNotMatch(mail.text, /cy@dest/, 'no Bcc on the wire');
    assert.match(mail.text, /^[\r\n\t -~]*$/, '7-bit on the wire');
  });

  it('has the date of its send_at where it was to be sent later, in the header and in the signature', async () => {
    const made = await store({ send_at: NOW + 30 * 24 * HOUR });
    const { head } = ready(await prepareWith(deps)(made.id));
    assert.match(head, /^Date: Mon, 02 Mar 2026 09:30:00 \+0000/m);
    assert.match(head.replaceAll('\r\n ', ''), new RegExp(` t=${String((NOW + 30 * 24 * HOUR) / 1000)};`));
    const past = await store({ send_at: NOW - HOUR });
    assert.match(ready(await prepareWith(deps)(past.id)).head, /^Date: Sat, 31 Jan 2026 09:30:00 \+0000/m);
  });

  it('gives the same bytes at each try', async () => {
    const made = await store();
    assert.equal(ready(await prepareWith(deps)(made.id)).text, ready(await prepareWith(deps)(made.id)).text);
  });

  it('loads what is asked for in one moment at once, and a shared content once', async () => {
    const content = contentRow();
    const made = [];
    for (let at = 0; at < 10; at++) made.push(await store({}, { address: `r${at}@dest.test` }, content));
    const prepare = prepareWith(deps);
    const mails = await Promise.all(made.map(({ id }) => prepare(id)));
    assert.deepEqual(
      mails.map((mail) => ready(mail).recipient),
      made.map(({ address }) => address),
    );
    assert.equal(statements.length, 2);
    const [first, second] = mails;
    assert.ok(
      first?.kind === 'ready' && second?.kind === 'ready' && first.data[1] === second.data[1],
      'one body in memory',
    );
  });

  it('derives a text part where the sender left that to us', async () => {
    const made = await store({}, {}, contentRow({ html: '<p>Hello <b>there</b></p>', text: null, auto_text: 1 }));
    assert.match(ready(await prepareWith(deps)(made.id)).text, /Content-Type: text\/plain[^]*Hello there/i);
    const without = await store({}, {}, contentRow({ html: '<p>x</p>', text: null, auto_text: 0 }));
    assert.doesNotMatch(ready(await prepareWith(deps)(without.id)).text, /text\/plain/);
  });

  describe('a tracked mail', () => {
    const html = '<a href="https://shop.test/?a=1&amp;b=2">x</a> <a href="mailto:a@b.test">y</a>';
    const tracked = { track_opens: 1, track_clicks: 1, tracking_url: 'https://mail.host.test' };
    const htmlOf = async (id: string): Promise<string> =>
      (await readSeen(ready(await prepareWith(deps)(id)).text)).html;

    it('has links and pixel of each recipient, over the same content', async () => {
      const content = contentRow({ html, text: null, auto_text: 1 });
      const made = [await store(tracked, {}, content), await store(tracked, { address: 'bo@dest.test' }, content)];
      const tokens = await Promise.all(
        made.map(async ({ id }) => {
          const seen = await htmlOf(id);
          const [link = ''] = hrefsOf(seen);
          assert.ok(seen.startsWith(`<a href="${link}">x</a> <a href="mailto:a@b.test">y</a><div style="`), seen);
          const click = readToken([trackingKey], link.replace('https://mail.host.test/t/c/', ''));
          const open = readToken([trackingKey], (pixelOf(seen) ?? '').replace('https://mail.host.test/t/o/', ''));
          assert.ok(click?.kind === 'click' && open?.kind === 'open');
          assert.deepEqual([click.url, click.link, click.links], ['https://shop.test/?a=1&b=2', 1, 1]);
          assert.deepEqual([click.deliveryId, open.deliveryId], [id, id]);
          return link;
        }),
      );
      assert.notEqual(tokens[0], tokens[1]);
    });

    it('has the sender’s own addresses in its text, and is signed as it goes out', async () => {
      const made = await store(tracked, {}, contentRow({ html, text: null, auto_text: 1 }));
      const { text, head } = ready(await prepareWith(deps)(made.id));
      assert.match((await readSeen(text)).text, /https:\/\/shop\.test\/\?a=1&b=2/);
      const body = text.slice(text.indexOf('\r\n\r\n') + 4);
      assert.equal(/bh=([^;]+);/.exec(head)?.[1], relaxedBodyHash(Buffer.from(body, 'latin1')));
    });

    it('gives the same bytes at each try, large ones too', async () => {
      for (const size of [1, 3000]) {
        const made = await store(tracked, {}, contentRow({ html: html.repeat(size), text: null, auto_text: 1 }));
        const [first, second] = [prepareWith(deps), prepareWith(deps)];
        assert.equal(ready(await first(made.id)).text, ready(await second(made.id)).text);
        await Promise.all([first.close(), second.close()]);
      }
    });

    it('tracks what was asked for and no more', async () => {
      const opens = await htmlOf((await store({ ...tracked, track_clicks: 0 }, {}, contentRow({ html }))).id);
      assert.deepEqual([hrefsOf(opens), pixelOf(opens) !== null], [hrefsOf(html), true]);
      const clicks = await htmlOf((await store({ ...tracked, track_opens: 0 }, {}, contentRow({ html }))).id);
      assert.deepEqual([hrefsOf(clicks)[0]?.startsWith('https://mail.host.test/t/c/'), pixelOf(clicks)], [true, null]);
    });

    it('is a plain one where it has no html', async () => {
      const made = await store(tracked, {}, contentRow({ html: null, text: 'see https://shop.test/' }));
      assert.equal(
        (await readSeen(ready(await prepareWith(deps)(made.id)).text)).text.trim(),
        'see https://shop.test/',
      );
    });

    it('carries its attachments', async () => {
      const content = contentRow({ html, attachment_count: 1 });
      const bytes = Buffer.from('attached bytes');
      await temp.db.commit.insert({
        attachments: [
          {
            content_id: content.id,
            position: 0,
            filename: 'a.txt',
            content_type: 'text/plain',
            cid: null,
            disposition: 'attachment',
            bytes,
          },
        ],
      });
      const { text } = ready(await prepareWith(deps)((await store(tracked, {}, content)).id));
      assert.ok(text.includes(bytes.toString('base64')));
      assert.ok(hrefsOf((await readSeen(text)).html)[0]?.startsWith('https://mail.host.test/t/c/'));
    });
  });

  it('carries attachments', async () => {
    const content = contentRow({ attachment_count: 1 });
    const bytes = Buffer.from('attached bytes');
    await temp.db.commit.insert({
      attachments: [
        {
          content_id: content.id,
          position: 0,
          filename: 'a.txt',
          content_type: 'text/plain',
          cid: null,
          disposition: 'attachment',
          bytes,
        },
      ],
    });
    const made = await store({}, {}, content);
    assert.ok(ready(await prepareWith(deps)(made.id)).text.includes(bytes.toString('base64')));
  });

  for (const [reason, message, delivery] of [
    ['the recipient', {}, { address: 'añá@dest.test' }],
    ['a copy', { cc_json: '[[null,"ñ@dest.test"]]' }, {}],
    ['Reply-To', { reply_to_json: '[[null,"ñ@dest.test"]]' }, {}],
  ] as const) {
    it(`needs SMTPUTF8 where ${reason} is beyond ASCII`, async () => {
      const made = await store(message, delivery);
      assert.equal(ready(await prepareWith(deps)(made.id)).smtpUtf8, true);
    });
  }

  describe('a mail that was just accepted', () => {
    /** Returns the bytes made of what is in memory, and whether a row was read; then those made from the database. */
    async function bothWays(content: ContentRow, facts: BodyFacts | null, attachments: AttachmentRow[] = []) {
      const made = await store({}, {}, content);
      if (attachments.length > 0) await temp.db.commit.insert({ attachments });
      const fresh = new FreshMails(new FakeClock());
      const [message] = await temp.db.prepared.all<MessageRow>('SELECT * FROM messages WHERE id = ?', [
        made.message_id,
      ]);
      assert.ok(message);
      fresh.add({ message, delivery: made, content, attachments, facts });
      const prepare = prepareWith({ ...deps, fresh });
      const first = ready(await prepare(made.id)).text;
      const hasRead = statements.some((text) =>
        /FROM (?:contents|attachments)|JOIN (?:contents|deliveries)/.test(text),
      );
      const second = ready(await prepare(made.id)).text;
      await prepare.close();
      return { first, second, hasRead };
    }

    for (const [name, content, attachments] of [
      ['a html', contentRow({ html: '<p>Grüße</p>', text: null, auto_text: 1 }), []],
      ['a long html', contentRow({ html: '<p>Grüße</p>'.repeat(4000), text: null, auto_text: 1 }), []],
      ['long texts', contentRow({ html: '<p>hi</p>'.repeat(4000), text: '\ufeffŁódź 🐎\n'.repeat(4000) }), []],
      [
        'a file',
        contentRow({ id: 'cnt_file', attachment_count: 1 }),
        [
          {
            ...{ content_id: 'cnt_file', position: 0, filename: 'a.bin', content_type: 'application/octet-stream' },
            ...{ cid: null, disposition: 'attachment' as const, bytes: Buffer.from('octets') },
          },
        ],
      ],
    ] as const)
      it(`is not read for the first attempt, and has the same bytes: ${name}`, async () => {
        const { first, second, hasRead } = await bothWays(content, null, [...attachments]);
        assert.deepEqual([hasRead, first], [false, second]);
      });

    it('is not read if it was submitted, and is signed over the hash that was made then', async () => {
      const body = Buffer.from('Good day  \r\n.\r\n\r\n');
      const raw = Buffer.concat([Buffer.from('From: hi@acme.test\r\nSubject: x\r\n\r\n'), body]);
      const facts = { bodyHash: relaxedBodyHash(body), eightBit: false };
      const { first, second, hasRead } = await bothWays(contentRow({ html: null, text: null, raw }), facts);
      assert.deepEqual([hasRead, first], [false, second]);
      assert.ok(first.includes(`bh=${facts.bodyHash}`));
    });
  });

  describe('a large content', () => {
    const link = '<a href="https://shop.test/?a=1&amp;b=2">x</a>\n';
    const tracked = { track_opens: 1, track_clicks: 1, tracking_url: 'https://mail.host.test' };

    async function storeWithFile(
      bytes: number,
      type = 'application/pdf',
      content = contentRow({ attachment_count: 1 }),
    ) {
      const made = await store({}, {}, content);
      const file = { content_id: content.id, position: 0, filename: 'a', content_type: type, cid: null };
      await temp.db.commit.insert({
        attachments: [{ ...file, disposition: 'attachment', bytes: Buffer.alloc(bytes, 'x') }],
      });
      return { made, content };
    }

    /** Returns whether the bytes are made when it is known that the mail may go, which is when a connection may wait for them. */
    async function isMadeAtOnce(begun: Preparing | Failed | Held): Promise<boolean> {
      assert.ok(begun.kind === 'preparing');
      const late = Symbol('late');
      return (await Promise.race([begun.mail, Promise.resolve(late)])) !== late;
    }

    it('is composed before a connection is looked for, also for those who ask for it meanwhile', async () => {
      const { made, content } = await storeWithFile(2_000_000);
      const other = await store({}, { address: 'bo@dest.test' }, content);
      const { begin, close } = createPrepare(deps);
      const first = begin(made.id);
      while (!statements.some((text) => text.includes('FROM attachments')))
        await new Promise((resolve) => setImmediate(resolve));
      assert.equal(await isMadeAtOnce(await begin(other.id)), true);
      assert.equal(await isMadeAtOnce(await first), true);
      await close();
    });

    it('is also one that only its tracked links make large', async () => {
      const html = link.repeat(Math.floor(14_000 / link.length));
      const made = await store(tracked, {}, contentRow({ html, text: null, auto_text: 1 }));
      const { begin, close } = createPrepare(deps);
      assert.equal(await isMadeAtOnce(await begin(made.id)), true);
      await close();
    });

    it('is also one with a header that takes long to sign, composed before or not', async () => {
      const lines = Array.from({ length: 40 }, (_, i) => [`X-${String(i)}`, 'x'.repeat(500)]);
      const content = contentRow();
      const { begin, close } = createPrepare(deps);
      for (const address of ['ana@dest.test', 'bo@dest.test']) {
        const made = await store({ headers_json: JSON.stringify(lines) }, { address }, content);
        assert.equal(await isMadeAtOnce(await begin(made.id)), true);
      }
      await close();
    });

    it('has nobody dialled where it cannot be composed, now or ever', async () => {
      const { made } = await storeWithFile(10, 'multipart/mixed');
      const prepare = createPrepare(deps);
      const begun = await prepare.begin(made.id);
      assert.equal(begun.kind === 'failed' && begun.failure.kind, 'unbuildable');
      const { made: late } = await storeWithFile(300_000);
      await prepare.close();
      const refused = await prepare.begin(late.id);
      assert.equal(refused.kind === 'failed' && refused.failure.kind, 'unready');
    });
  });

  describe('mails that share a content', () => {
    async function pair(message: Partial<MessageRow>, from = deps): Promise<string[]> {
      const content = contentRow();
      const made = [await store(message, {}, content), await store({}, { address: 'bo@dest.test' }, content)];
      const { begin, close } = createPrepare(from);
      const kinds = await Promise.all(
        made.map(async ({ id }) => {
          const begun = await begin(id);
          return begun.kind === 'preparing' ? begun.mail.then(({ kind }) => kind, String) : begun.kind;
        }),
      );
      await close();
      return kinds;
    }

    it('do not fail for a header of another one that cannot be written', async () => {
      assert.deepEqual(await pair({ headers_json: '{broken' }), ['unbuildable', 'ready']);
    });

    it('do not fail for a key of another one that cannot sign', async () => {
      const keysFor: PrepareDeps['keysFor'] = (_account, domain) =>
        Promise.resolve({ kind: 'ready', keys: [domain === 'bad.test' ? { ...key, algorithm: 'rsa-sha256' } : key] });
      assert.deepEqual(await pair({ from_domain: 'bad.test' }, { ...deps, keysFor }), ['unsigned', 'ready']);
    });
  });

  describe('what cannot be sent', () => {
    it('is gone where its rows are', async () => {
      assert.deepEqual(await prepareWith(deps)('dlv_00000000000000000000000000'), { kind: 'gone' });
    });

    it('waits where it cannot be signed: nothing leaves unsigned', async () => {
      const made = await store();
      const unavailable = {
        ...deps,
        keysFor: () => Promise.resolve({ kind: 'unavailable' as const, why: 'no key' }),
      };
      assert.deepEqual(await prepareWith(unavailable)(made.id), { kind: 'unsigned', why: 'no key' });
    });

    it('needs no signature where it goes nowhere', async () => {
      const made = await store({ test: 1 }, { test: 1, domain: '~simulator' });
      const unavailable = {
        ...deps,
        keysFor: () => Promise.resolve({ kind: 'unavailable' as const, why: 'no key' }),
      };
      const mail = ready(await prepareWith(unavailable)(made.id));
      assert.equal(mail.test, true);
      assert.doesNotMatch(mail.head, /DKIM-Signature/);
    });

    it('is unbuildable where its content is not stored', async () => {
      const made = await store();
      await temp.db.commit.transact((tx) => tx.run('DELETE FROM contents'));
      assert.equal((await prepareWith(deps)(made.id)).kind, 'unbuildable');
    });

    for (const [reason, table] of [
      ['the delivery', 'FROM json_each(?) AS w JOIN deliveries'],
      ['the content', 'JOIN contents'],
      ['an attachment', 'FROM attachments'],
    ] as const) {
      it(`is no verdict on the mail where storage fails at ${reason}: it can be built later`, async () => {
        const made = await store({}, {}, contentRow({ attachment_count: 1 }));
        const prepare = prepareWith(deps);
        broken = (sql) => sql.includes(table);
        await assert.rejects(prepare(made.id), /no disk/);
        broken = null;
        assert.equal((await prepare(made.id)).kind, 'ready');
      });
    }

    it('nor where the key store or the directory fails', async () => {
      const made = await store();
      const failing = () => Promise.reject(new Error('no disk'));
      await assert.rejects(prepareWith({ ...deps, keysFor: failing })(made.id), /no disk/);
      await assert.rejects(prepareWith({ ...deps, returnPathDomain: failing })(made.id), /no disk/);
    });
  });
});
