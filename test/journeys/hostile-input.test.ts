/**
 * Requests of a hostile or careless caller: bodies that are not JSON, strings that break programs in every field, and line breaks
 * where a header could be smuggled in. Refused mail is a 400; mail that is taken arrives with exactly the headers it must have.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const MAIL = { from: 'Acme <hi@acme.test>', to: 'ana@dest.test', subject: 'Welcome', text: 'Good day.' };

/** Every place of a send request that takes a string, with the payload that has it there. */
const places: Readonly<Record<string, (text: string) => object>> = {
  from: (from) => ({ from }),
  'name of from': (name) => ({ from: `${name} <hi@acme.test>` }),
  'quoted name of from': (name) => ({ from: `"${name}" <hi@acme.test>` }),
  to: (to) => ({ to }),
  'name of to': (name) => ({ to: `${name} <ana@dest.test>` }),
  cc: (cc) => ({ cc: [cc] }),
  'name of cc': (name) => ({ cc: `${name} <bo@dest.test>` }),
  bcc: (bcc) => ({ bcc }),
  reply_to: (reply) => ({ reply_to: reply }),
  'name of reply_to': (name) => ({ reply_to: [`${name} <reply@acme.test>`] }),
  subject: (subject) => ({ subject }),
  html: (html) => ({ html }),
  text: (text) => ({ text }),
  'header name': (name) => ({ headers: { [name]: 'x' } }),
  'header value': (value) => ({ headers: { 'X-Own': value } }),
  filename: (filename) => ({ attachments: [{ filename, content: 'AAAA' }] }),
  'attachment content': (content) => ({ attachments: [{ filename: 'a.bin', content }] }),
  content_type: (type) => ({ attachments: [{ filename: 'a.bin', content: 'AAAA', content_type: type }] }),
  content_id: (id) => ({ attachments: [{ filename: 'a.bin', content: 'AAAA', content_id: id }] }),
  disposition: (disposition) => ({ attachments: [{ filename: 'a.bin', content: 'AAAA', disposition }] }),
  tag: (tag) => ({ tags: [tag] }),
  'metadata key': (key) => ({ metadata: { [key]: 'x' } }),
  'metadata value': (value) => ({ metadata: { order: value } }),
  stream: (stream) => ({ stream }),
  send_at: (time) => ({ send_at: time }),
  expires_at: (time) => ({ expires_at: time }),
  on_suppressed: (choice) => ({ on_suppressed: choice }),
  'template id': (id) => ({ text: undefined, template_id: id }),
  'template in html': (html) => ({ html, variables: { name: html } }),
  'template in subject': (subject) => ({ subject, variables: {} }),
  'data of subject': (name) => ({ subject: 'Good day, {{ name }}', variables: { name } }),
  'variable name': (name) => ({ variables: { [name]: name }, text: '{{ this }}' }),
  locale: (locale) => ({ variables: {}, locale }),
  timezone: (timezone) => ({ variables: {}, timezone }),
  'member name': (name) => ({ [name]: 'x' }),
};

/** The header fields of a mail of ours: all of these, and no others but those that the request named. */
const ALWAYS = [
  'from',
  'to',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'x-message-id',
  'feedback-id',
  'x-posthorn-delivery',
  'content-type',
  'dkim-signature',
  'dkim-signature',
];
const SOMETIMES = new Set(['cc', 'reply-to', 'x-own', 'content-transfer-encoding']);

