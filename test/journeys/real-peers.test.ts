/**
 * Our mail before judges who know nothing of us: Debian's Postfix takes it as any mail exchanger would, over TLS and in its
 * strict modes, OpenDKIM verifies the signatures as its milter, and what lands in the mailboxes is read back octet by octet.
 */
import type { Domain } from '../../src/client/types.ts';
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { startApp } from '../../src/app.ts';
import type { App } from '../../src/app.ts';
import { createLog } from '../../src/base/log.ts';
import { attachedMail, isMessageType } from '../../src/mail/mime-write.ts';
import { reachOperator } from '../../src/operator/door/operator.ts';
import { configFor, makeStore, newFolder } from '../support/harness/app.ts';
import { server as certificate, testCa } from '../support/harness/certificate.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';
import { readCorpusMails } from '../support/harness/corpus-mails.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { oddMails } from '../support/harness/odd-mails.ts';
import type { SampleAttachment, SampleMail } from '../support/harness/odd-mails.ts';
import { startVerifier } from '../support/harness/opendkim.ts';
import { freePort, missing, stoppedWithUs, until } from '../support/harness/peer.ts';
import { startPostfix } from '../support/harness/postfix.ts';
import type { Postfix } from '../support/harness/postfix.ts';
import { decodeWords, fieldOf, fieldsOf, mailboxOf, readMail } from '../support/harness/read-mail.ts';
import type { LeafPart, ReadMail } from '../support/harness/read-mail.ts';

const ODD_MAILS = 300;
const SEED = Number(process.env['POSTHORN_TEST_SEED'] ?? 20_260_131);
const SENDERS = 8;
const MX = 'mx1.dest.test';
/** Debian's user `nobody`, to whom the mailboxes belong. */
const MAILBOX_OWNER = 65_534;
/** Shorter than the limit of a test, so that a failure says what has not arrived. */
const PATIENCE_MS = 240_000;

/** mailauth brings no types. */
type DkimVerify = (
  mail: Buffer,
  options: { resolver: (name: string) => Promise<string[][]> },
) => Promise<{ results: { status: { result: string; comment?: string }; algo: string; signingDomain: string }[] }>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: DkimVerify };

/** A mail that was accepted, and how it arrived: each element one copy. */
interface Sent {
  mail: SampleMail;
  recipient: string;
  copies: Buffer[];
}

interface Refused {
  label: string;
  status: number;
  code: string;
  message: string;
}

