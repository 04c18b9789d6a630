/** Mails that a provider has signed for one of its users, made to look like the provider's own report; and genuine reports. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, hash, sign } from 'node:crypto';
import { loopClaim, type FeedbackLoop } from '../../src/inbound/feedback-loops.ts';
import { withCrlfLines } from '../../src/inbound/data-mode.ts';
import { readFeedbackLoops } from '../../src/inbound/words-file.ts';
import { relaxedBodyHash, relaxedHeader, simpleBody } from '../../src/mail/dkim/canonicalize.ts';
import { dkimRecord } from '../../src/mail/dkim/key-record.ts';
import { isSignedBy } from '../../src/mail/dkim/verify.ts';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const record = dkimRecord(publicKey);
const NOW = Date.parse('2026-01-31T09:30:00Z') / 1000;
const BODY = 'It is abuse.\r\n';
const JMRP = 'staff@hotmail.com';

interface Signing {
  domain?: string;
  names?: string;
  /** Tags besides those that every signature has. */
  tags?: string;
  isSimple?: boolean;
}

/** Signs the mail as its provider does; fields are named as they are signed. */
function signed(fields: readonly string[], signing: Signing = {}): string {
  const { domain = 'hotmail.com', names = 'from:to:subject', tags = '', isSimple = false } = signing;
  const bodyHash = isSimple
    ? hash('sha256', simpleBody(Buffer.from(BODY)), 'base64')
    : relaxedBodyHash(Buffer.from(BODY));
  const canon = isSimple ? 'simple/simple' : 'relaxed/relaxed';
  const unsigned = `DKIM-Signature: v=1; a=ed25519-sha256; c=${canon}; d=${domain}; s=s; h=${names};${tags} bh=${bodyHash}; b=`;
  const asSigned = isSimple ? (field: string): string => `${field}\r\n` : relaxedHeader;
  const covered = [...new Set(names.split(':'))].flatMap((name) =>
    fields.filter((one) => one.toLowerCase().startsWith(`${name}:`)).slice(-1),
  );
  const data = Buffer.from(covered.map(asSigned).join('') + asSigned(unsigned).slice(0, -2));
  const signature = sign(null, hash('sha256', data, 'buffer'), privateKey).toString('base64');
  return [...fields, `${unsigned}${signature}`, '', BODY].join('\r\n');
}

const report = (from: string, signing?: Signing): string =>
  signed([`From: ${from}`, 'To: fbl@mx.acme.example', 'Subject: complaint'], signing);

/** The loop that the mail proves to come from, as port 25 takes it. */
async function provenBy(mail: string, loops: readonly FeedbackLoop[] = readFeedbackLoops()): Promise<string | null> {
  const pieces: Buffer[] = [];
  const read = withCrlfLines((take) => {
    take(Buffer.from(mail));
    return Promise.resolve();
  });
  await read((piece) => pieces.push(piece));
  // Unchanged, too: files are not taken at a door.
  const claims = [Buffer.concat(pieces).toString('latin1'), mail].map((octets) => loopClaim(loops, octets, NOW));
  const names = claims.map((claim) =>
    claim?.claims.some((one) => isSignedBy(one, record)) === true ? claim.name : null,
  );
  return names.find((name) => name !== null) ?? null;
}

