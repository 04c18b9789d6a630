import assert from 'node:assert/strict';
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import fc from 'fast-check';
import { headerLine, parseHeaders } from '../../../src/mail/header.ts';
import { relaxedBodyHash, relaxedHeader } from '../../../src/mail/dkim/canonicalize.ts';
import { dkimRecord } from '../../../src/mail/dkim/key-record.ts';
import { signHeaders } from '../../../src/mail/dkim/sign.ts';
import type { DkimSigner } from '../../../src/mail/dkim/sign.ts';
import { corpus, NO_CORPORA } from '../../support/harness/corpora.ts';

interface Verified {
  results: { status: { result: string; comment?: string }; algo: string; signingDomain: string }[];
}
type Verify = (
  mail: Buffer,
  options: { resolver: (name: string, type: string) => Promise<string[][]>; curTime?: Date },
) => Promise<Verified>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: Verify };

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ed25519 = generateKeyPairSync('ed25519');
const TIME = 1_769_851_800;

function signer(selector: string, algorithm: 'rsa-sha256' | 'ed25519-sha256', privateKey: KeyObject): DkimSigner {
  const hash = algorithm === 'rsa-sha256' ? 'sha256' : null;
  return { key: { selector, domain: 'acme.test', algorithm }, sign: (data) => sign(hash, data, privateKey) };
}
const signers = [signer('r1', 'rsa-sha256', rsa.privateKey), signer('e1', 'ed25519-sha256', ed25519.privateKey)];
const zone = new Map([
  ['r1._domainkey.acme.test', dkimRecord(rsa.publicKey)],
  ['e1._domainkey.acme.test', dkimRecord(ed25519.publicKey)],
]);

function check(mail: string | Buffer): Promise<Verified> {
  return dkimVerify(Buffer.from(mail), {
    curTime: new Date(TIME * 1000 + 1000),
    resolver: (name) => {
      const record = zone.get(name);
      return record === undefined
        ? Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' }))
        : Promise.resolve([[record]]);
    },
  });
}

async function signed(head: string, body: Buffer): Promise<Buffer> {
  const lines = await signHeaders({ head, bodyHash: relaxedBodyHash(body), timestamp: TIME, signers });
  return Buffer.concat([Buffer.from(`${lines}${head}\r\n`), body]);
}

async function verdicts(mail: string | Buffer): Promise<string[]> {
  return (await check(mail)).results.map((result) => `${result.algo} ${result.status.result}`);
}

const BOTH = ['rsa-sha256 pass', 'ed25519-sha256 pass'];
const head =
  'Date: Sat, 31 Jan 2026 09:30:00 +0000\r\nFrom: Acme <hi@acme.test>\r\nTo: ana@example.net\r\nSubject: Hi\r\nMessage-ID: <1@acme.test>\r\nX-Own: x\r\n';

