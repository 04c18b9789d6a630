import assert from 'node:assert/strict';
import { generateKeyPairSync, sign } from 'node:crypto';
import type { DkimSigner } from '../../src/mail/dkim/sign.ts';
import { deliveryOf, type ReturnPathKey } from '../../src/messages/return-path.ts';
import { createPrepare, type Held, type Prepared, type PrepareDeps, type Ready } from '../../src/mta/prepare.ts';
import type { Connection } from '../../src/storage/connection.ts';
import type { TrackingKey } from '../../src/tracking/token.ts';
import type { DeliveryRow, MessageRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { ACCOUNT, contentRow, deliveryRow, messageRow } from '../support/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/temp-database.ts';

const { privateKey } = generateKeyPairSync('ed25519');
const signer: DkimSigner = {
  key: { selector: 's1', domain: 'acme.test', algorithm: 'ed25519-sha256' },
  sign: (data) => sign(null, data, privateKey),
};
const returnPathKey: ReturnPathKey = { id: 1, secret: Buffer.alloc(32, 1) };
const trackingKey: TrackingKey = { tag: Buffer.alloc(3, 1), sign: Buffer.alloc(32, 2), seal: Buffer.alloc(32, 3) };

describe('mta/prepare', () => {
  let temp: TempDatabase;
  let statements: string[];
  let broken: ((sql: string) => boolean) | null;
  let deps: PrepareDeps;

  beforeEach(async () => {
    temp = await openTempDatabase();
    statements = [];
    broken = null;
    const fast: Connection = {
      ...temp.db.fast,
      all: (sql, values) => {
        statements.push(sql);
        return broken?.(sql) === true ? Promise.reject(new Error('no disk')) : temp.db.fast.all(sql, values);
      },
    };
    deps = {
      clock: new FakeClock(),
      db: { fast },
      signersFor: () => Promise.resolve({ kind: 'ready', signers: [signer] }),
      returnPathDomain: (domain) => Promise.resolve(`rp.${domain}`),
      returnPathKey,
      trackingKey,
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
    const isNew = (await temp.db.fast.all('SELECT 1 FROM contents WHERE id = ?', [content.id])).length === 0;
    await temp.db.commit.insert({ contents: isNew ? [content] : [], messages: [row], deliveries: [made] });
    return made;
  }
  function ready(mail: Prepared | Held): Ready & { text: string; head: string } {
    assert.ok(mail.kind === 'ready', JSON.stringify(mail));
    const text = Buffer.concat([...mail.data]).toString('latin1');
    return { ...mail, text, head: text.slice(0, text.indexOf('\r\n\r\n') + 2).replace(/\r\n[ \t]+/g, ' ') };
  }

  it('composes, signs and addresses a mail', async () => {
    const made = await store({
      cc_json: '[["Bo","bo@dest.test"]]',
      bcc_json: '[[null,"cy@dest.test"]]',
      reply_to_json: '[[null,"help@acme.test"]]',
      headers_json: '[["X-Order","17"]]',
      to_name: 'Ana ž',
    });
    const mail = ready(await createPrepare(deps)(made.id));
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
      new RegExp(`^Feedback-ID: transactional:${ACCOUNT}:transactional:posthorn`, 'm'),
      /^X-Order: 17/m,
      /^MIME-Version: 1\.0/m,
    ]) {
      assert.match(mail.head, line);
    }
    assert.doesNotMatch(mail.text, /cy@dest/, 'no Bcc on the wire');
    assert.match(mail.text, /^[\r\n\t -~]*$/, '7-bit on the wire');
  });

  it('gives the same bytes at each try', async () => {
    const made = await store();
    assert.equal(ready(await createPrepare(deps)(made.id)).text, ready(await createPrepare(deps)(made.id)).text);
  });

  it('loads what is asked for in one moment at once, and a shared content once', async () => {
    const content = contentRow();
    const made = [];
    for (let at = 0; at < 10; at++) made.push(await store({}, { address: `r${at}@dest.test` }, content));
    const prepare = createPrepare(deps);
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
    assert.match(ready(await createPrepare(deps)(made.id)).text, /Content-Type: text\/plain[^]*Hello there/i);
    const without = await store({}, {}, contentRow({ html: '<p>x</p>', text: null, auto_text: 0 }));
    assert.doesNotMatch(ready(await createPrepare(deps)(without.id)).text, /text\/plain/);
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
    assert.ok(ready(await createPrepare(deps)(made.id)).text.includes(bytes.toString('base64')));
  });

  for (const [reason, message, delivery] of [
    ['the recipient', {}, { address: 'añá@dest.test' }],
    ['a copy', { cc_json: '[[null,"ñ@dest.test"]]' }, {}],
    ['Reply-To', { reply_to_json: '[[null,"ñ@dest.test"]]' }, {}],
  ] as const) {
    it(`needs SMTPUTF8 where ${reason} is beyond ASCII`, async () => {
      const made = await store(message, delivery);
      assert.equal(ready(await createPrepare(deps)(made.id)).smtpUtf8, true);
    });
  }

  describe('what cannot be sent', () => {
    it('is gone where its rows are', async () => {
      assert.deepEqual(await createPrepare(deps)('dlv_00000000000000000000000000'), { kind: 'gone' });
    });

    it('waits where it cannot be signed: nothing leaves unsigned', async () => {
      const made = await store();
      const unavailable = {
        ...deps,
        signersFor: () => Promise.resolve({ kind: 'unavailable' as const, why: 'no key' }),
      };
      assert.deepEqual(await createPrepare(unavailable)(made.id), { kind: 'unsigned', why: 'no key' });
    });

    it('needs no signature where it goes nowhere', async () => {
      const made = await store({ test: 1 }, { test: 1, domain: '~simulator' });
      const unavailable = {
        ...deps,
        signersFor: () => Promise.resolve({ kind: 'unavailable' as const, why: 'no key' }),
      };
      const mail = ready(await createPrepare(unavailable)(made.id));
      assert.equal(mail.test, true);
      assert.doesNotMatch(mail.head, /DKIM-Signature/);
    });

    it('is unbuildable where its content is not stored', async () => {
      const made = await store();
      await temp.db.commit.transact((tx) => tx.run('DELETE FROM contents'));
      assert.equal((await createPrepare(deps)(made.id)).kind, 'unbuildable');
    });

    for (const [reason, table] of [
      ['the delivery', 'FROM json_each(?) AS w JOIN deliveries'],
      ['the content', 'JOIN contents'],
      ['an attachment', 'FROM attachments'],
    ] as const) {
      it(`is no verdict on the mail where storage fails at ${reason}: it can be built later`, async () => {
        const made = await store({}, {}, contentRow({ attachment_count: 1 }));
        const prepare = createPrepare(deps);
        broken = (sql) => sql.includes(table);
        await assert.rejects(prepare(made.id), /no disk/);
        broken = null;
        assert.equal((await prepare(made.id)).kind, 'ready');
      });
    }

    it('nor where the key store or the directory fails', async () => {
      const made = await store();
      const failing = () => Promise.reject(new Error('no disk'));
      await assert.rejects(createPrepare({ ...deps, signersFor: failing })(made.id), /no disk/);
      await assert.rejects(createPrepare({ ...deps, returnPathDomain: failing })(made.id), /no disk/);
    });
  });
});