describe('inbound/feedback-loops', () => {
  for (const { name, from, dkim: domain } of readFeedbackLoops()) {
    const address = from.startsWith('@') ? `fbl${from}` : from;
    it(`believes ${name}, in each form of a mailbox and of a signature`, async () => {
      for (const field of [
        address,
        `<${address}>`,
        `${name} <${address}>`,
        `"${name}" <${address}>`,
        `Feedback\r\n <${address}>`,
      ])
        for (const isSimple of [false, true])
          assert.equal(await provenBy(report(field, { domain, isSimple })), name, field);
      assert.equal(
        await provenBy(report(address, { domain, names: 'from:from:to:subject' })),
        name,
        'From is signed twice',
      );
      assert.equal(await provenBy(report(address.toUpperCase(), { domain })), name);
    });
  }

  it('believes hosts below a domain, if the file says so', async () => {
    const loops = [{ name: 'L', from: '@loop.example', dkim: 'loop.example' }];
    assert.equal(await provenBy(report('a@mx.loop.example', { domain: 'loop.example' }), loops), 'L');
    assert.equal(await provenBy(report('a@evilloop.example', { domain: 'loop.example' }), loops), null);
  });

  const mallory = report('mallory@hotmail.com');
  const fields = ['To: fbl@mx.acme.example', 'Subject: complaint'];
  for (const [what, mail] of [
    ['an unsigned From in front, ended by bare LF', `X-A: x\nFrom: ${JMRP}\nTo: fbl@mx.acme.example\n\n${mallory}`],
    ['the same in one field', `X-A: x\nFrom: ${JMRP}\n${mallory}`],
    ['the same with bare CR', `X-A: x\rFrom: ${JMRP}\r\r${mallory}`],
    ['a name that fills what is looked at', report(`"${`${JMRP} `.repeat(60)}" <mallory@hotmail.com>`)],
    [
      'a From of two lines, the second a thousand octets behind',
      report(`${JMRP}${' '.repeat(990)}\r\n <mallory@hotmail.com>`),
    ],
    ['a second From in front', `From: ${JMRP}\r\n${mallory}`],
    ['a second From behind', mallory.replace('\r\n\r\n', `\r\nFrom: ${JMRP}\r\n\r\n`)],
    ['a second From with a space before its colon', `From : ${JMRP}\r\n${mallory}`],
    ['a second From in capitals', `FROM: ${JMRP}\r\n${mallory}`],
    ['a From that is a folded line of another field', `X-A: x\r\n From: ${JMRP}\r\n${mallory}`],
    ['the address as a name', report(`"${JMRP}" <mallory@hotmail.com>`)],
    ['the address as a bare name', report(`${JMRP} <mallory@hotmail.com>`)],
    ['a user as a bare name before the address', report(`mallory@hotmail.com <${JMRP}>`)],
    ['the address as an encoded name', report(`=?utf-8?q?staff=40hotmail=2Ecom?= <mallory@hotmail.com>`)],
    ['a list', report(`${JMRP}, mallory@hotmail.com`)],
    ['a list the other way round', report(`mallory@hotmail.com, <${JMRP}>`)],
    ['two addresses in brackets', report(`<mallory@hotmail.com> <${JMRP}>`)],
    ['a group', report(`mallory@hotmail.com: ${JMRP};`)],
    ['a comment', report(`${JMRP} (mallory@hotmail.com)`)],
    ['a comment in front', report(`(mallory@hotmail.com) <${JMRP}>`)],
    ['a route', report(`<@hotmail.com:${JMRP}>`)],
    ['a quoted local part', report('"staff@hotmail.com"@hotmail.com')],
    ['Sender and Reply-To', signed([`Sender: ${JMRP}`, `Reply-To: ${JMRP}`, 'From: mallory@hotmail.com', ...fields])],
    ['a signature of a domain below', report(JMRP, { domain: 'evil.hotmail.com' })],
    ['a signature of a domain that begins so', report(JMRP, { domain: 'hotmail.com.evil.example' })],
    ['a signature of another loop', report(JMRP, { domain: 'senderscore.net' })],
    ['a signature without From', report(JMRP, { names: 'to:subject' })],
    ['a signature of a part of the body', `${report(JMRP, { tags: ` l=${String(BODY.length)};` })}More.\r\n`],
    ['a signature that has ended', report(JMRP, { tags: ` x=${String(NOW - 1)};` })],
    ['another body', report(JMRP).replace('abuse', 'ABUSE')],
    ['another To', report(JMRP).replace('fbl@mx.acme', 'fbl@mx.evil')],
    ['another From than the signed one', mallory.replace('From: mallory@', 'From: staff@')],
    ['a NUL in the address', report('staff\0@hotmail.com')],
    ['the address in brackets in a quoted name', report(`"<${JMRP}>" <mallory@hotmail.com>`)],
    ['two addresses with a semicolon', report(`${JMRP}; mallory@hotmail.com`)],
    ['a domain literal', report('staff@[hotmail.com]')],
    ['a percent hack', report('staff%hotmail.com@hotmail.com')],
    ['a letter that looks the same', report('staff@hotm\u0430il.com')],
    ['a tagged address', report('staff+x@hotmail.com')],
    ['Resent-From', signed([`Resent-From: ${JMRP}`, 'From: mallory@hotmail.com', ...fields])],
    ['a second h= in the signature', report(JMRP, { names: 'to:subject', tags: ' h=from:to:subject;' })],
    ['an address behind a folded quote', report(`"${JMRP}\r\n " <mallory@hotmail.com>`)],
    ['a field in the body', mallory.replace('\r\n\r\n', `\r\n\r\nFrom: ${JMRP}\r\n\r\n`)],
    ['a header in the middle of the head', mallory.replace('\r\nTo:', `\r\n\r\nFrom: ${JMRP}\r\nTo:`)],
  ] as const)
    it(`does not believe ${what}`, async () => {
      assert.equal(await provenBy(mail), null);
    });

  it('finds the signature of those mails good, if it were for their own From', async () => {
    assert.equal(await provenBy(mallory, [{ name: 'M', from: 'mallory@hotmail.com', dkim: 'hotmail.com' }]), 'M');
  });

  it('passes a good signature beside a bad one', async () => {
    const bad = 'DKIM-Signature: v=1; a=ed25519-sha256; d=hotmail.com; s=s; h=from; bh=AAAA; b=AAAA\r\n';
    assert.equal(await provenBy(bad + report(JMRP)), 'Microsoft JMRP');
  });
});