describe('mail/dkim/sign', () => {
  it('makes two signatures that an independent verifier accepts', async () => {
    assert.deepEqual(await verdicts(await signed(head, Buffer.from('hello\r\n'))), BOTH);
  });

  it('puts one tagged and folded field for each signer in front', async () => {
    const lines = await signHeaders({ head, bodyHash: 'aGFzaA==', timestamp: TIME, signers });
    const fields = parseHeaders(lines);
    assert.deepEqual(
      fields.map((field) => field.name),
      ['DKIM-Signature', 'DKIM-Signature'],
    );
    for (const line of lines.split('\r\n')) assert.ok(line.length <= 78);
    const tags = new Map(
      fields[0]?.value.split(';').map((tag) => [tag.trim().split('=')[0], tag.trim().replace(/^\w+=/, '')]),
    );
    assert.equal(tags.get('a'), 'rsa-sha256');
    assert.equal(tags.get('c'), 'relaxed/relaxed');
    assert.equal(tags.get('d'), 'acme.test');
    assert.equal(tags.get('s'), 'r1');
    assert.equal(tags.get('t'), String(TIME));
    assert.equal(tags.get('bh'), 'aGFzaA==');
    assert.match(fields[1]?.value ?? '', /a=ed25519-sha256;.*s=e1;/);
  });

  it('names every listed field once more than it occurs, and no other', async () => {
    const lines = await signHeaders({
      head: `To: x@y.z\r\n${head}`,
      bodyHash: '',
      timestamp: TIME,
      signers: signers.slice(0, 1),
    });
    const names = (/h=([^;]*);/.exec(lines.replace(/\s+/g, ''))?.[1] ?? '').toLowerCase().split(':');
    const times = (name: string): number => names.filter((other) => other === name).length;
    assert.deepEqual(
      [
        'from',
        'to',
        'cc',
        'subject',
        'date',
        'reply-to',
        'message-id',
        'mime-version',
        'content-type',
        'content-transfer-encoding',
        'list-unsubscribe',
        'list-unsubscribe-post',
        'feedback-id',
        'x-own',
      ].map(times),
      [2, 3, 1, 2, 2, 1, 2, 1, 1, 1, 1, 1, 1, 0],
    );
  });

  it('breaks when a listed field is added, changed or taken away', async () => {
    const mail = (await signed(head, Buffer.from('hello\r\n'))).toString();
    const changes: readonly (readonly [string, string])[] = [
      [`From: evil@example.net\r\n${mail}`, 'a second From in front'],
      [mail.replace('\r\n\r\n', '\r\nSubject: other\r\n\r\n'), 'a second Subject behind'],
      [mail.replace('\r\n\r\n', '\r\nCc: other@example.net\r\n\r\n'), 'a field that was not there'],
      [mail.replace('Subject: Hi', 'Subject: Ho'), 'another subject'],
      [mail.replace('Subject: Hi\r\n', ''), 'no subject'],
      [mail.replace('hello', 'hallo'), 'another body'],
    ];
    for (const [changed, reason] of changes) {
      for (const verdict of await verdicts(changed)) assert.doesNotMatch(verdict, /pass/, reason);
    }
  });

  it('survives what relays do', async () => {
    const mail = (await signed(head, Buffer.from('hello  you\r\n'))).toString();
    assert.deepEqual(await verdicts(`Received: by relay\r\n${mail}`), BOTH);
    assert.deepEqual(
      await verdicts(
        mail.replace('Subject: Hi', 'SUBJECT:\r\n   Hi  ').replace('hello  you\r\n', 'hello you \r\n\r\n'),
      ),
      BOTH,
    );
  });

  it('signs any header and body', async () => {
    const name = fc.constantFrom('Subject', 'X-Own', 'From', 'Reply-To', 'List-Unsubscribe', 'Content-Type');
    const field = fc.tuple(name, fc.string({ unit: 'binary', maxLength: 200 }));
    const body = fc
      .array(fc.constantFrom(' ', '\t', '\r\n', 'a', '=', '.', 'ü', '\r\n\r\n'))
      .map((all) => Buffer.from(`${all.join('')}\r\n`));
    await fc.assert(
      fc.asyncProperty(fc.array(field, { maxLength: 6 }), body, async (fields, octets) => {
        const lines = fields.map(([key, value]) => headerLine(key, value)).join('');
        assert.deepEqual(await verdicts(await signed(`From: a@acme.test\r\n${lines}`, octets)), BOTH);
      }),
      { numRuns: 25 },
    );
  });

  it('signs addresses outside ASCII by their UTF-8 octets', async () => {
    assert.deepEqual(
      await verdicts(await signed('From: jürgen@acme.test\r\nSubject: x\r\n', Buffer.from('x\r\n'))),
      BOTH,
    );
  });

  it('rejects where a signer fails, and without any', async () => {
    const failing: DkimSigner = {
      key: { selector: 's', domain: 'd.e', algorithm: 'rsa-sha256' },
      sign: () => Promise.reject(new Error('no key')),
    };
    await assert.rejects(
      signHeaders({ head, bodyHash: '', timestamp: TIME, signers: [...signers, failing] }),
      /no key/,
    );
    await assert.rejects(signHeaders({ head, bodyHash: '', timestamp: TIME, signers: [] }), /no DKIM signer/);
  });

  describe('the example of RFC 8463 appendix A', () => {
    const fields = [
      'From: Joe SixPack <joe@football.example.com>\r\n',
      'To: Suzie Q <suzie@shopping.example.net>\r\n',
      'Subject: Is dinner ready?\r\n',
      'Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n',
      'Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n',
    ];
    const body = 'Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n';
    const bodyHash = '2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=';
    const seed = Buffer.from('nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=', 'base64');
    const privateKey = createPrivateKey({
      key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
      format: 'der',
      type: 'pkcs8',
    });

    it('has the body hash', function () {
      assert.equal(relaxedBodyHash(Buffer.from(body)), bodyHash);
      const path = corpus('dkim/rfc-vectors.json');
      if (path === null) return this.skip(NO_CORPORA);
      const vectors = JSON.parse(readFileSync(path, 'utf8')) as { rfc8463: { bh_relaxed: string } };
      assert.equal(vectors.rfc8463.bh_relaxed, bodyHash);
    });

    it('has the key record', () => {
      assert.equal(
        dkimRecord(createPublicKey(privateKey)),
        'v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
      );
    });

    it('has the Ed25519 signature, by our canonical form and our digest', () => {
      const unsigned =
        'DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n' +
        ' q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n' +
        ` bh=${bodyHash};\r\n b=`;
      const canonical = fields.map(relaxedHeader).join('') + relaxedHeader(unsigned).slice(0, -2);
      const digest = createHash('sha256').update(canonical).digest();
      const expected = '/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==';
      assert.equal(sign(null, digest, privateKey).toString('base64'), expected);
    });

    it('signs it so that the public key verifies', async () => {
      const seen: Buffer[] = [];
      const recording: DkimSigner = {
        key: { selector: 'brisbane', domain: 'football.example.com', algorithm: 'ed25519-sha256' },
        sign(data) {
          seen.push(data);
          return sign(null, data, privateKey);
        },
      };
      const lines = await signHeaders({
        head: fields.join(''),
        bodyHash,
        timestamp: 1_528_637_909,
        signers: [recording],
      });
      const signature = Buffer.from((/ b=([^;]*)$/s.exec(lines)?.[1] ?? '').replace(/\s/g, ''), 'base64');
      assert.deepEqual(
        seen.map((data) => data.length),
        [32],
      );
      assert.ok(verify(null, seen[0] ?? Buffer.alloc(0), createPublicKey(privateKey), signature));
    });
  });
});