describe('journey: hostile input', function () {
  this.timeout(300_000);
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });

  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const post = (body: unknown): ReturnType<TestApp['request']> => app.request('POST', '/v1/messages', body);

  it('takes no JSON of the parsing test suite for anything but a 400', async function () {
    const folder = corpus('json-testsuite');
    if (folder === null) return this.skip(NO_CORPORA);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));
    assert.ok(files.length > 100);
    for (const name of files) {
      const answer = await fetch(`${app.url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${app.key}`, 'content-type': 'application/json' },
        body: readFileSync(path.join(folder, name)),
      });
      const { error } = (await answer.json()) as { error: { code: string } };
      assert.equal(answer.status, 400, `${name}: ${error.code}`);
      if (/(?:^|\/)n_/.test(name)) assert.equal(error.code, 'invalid_json', name);
    }
  });

  it('answers naughty strings in every field with 202 or 400', async function () {
    const file = corpus('naughty-strings/blns.json');
    if (file === null) return this.skip(NO_CORPORA);
    const strings = JSON.parse(readFileSync(file, 'utf8')) as string[];
    for (const [place, payload] of Object.entries(places)) {
      // More connections at once than the system lets wait (511) would time out on a slow machine.
      for (let at = 0; at < strings.length; at += 50) {
        const asked = strings.slice(at, at + 50);
        const answers = await Promise.all(asked.map((text) => post({ ...MAIL, ...payload(text) })));
        answers.forEach(({ status, text }, n) => {
          assert.ok(
            status === 202 || status === 400 || (status === 403 && place.startsWith('from')),
            `${place}, ${JSON.stringify(asked[n])}: ${text}`,
          );
        });
      }
    }
  });

  it('lets no line break in any field become a header', async () => {
    const evil = fc.oneof(
      fc.constantFrom(
        '\r\nBcc: evil@dest.test',
        '\nBcc: evil@dest.test',
        '\rBcc: evil@dest.test',
        '\r\n\r\n<script>',
        '\u2028Bcc: evil@dest.test',
        '\u0085Bcc: evil@dest.test',
        '=?utf-8?q?=0d=0aBcc:_evil@dest.test?=',
        '=?utf-8?b?DQpCY2M6IGV2aWxAZGVzdC50ZXN0?=',
        '\0Bcc: evil@dest.test',
        '"\r\nBcc: evil@dest.test',
      ),
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.string({ unit: 'grapheme', maxLength: 200 }),
    );
    const text = fc
      .tuple(fc.string({ maxLength: 10 }), evil, fc.string({ maxLength: 10 }))
      .map((parts) => parts.join(''));
    const requests = fc.sample(fc.tuple(fc.constantFrom(...Object.keys(places)), text), {
      numRuns: 600,
      seed: 20260131,
    });
    const taken: { id: string; place: string; text: string; payload: object }[] = [];
    for (const [place, value] of requests) {
      const payload = { ...MAIL, ...places[place]?.(value) };
      const answer = await app.request<{ id: string }>('POST', '/v1/messages', payload);
      if (answer.status === 202) taken.push({ id: answer.body.id, place, text: value, payload });
      else assert.ok(answer.status === 400 || answer.status === 403, answer.text);
    }
    assert.ok(taken.length > 100 && taken.length < 600, String(taken.length));
    await app.settled();

    const mails = new Map<string, ReceivedMail[]>();
    for (const mail of server.sessions.flatMap((session) => session.mails)) {
      const id = /^X-Message-Id: (\S+)\r$/m.exec(mail.data)?.[1] ?? '';
      mails.set(id, [...(mails.get(id) ?? []), mail]);
    }
    for (const { id, place, text: value, payload } of taken) {
      const about = `${place}, ${JSON.stringify(value)}`;
      for (const mail of mails.get(id) ?? []) {
        assert.ok(!mail.to.includes('evil@dest.test'), about);
        await assertHeaders(mail, payload, about);
      }
    }
    assert.ok(mails.size > 100, String(mails.size));
  });
});

/** The names by our own eyes and by a mail reader's must be the same, and none may be more than expected. */
async function assertHeaders({ data }: ReceivedMail, payload: object, about: string): Promise<void> {
  const head = data.slice(0, data.indexOf('\r\n\r\n'));
  assert.ok(!/(?<!\r)\n|\r(?!\n)|\0/.test(data), `${about}: bare CR, LF or NUL`);
  const lines = head.split('\r\n').filter((line) => !/^[ \t]/.test(line));
  const names = lines.map((line) => line.slice(0, line.indexOf(':')).toLowerCase());
  const own = 'headers' in payload ? Object.keys(payload.headers as object).map((name) => name.toLowerCase()) : [];
  const rest = [...names];
  for (const name of ALWAYS) {
    const at = rest.indexOf(name);
    assert.ok(at >= 0, `${about}: no ${name} in\n${head}`);
    rest.splice(at, 1);
  }
  for (const name of rest) assert.ok(SOMETIMES.has(name) || own.includes(name), `${about}: ${name} in\n${head}`);
  assert.equal(new Set(rest).size, rest.length, `${about}: twice the same in\n${head}`);
  const parsed = await simpleParser(data);
  assert.deepEqual(new Set(parsed.headers.keys()), new Set(names), about);
}