describe('journey: real peers', () => {
  const stops: (() => void | Promise<void>)[] = [];
  const resolver = new FakeResolver({ 'dest.test MX': [`10 ${MX}`], [`${MX} A`]: ['127.0.0.1'] });
  const texts = new Map<string, string>();
  let app: App;
  let key: string;
  let postfix: Postfix;
  let recipients = 0;

  before(async function () {
    const absent = missing('postfix', 'opendkim');
    if (absent.length > 0) this.skip('Postfix and OpenDKIM are not installed (apt-get install postfix opendkim)');
    if (process.getuid?.() !== 0) this.skip('Postfix runs as root only');
    const port = await freePort();
    await startUs(port);
    const verifier = await startVerifier(MX, texts);
    stops.push(verifier.stop);
    postfix = await startPostfix({ hostname: MX, port, main: (dir) => receiverCf(dir, verifier.milter) });
    stops.push(postfix.stop);
  });

  after(async () => {
    for (const stop of stops.reverse()) await stop();
  });

  async function startUs(mailPort: number): Promise<void> {
    const folder = newFolder();
    stops.push(stoppedWithUs(() => rmSync(folder, { recursive: true, force: true })));
    await makeStore(folder);
    const config = configFor(folder, mailPort);
    const log = createLog({ level: 'warn', format: 'json' });
    app = await startApp(config, { resolver, ca: testCa, log });
    stops.push(() => app.stop());
    const operator = reachOperator(config);
    ({ key } = await operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'peers', scopes: ['send', 'message:read'] },
    }));
    // As an owner does it: add, publish what is asked for, have it verified.
    for (const { type, host, value } of (await operator.ask<Domain>('createDomain', { body: { name: 'acme.test' } }))
      .records) {
      resolver.zones[`${host} ${type}`] = [value];
      if (type === 'TXT') texts.set(host, value);
    }
    const verified = await operator.ask<Domain>('verifyDomain', { params: { id: 'acme.test' } });
    assert.equal(verified.status, 'verified');
    assert.deepEqual(
      verified.dkim.map(({ state }) => state),
      ['active', 'active'],
    );
  }

  it(`delivers ${String(ODD_MAILS)} odd mails, each once, unchanged and signed`, async () => {
    const { sent, refused } = await sendAll(oddMails(ODD_MAILS, SEED));
    assert.deepEqual(refused.slice(0, 5), [], 'the generator makes only what is permitted');
    await arrival(sent);
    const depths = await judge(sent);
    assert.ok(Math.max(...depths) >= 3, 'none of them had parts in parts in parts');
  });

  it('delivers what the html and multipart mails of the corpus say', async function () {
    const folder = corpus('mime');
    if (folder === null) this.skip(NO_CORPORA);
    const { mails, unusable } = await readCorpusMails(folder);
    const { sent, refused } = await sendAll(mails);
    await arrival(sent);
    await judge(sent);
    console.log(
      `      ${String(sent.size)} of the corpus delivered, ${String(refused.length)} refused, ${String(unusable.length)} unusable`,
    );
    for (const { label, status, code, message } of refused) {
      console.log(`      refused: ${label}: ${code}: ${message}`);
      assert.equal(status, 400, label);
      assert.match(code, /^(?:attachment_type_not_allowed|invalid_attachment)$/, label);
    }
    for (const line of unusable) console.log(`      unusable: ${line}`);
    assert.ok(sent.size >= 0.9 * mails.length, 'most of the corpus can be sent');
  });

  /** Keyed by message id. */
  async function sendAll(mails: readonly SampleMail[]): Promise<{ sent: Map<string, Sent>; refused: Refused[] }> {
    const sent = new Map<string, Sent>();
    const refused: Refused[] = [];
    const waiting = [...mails];
    const sender = async (): Promise<void> => {
      for (let mail = waiting.shift(); mail !== undefined; mail = waiting.shift()) {
        const recipient = `r${String(++recipients)}@dest.test`;
        const answer = await post(requestFor(mail, recipient));
        if (answer.status === 202) sent.set(String(answer.body['id']), { mail, recipient, copies: [] });
        else refused.push({ label: mail.label, status: answer.status, ...refusal(answer.body) });
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, sender));
    return { sent, refused };
  }

  async function post(body: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const answer = await fetch(`${app.url}/v1/messages`, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  /** Waits until all are in the mailbox and nothing is under way that could bring a second copy; then reads them. */
  async function arrival(sent: ReadonlyMap<string, Sent>): Promise<void> {
    const mailbox = path.join(postfix.dir, 'mail/box/new');
    const isOver = async (): Promise<boolean> =>
      filesIn(mailbox).length >= sent.size && postfix.queued() === 0 && (await unfinished()) === 0;
    await until(isOver, 'the mails to arrive', PATIENCE_MS).catch(async (cause: unknown) => {
      const troubles = postfix.log().match(/.*(?:warning|error|fatal|reject|bounce|defer).*/gi) ?? [];
      const count = `${String(filesIn(mailbox).length)} of ${String(sent.size)} arrived, ${String(await unfinished())} not delivered by our books`;
      throw new Error([count, ...troubles.slice(-20)].join('\n'), { cause });
    });
    for (const name of filesIn(mailbox)) {
      const file = path.join(mailbox, name);
      // A mailbox has the line ends of its system.
      const bytes = Buffer.from(readFileSync(file, 'latin1').replaceAll('\n', '\r\n'), 'latin1');
      rmSync(file);
      const id = /^X-Message-Id: (\S+)/m.exec(bytes.toString('latin1'))?.[1] ?? '';
      const one = sent.get(id);
      assert.ok(one, `a mail that nobody sent: ${id}`);
      one.copies.push(bytes);
    }
  }

  async function unfinished(): Promise<number> {
    const [row] = await app.db.prepared.all<{ n: number }>(
      `SELECT COUNT(*) AS n FROM deliveries WHERE status <> 'delivered'`,
    );
    return row?.n ?? 0;
  }

  /** Looks at all of them before it fails: one fault seldom comes alone. Gives how deep each one's parts lie. */
  async function judge(sent: ReadonlyMap<string, Sent>): Promise<number[]> {
    const faults: string[] = [];
    const depths: number[] = [];
    for (const [id, one] of sent) {
      try {
        depths.push(await judgeOne(id, one));
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        faults.push(`${one.mail.label}: ${error.message.slice(0, 600)}`);
      }
    }
    assert.equal(
      faults.length,
      0,
      `${String(faults.length)} of ${String(sent.size)}:\n${faults.slice(0, 10).join('\n')}`,
    );
    return depths;
  }

  async function judgeOne(id: string, { mail, recipient, copies }: Sent): Promise<number> {
    assert.equal(copies.length, 1, `arrived ${String(copies.length)} times`);
    const [bytes = Buffer.alloc(0)] = copies;
    const read = readMail(bytes);
    assert.equal(fieldOf(read, 'x-message-id'), id);
    assert.match(fieldOf(read, 'received'), /using TLSv1\.3/);
    checkHeader(read, mail, recipient);
    checkBodies(read, mail);
    checkAttachments(read, mail.attachments);
    await checkSignatures(read, bytes);
    return read.depth;
  }

  async function checkSignatures(read: ReadMail, bytes: Buffer): Promise<void> {
    const verdict = fieldsOf(read, 'authentication-results').find((value) => value.startsWith(`${MX};`)) ?? '';
    assert.match(verdict, /\bdkim=pass \(2048-bit key[^)]*\) header\.d=acme\.test [^;]*\bheader\.a=rsa-sha256\b/);
    assert.doesNotMatch(verdict, /\bdkim=(?:fail|permerror|temperror)/);
    const lookUp = async (name: string): Promise<string[][]> => {
      const text = texts.get(name);
      if (text === undefined) throw Object.assign(new Error(`no ${name}`), { code: 'ENOTFOUND' });
      return [[text]];
    };
    const { results } = await dkimVerify(bytes, { resolver: lookUp });
    assert.deepEqual(
      results.map(({ algo, signingDomain, status }) => `${algo} ${signingDomain} ${status.result}`),
      ['rsa-sha256 acme.test pass', 'ed25519-sha256 acme.test pass'],
    );
  }
});

