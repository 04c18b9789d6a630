/** A submitted mail in 8 bits for a host without 8BITMIME (RFC 6152 section 3): it arrives in 7 bits, signed as such. */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import { simpleParser } from 'mailparser';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { submissionOptions } from '../support/harness/submission.ts';

const TEXT = 'Grüße aus Köln: 5 €.\r\nPreis = 7, and a line of plain words, which keeps the part legible.\r\n';
const HEAD = 'From: hi@acme.test\r\nTo: ana@dest.test\r\nSubject: Hello\r\nMIME-Version: 1.0\r\n';
const PLAIN = `${HEAD}Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${TEXT}`;
/** Its file has a name as old clients write it, and a mail inside has such a subject. */
const NAMED = [
  `${HEAD}Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n`,
  `--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${TEXT}`,
  '--b\r\nContent-Type: application/pdf; name="Köln.pdf"\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA',
  `--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: a@b.test\r\nSubject: Grüße\r\n\r\n${TEXT}`,
  '--b--\r\n',
].join('\r\n');
const SIGNED = [
  `${HEAD}Content-Type: multipart/signed; boundary=b; protocol="application/pgp-signature"\r\n`,
  `--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${TEXT}`,
  `--b\r\nContent-Type: application/pgp-signature\r\n\r\nx\r\n--b--\r\n`,
].join('\r\n');

describe('journey: a submitted mail in 8 bits', () => {
  let server: FakeMailServer;
  let app: TestApp;

  async function submitTo(extensions: string[], raw: string, times = 1): Promise<string[]> {
    server = await startMailServer({ extensions });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    const transport = createTransport(submissionOptions(app));
    for (let n = 0; n < times; n++)
      await transport.sendMail({ envelope: { from: 'hi@acme.test', to: 'ana@dest.test' }, raw });
    const isLast = ({ type }: { type: string }): boolean => type === 'delivered' || type === 'bounced';
    const events = await app.follow().until((seen) => seen.filter(isLast).length === times);
    return events.filter(isLast).map(({ type }) => type);
  }

  const mails = () => server.sessions.flatMap(({ mails }) => mails);
  const envelopes = () => server.sessions.flatMap(({ lines }) => lines.filter((line) => line.startsWith('MAIL')));

  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  it('is encoded for a host without 8BITMIME, and its signature fits what arrives', async () => {
    const ends = await submitTo(['PIPELINING'], PLAIN, 2);
    assert.deepEqual(ends, ['delivered', 'delivered']);
    assert.equal(mails().length, 2);
    for (const line of envelopes()) assert.doesNotMatch(line, /BODY=/);
    for (const { data } of mails()) {
      assert.match(data, /^[\t\r\n\x20-\x7e]*$/);
      assert.match(data, /^Content-Transfer-Encoding: quoted-printable\r$/m);
      const parsed = await simpleParser(Buffer.from(data, 'latin1'));
      assert.equal(parsed.text?.trim(), TEXT.replaceAll('\r\n', '\n').trim());
      const body = Buffer.from(data.slice(data.indexOf('\r\n\r\n') + 4), 'latin1');
      const hash = /bh=([^;]+);/.exec(data)?.[1]?.replace(/\s/g, '');
      assert.equal(hash, relaxedBodyHash(body));
    }
  });

  it('has words in ASCII for what its client wrote into the header in raw octets', async () => {
    const raw = PLAIN.replace('Subject: Hello', 'Subject: Grüße');
    assert.deepEqual(await submitTo([], raw), ['delivered']);
    const [head = '', body = ''] = (mails()[0]?.data ?? '').split('\r\n\r\n');
    assert.match(head, /^Subject: =\?UTF-8\?B\?R3LDvMOfZQ==\?=\r$/m);
    assert.match(head + body, /^[\t\r\n\x20-\x7e]*$/);
  });

  it('keeps raw octets in the header of a mail inside of it', async () => {
    assert.deepEqual(await submitTo([], NAMED), ['delivered']);
    for (const line of envelopes()) assert.doesNotMatch(line, /BODY=/);
    const data = Buffer.from(mails()[0]?.data ?? '', 'latin1').toString();
    const odd = data.split('\r\n').filter((line) => /[^\t\x20-\x7e]/.test(line));
    assert.deepEqual(odd, ['Subject: Grüße']);
    assert.match(data, /^Content-Type: application\/pdf; name\*0\*=utf-8''K%C3%B6ln\.pdf\r$/m);
    assert.equal(data.match(/^Content-Transfer-Encoding: quoted-printable\r$/gm)?.length, 2);
  });

  it('stays octet for octet where the host offers 8BITMIME', async () => {
    await submitTo(['8BITMIME'], PLAIN);
    assert.match(envelopes()[0] ?? '', / BODY=8BITMIME/);
    assert.equal(mails()[0]?.data.split('\r\n\r\n').slice(1).join('\r\n\r\n'), Buffer.from(TEXT).toString('latin1'));
  });

  it('comes back where encoding would break a signature in it', async () => {
    assert.deepEqual(await submitTo([], SIGNED), ['bounced']);
    assert.equal(mails().length, 0);
  });
});