/** A mail exchanger for dest.test that trusts no client, not even on loopback, and hands everything into one mailbox. */
function receiverCf(dir: string, milter: string): string {
  mkdirSync(path.join(dir, 'mail'));
  chownSync(path.join(dir, 'mail'), MAILBOX_OWNER, MAILBOX_OWNER);
  writeFileSync(path.join(dir, 'tls.pem'), certificate.key + certificate.cert);
  chmodSync(path.join(dir, 'tls.pem'), 0o600);
  return `mynetworks = 192.0.2.1
local_header_rewrite_clients =
smtpd_relay_restrictions = reject_unauth_destination
smtpd_tls_security_level = encrypt
smtpd_tls_chain_files = ${dir}/tls.pem
smtpd_tls_received_header = yes
smtpd_forbid_bare_newline = reject
smtpd_forbid_unauth_pipelining = yes
strict_rfc821_envelopes = yes
strict_7bit_headers = yes
strict_8bitmime = yes
smtpd_milters = ${milter}
milter_default_action = tempfail
message_size_limit = 60000000
virtual_mailbox_domains = dest.test
virtual_mailbox_base = ${dir}/mail
virtual_mailbox_maps = static:box/
virtual_mailbox_limit = 0
virtual_uid_maps = static:${String(MAILBOX_OWNER)}
virtual_gid_maps = static:${String(MAILBOX_OWNER)}
`;
}

function requestFor(mail: SampleMail, recipient: string): unknown {
  return {
    from: mailbox(mail.fromName, 'hi@acme.test'),
    to: mailbox(mail.toName, recipient),
    subject: mail.subject,
    html: mail.html,
    text: mail.text,
    attachments: mail.attachments.map(({ filename, content, contentType, contentId, disposition }) => ({
      filename,
      content: content.toString('base64'),
      content_type: contentType,
      content_id: contentId,
      disposition,
    })),
  };
}

function mailbox(name: string | null, address: string): string {
  return name === null ? address : `"${name.replace(/["\\]/g, '\\$&')}" <${address}>`;
}

function refusal(body: Record<string, unknown>): { code: string; message: string } {
  const { code, message } = body['error'] as { code: string; message: string };
  return { code, message };
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Postfix makes it with the first mail.
    return [];
  }
}

function checkHeader(read: ReadMail, mail: SampleMail, recipient: string): void {
  const subject = inHeader(mail.subject).replace(/^ +| +$/g, '');
  assert.equal(decodeWords(fieldOf(read, 'subject')), subject, 'subject');
  assert.deepEqual(mailboxOf(fieldOf(read, 'from')), { name: named(mail.fromName), address: 'hi@acme.test' });
  assert.deepEqual(mailboxOf(fieldOf(read, 'to')), { name: named(mail.toName), address: recipient });
  assert.equal(fieldOf(read, 'delivered-to'), recipient);
}

const named = (name: string | null): string | null => (name === null ? null : inHeader(name));

/** A header has no control characters, and none that readers take for a line end: each run of them is a space. */
function inHeader(text: string): string {
  return text.toWellFormed().replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ');
}

/** An invitation is another form of the text: a part without a disposition, and without a file name. */
const isInvitation = ({ disposition, type }: LeafPart): boolean => disposition === null && type === 'text/calendar';

function checkBodies(read: ReadMail, { html, text }: SampleMail): void {
  const bodies = read.leaves.filter((part) => part.disposition === null && !isInvitation(part));
  const plain = bodies.filter(({ type }) => type === 'text/plain');
  const rich = bodies.filter(({ type }) => type === 'text/html');
  assert.equal(plain.length + rich.length, bodies.length, 'a body that is neither text nor html');
  // With html alone a text is derived from it, or there is none.
  if (text === null) assert.ok(plain.length <= 1);
  else sameText(plain, text, read);
  if (html === null) assert.equal(rich.length, 0);
  else sameText(rich, html, read);
}

/** Text has CRLF line ends in a mail (RFC 2046 section 4.1.1), and a mail ends with one. */
function sameText(found: readonly LeafPart[], wanted: string, { leaves }: ReadMail): void {
  assert.equal(found.length, 1);
  const [{ content } = { content: Buffer.alloc(0) }] = found;
  // PostgreSQL stores no NUL, which RFC 5322 section 2.3 does not allow in mail.
  const stored = isOnPostgres ? wanted.replaceAll('\0', '\uFFFD') : wanted;
  const lines = stored.toWellFormed().replace(/\r\n?|\n/g, '\r\n');
  const isWholeMail = leaves.length === 1;
  const same = content.equals(Buffer.from(lines)) || (isWholeMail && content.equals(Buffer.from(`${lines}\r\n`)));
  if (!same) assert.equal(content.toString(), lines, 'body');
}

function checkAttachments(read: ReadMail, wanted: readonly SampleAttachment[]): void {
  const found = read.leaves.filter((part) => part.disposition !== null || isInvitation(part));
  assert.deepEqual(found.map(described).sort(), wanted.map(expected).sort());
  const contents = (list: readonly { filename: string | null; content: Buffer }[]): string[] =>
    list.map(({ filename, content }) => `${filename ?? ''} ${content.toString('base64')}`).sort();
  const [ours, theirs] = [contents(wanted.map(onTheWire)), contents(found)];
  for (const [at, one] of ours.entries())
    assert.ok(one === theirs[at], `the content of attachment ${one.slice(0, 80)}`);
}

const INVITATION = /^text\/calendar;.*method=/i;

/** An attached mail may be encoded by nothing but its own parts (RFC 2046 section 5.2.1), and a report by nothing: test/mail/attached-mail.test.ts. */
function onTheWire(attachment: SampleAttachment): Omit<SampleAttachment, 'filename'> & { filename: string | null } {
  const { contentType, content } = attachment;
  if (contentType !== null && INVITATION.test(contentType)) return { ...attachment, filename: null };
  return contentType !== null && isMessageType(contentType)
    ? { ...attachment, content: attachedMail(contentType, content, 'in no mail').content }
    : attachment;
}

const described = ({ filename, disposition, contentId }: LeafPart): string =>
  JSON.stringify([filename, disposition, contentId]);

const expected = ({ filename, disposition, contentId, contentType }: SampleAttachment): string =>
  contentType !== null && INVITATION.test(contentType)
    ? JSON.stringify([null, null, null])
    : JSON.stringify([filename, disposition ?? (contentId === null ? 'attachment' : 'inline'), contentId]);
