/** Submission (RFC 6409, RFC 8314) with an API key, under the rules of the API, the body unchanged. 250 means that the mail is durable. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { Problem, invalid } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { parseMailbox, addressKey, type Mailbox } from '../mail/address.ts';
import type { Handlers } from './listener.ts';
import { noKeyInClear, refusalOf, refuse, type SmtpRefusal } from './smtp-refusal.ts';
import {
  callerByKey,
  callerOfSession,
  createRefusalLog,
  createUnknownKeys,
  isTrusted,
  submissionAudit,
  type CallerResult,
  type SubmissionDeps,
  type SubmissionSession,
  type SubmissionSettings,
  type Submitter,
} from './submission-session.ts';
import { newId } from '../base/id.ts';
import { dateTime } from '../mail/header.ts';
import type { SubmittedMail, SubmissionOptions } from '../mail/submitted.ts';
import { acceptSingle } from '../messages/accept/accept.ts';
import type { MessageContent, MessageDraft } from '../messages/request/send-request.ts';
import { isKeyTaken, KEEP_MS, recordKey } from '../storage/idempotency-store.ts';
import type { Rows } from '../storage/rows.ts';
import type { IdempotencyRow } from '../storage/tables.ts';
import type { AcceptableMail } from './submission-worker.ts';
import { MOST_METADATA_KEYS, MOST_TAGS } from '../messages/request/send-limits.ts';
import { tagSchema } from '../messages/request/send-schema.ts';
import { checkSendAt } from '../messages/request/send-time.ts';

export function submissionHandlers(deps: SubmissionDeps, settings: SubmissionSettings): Handlers<Submitter> {
  const logged = createRefusalLog(deps);
  const unknownKey = createUnknownKeys(deps);
  const acceptor = new SubmissionAcceptor(deps, settings);
  const callerOf = (session: SubmissionSession): Promise<CallerResult> => callerOfSession(deps, settings, session);

  return {
    // The key alone says who sends: programs have the user names of other services (`resend`, `api`, the key twice).
    async authenticate(session, _name, password) {
      const refused = (caller: Caller | null, refusal: SmtpRefusal): Promise<SmtpRefusal> =>
        logged(session, 'AUTH', caller, refusal);
      if (!session.isSecure && !isTrusted(settings, session.ip)) return refused(null, noKeyInClear);
      const result = await callerByKey(deps, password, session.ip);
      if (!('caller' in result))
        return result.of === undefined ? refused(null, unknownKey(session, result)) : refused(result.of, result);
      const { caller } = result;
      return { user: { token: password, keyId: caller.keyId } };
    },
    isTrusted: (ip) => isTrusted(settings, ip),
    async sender(session) {
      const result = await callerOf(session);
      if (!('caller' in result)) return logged(session, 'MAIL', null, result);
      const { caller } = result;
      const wait = deps.takeRequest(caller.accountId, caller.plan);
      if (wait === null) return null;
      const refusal = refuse(450, `4.7.1 rate limit: try again in ${String(wait)} seconds`);
      return logged(session, 'MAIL', caller, refusal);
    },
    recipient(session, address) {
      const parsed = parseMailbox(address, settings);
      if (parsed.kind === 'bad') return Promise.resolve(refuse(553, `5.1.3 ${parsed.why}`));
      if (session.recipients.length >= settings.recipients)
        return Promise.resolve(refuse(452, `4.5.3 at most ${String(settings.recipients)} recipients at once`));
      return Promise.resolve(null);
    },
    tooLarge(session, step) {
      const refusal = refuse(552, '5.3.4 the mail is too large');
      void callerOf(session)
        .then((found) => logged(session, step, 'caller' in found ? found.caller : null, refusal))
        .catch(deps.failed);
    },
    async data(session, bytes) {
      const started = deps.clock.monotonic();
      const result = await callerOf(session);
      if (!('caller' in result)) return logged(session, 'DATA', null, result);
      const { caller } = result;
      deps.noteUse(caller.keyId, session.ip, 'SMTP');
      const turn = deps.intake.begin(caller.accountId);
      try {
        await turn.take(bytes.length);
        const read = await deps.reader.read(bytes);
        if (!('digest' in read)) return await logged(session, 'DATA', caller, refuse(554, read.mail.text));
        const id = await acceptor.accept(session, caller, { started, ...read });
        return `2.0.0 queued as ${id}`;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        const refusal = refusalOf(error);
        await deps.audit.write(
          submissionAudit(deps, session, { step: 'DATA', caller, code: refusal.code, problem: error.code, started }),
        );
        return refusal;
      } finally {
        turn.end();
      }
    },
  };
}

/** Returns what makes the draft of a mail that comes by HTTP. `given`: `to`, `cc`, and options before the mail's own. Throws a Problem. */
export function createMailDrafts(deps: SubmissionDeps, settings: SubmissionSettings) {
  const acceptor = new SubmissionAcceptor(deps, settings);
  return async (bytes: Buffer, given: MessageDraft, { caller, ip }: { caller: Caller; ip: string }) => {
    const read = await deps.reader.read(bytes);
    if (!('digest' in read)) throw invalid('message', read.mail.text.replace(/^[\d.]+ /, ''));
    const { mail } = read;
    const options = submissionOptions(mail.options, deps.clock.now());
    if (options.idempotencyKey !== null)
      throw wrong('invalid_idempotency_key', 'idempotency-key', 'is for SMTP: send the header Idempotency-Key instead');
    const { sendAt, stream, test, trackOpens, trackClicks, tags, metadata } = given;
    const all = {
      ...options,
      sendAt: sendAt ?? options.sendAt,
      stream: stream ?? options.stream,
      trackOpens: trackOpens ?? options.trackOpens,
      trackClicks: trackClicks ?? options.trackClicks,
      tags: [...new Set([...tags, ...options.tags])].slice(0, MOST_TAGS),
      metadata: { ...options.metadata, ...metadata },
    };
    refuseTracked(mail, all);
    const recipients = [given.to, ...given.cc].map(({ address }) => address);
    const envelope = { recipients, sender: '', requireTls: false, helo: '', ip, protocol: 'HTTP' };
    return { ...(await acceptor.draft(envelope, caller, mail, all)), test };
  };
}

/** Throws a Problem if a mail is to be tracked whose body may not be changed. */
function refuseTracked({ isSealed }: SubmittedMail, { trackOpens, trackClicks }: SubmissionOptionFields): void {
  if (!isSealed || !(trackOpens || trackClicks)) return;
  throw invalid(
    `X-Posthorn-Track-${trackOpens ? 'Opens' : 'Clicks'}`,
    'a signed or encrypted mail cannot be tracked: leave out X-Posthorn-Track-*',
  );
}

/** The parts of a session that the draft of its mail depends on. */
type Envelope = Pick<SubmissionSession, 'recipients' | 'sender' | 'requireTls' | 'helo' | 'ip' | 'protocol'>;

class SubmissionAcceptor {
  private readonly deps: SubmissionDeps;
  private readonly settings: SubmissionSettings;

  constructor(deps: SubmissionDeps, settings: SubmissionSettings) {
    this.deps = deps;
    this.settings = settings;
  }

  /** Resolves with the id of the message, which is durable then. `started`: when DATA began, on the monotonic clock. Throws Problem. */
  async accept(
    session: SubmissionSession,
    caller: Caller,
    { mail, digest, started }: AcceptableMail & { started: number },
  ): Promise<string> {
    const { deps } = this;
    const options = submissionOptions(mail.options, deps.clock.now());
    refuseTracked(mail, options);
    const key =
      options.idempotencyKey === null
        ? null
        : recordKey(caller.accountId, caller.mode, 'SMTP', placeOf(session), options.idempotencyKey);
    const audited = { step: 'DATA', caller, code: 250, problem: null, started };
    const before = key === null ? null : await this.idOfFirst(session, key, digest, audited);
    if (before !== null) return before;
    const draft = await this.draft(session, caller, mail, options);
    const now = deps.clock.now();
    const by = { requestId: newId('req', now), ...caller };
    const alsoWrite = (): Rows => ({
      audit: [submissionAudit(deps, session, { requestId: by.requestId, ...audited })],
      ...(key === null ? {} : { idempotency: [idempotencyRow(key, digest, draft.source?.id ?? '', now)] }),
    });
    try {
      return (await acceptSingle(deps.accept, by, draft, alsoWrite)).id;
    } catch (error) {
      // A mail with the same key was accepted meanwhile, and this one was rolled back.
      const first = key !== null && isKeyTaken(error) ? await this.idOfFirst(session, key, digest, audited) : null;
      if (first === null) throw error;
      return first;
    }
  }

  async draft(
    session: Envelope,
    caller: Caller,
    mail: SubmittedMail,
    options: SubmissionOptionFields,
  ): Promise<MessageDraft> {
    const noticeTo = await this.noticeAddress(session, caller);
    const sender = await this.senderOf(caller, mail);
    const now = this.deps.clock.now();
    return this.draftOf(session, mail, options, { id: newId('msg', now), now, noticeTo, sender });
  }

  /** Returns the id of the message that was accepted with this key before, or null. Throws a Problem if it was another mail. */
  private async idOfFirst(
    session: SubmissionSession,
    key: string,
    digest: string,
    audited: Parameters<typeof submissionAudit>[2],
  ): Promise<string | null> {
    const { deps } = this;
    const { store, onMismatch } = deps.idempotency;
    const row = await store.find(key);
    if (row === null) return null;
    if (row.body_hash !== digest && onMismatch === 'error')
      throw new Problem('idempotency_key_reused', 'this idempotency key was used with another mail');
    await deps.audit.write(submissionAudit(deps, session, { isReplay: true, ...audited }));
    return (JSON.parse(row.body) as { id: string }).id;
  }

  /** Returns the address for a notice of failure: the envelope's sender if its domain is the account's own, else the operator (RFC 5321, 6.1). */
  private async noticeAddress({ sender }: Envelope, { accountId }: Caller): Promise<string | null> {
    const { deps } = this;
    const { notify, operatorAddress } = this.settings;
    const parsed = parseMailbox(sender, { smtputf8: true });
    if (notify === 'none' || sender === '') return null;
    // Many programs write `root@web1`, which no notice reaches. Their mail is taken all the same.
    const mailbox = notify === 'sender' && parsed.kind === 'ok' ? parsed.mailbox : null;
    const isOwn = mailbox !== null && (await deps.isVerified(accountId, mailbox.domain));
    const address = isOwn ? mailbox.address : operatorAddress;
    if (address !== null) await deps.ownAccount.ensure();
    return address;
  }

  /** Returns the mailbox of Sender if the key may send as it too, else null: readers show it as the one who sent the mail. */
  private async senderOf({ accountId, domains }: Caller, { sender, from }: SubmittedMail): Promise<Mailbox | null> {
    if (sender === null || sender.domain === from.domain) return sender;
    const isOfKey = domains.length === 0 || domains.includes(sender.domain);
    return isOfKey && (await this.deps.isVerified(accountId, sender.domain)) ? sender : null;
  }

  private draftOf(
    session: Envelope,
    mail: SubmittedMail,
    options: SubmissionOptionFields,
    { id, now, noticeTo, sender }: { id: string; now: number; noticeTo: string | null; sender: Mailbox | null },
  ): MessageDraft {
    const recipients = session.recipients.map((address) => {
      const parsed = parseMailbox(address, this.settings);
      if (parsed.kind === 'bad') throw new Problem('invalid_recipient', parsed.why);
      const key = addressKey(parsed.mailbox.address);
      return { type: mail.to.has(key) ? 'to' : mail.cc.has(key) ? 'cc' : 'bcc', mailbox: parsed.mailbox } as const;
    });
    const [first] = recipients;
    if (first === undefined) throw new Error('a mail without recipients');
    const of = (type: 'cc' | 'bcc'): Mailbox[] =>
      recipients.slice(1).flatMap((one) => (one.type === type ? [one.mailbox] : []));
    const rfcMessageId = mail.messageId ?? `<${id}@${mail.from.domain}>`;
    const received = receivedBy(session, { id, now, hostname: this.settings.hostname });
    return {
      from: mail.from,
      to: first.mailbox,
      cc: of('cc'),
      bcc: of('bcc'),
      replyTo: mail.replyTo,
      subject: mail.subject,
      content: emptyContent(),
      source: {
        id,
        rfcMessageId,
        bytes: this.deps.reader.finish(mail, { received, messageId: rfcMessageId, date: new Date(now), sender }),
        facts: mail.facts,
        recipients,
        noticeTo,
      },
      requireTls: session.requireTls ? true : mail.waivesTls ? false : null,
      headers: [],
      ...options,
      expiresAt: null,
      unsubscribe: false,
      onSuppressed: 'accept',
      test: null,
    };
  }
}

/** Returns the place of a key, with the recipients: a mail with too many comes in several sessions (RFC 5321 section 4.5.3.1.10). */
function placeOf({ recipients }: SubmissionSession): string {
  const keys = recipients.map((address) => addressKey(address)).sort();
  return `submission ${hash('sha256', keys.join(' '), 'hex')}`;
}

const emptyContent = (): MessageContent => ({ html: null, text: null, autoText: false, attachments: [] });

const idempotencyRow = (key: string, bodyHash: string, id: string, now: number): IdempotencyRow => ({
  key,
  body_hash: bodyHash,
  status: 250,
  headers_json: '{}',
  body: JSON.stringify({ id }),
  created_at: now,
  expires_at: now + KEEP_MS,
  key_id: null,
});

/** Returns the Received field (RFC 5321 section 4.4). The client's name is not checked beyond its form. */
function receivedBy(
  { helo, ip, protocol }: Envelope,
  { id, now, hostname }: { id: string; now: number; hostname: string },
): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const literal = ip.includes(':') ? `IPv6:${ip}` : ip;
  const date = dateTime(new Date(now));
  return `from ${name} ([${literal}])\r\n by ${hostname} with ${protocol} id ${id};\r\n ${date}`;
}

const MOST_METADATA_BYTES = 10 * 1024;

const once = z
  .array(z.string())
  .max(1, 'occurs twice')
  .transform(([value = '']) => value);
const onceLike = (form: RegExp, says: string) => once.pipe(z.string().regex(form, says)).nullable().default(null);
/** A mail is tracked only if it asks for that, since all else of it is sent unchanged. */
const flag = once
  .pipe(
    z
      .string()
      .trim()
      .regex(/^(?:true|yes|1|false|no|0)$/i, 'must be true or false'),
  )
  .transform((value) => /^[ty1]/i.test(value))
  .default(false);
const nameAndValue = (pair: string): [string, string] => [
  pair.slice(0, pair.indexOf('=')),
  pair.slice(pair.indexOf('=') + 1),
];
const someTags = z.array(tagSchema).max(MOST_TAGS);

/** The fields of a mail that say how it is sent, by their names without `X-Posthorn-`. Tags and metadata may be given several times, tags also with commas. */
const optionFields = z.strictObject({
  stream: onceLike(/^[a-z][a-z0-9-]{0,31}$/, 'must be the slug of a stream'),
  tag: z
    .array(z.string())
    .transform((values) => [...new Set(values.flatMap((value) => value.split(',').map((tag) => tag.trim())))])
    .refine((tags) => someTags.safeParse(tags).success, 'may name 10 tags of 1 to 128 characters')
    .default([]),
  metadata: z
    .array(z.string().regex(/^[A-Za-z0-9_.-]{1,64}=.{0,500}$/, 'must be name=value'))
    .refine(
      (pairs) => pairs.length <= MOST_METADATA_KEYS && Buffer.byteLength(pairs.join('')) <= MOST_METADATA_BYTES,
      'may occur 50 times, with 10 KiB in all',
    )
    .transform((pairs) => Object.fromEntries(pairs.map(nameAndValue)))
    .default({}),
  'send-at': once.nullable().default(null),
  'idempotency-key': onceLike(/^[!-~]{1,255}$/, 'must be 1 to 255 visible ASCII characters'),
  'track-opens': flag,
  'track-clicks': flag,
});

type SubmissionOptionFields = ReturnType<typeof submissionOptions>;

/** Throws a Problem whose field is the header's name. */
export function submissionOptions(options: SubmissionOptions, now: number) {
  const read = optionFields.safeParse(Object.fromEntries(options));
  if (!read.success) throw wrongOption(read.error.issues[0]);
  const { stream, tag: tags, metadata, 'send-at': sendAt, 'idempotency-key': idempotencyKey } = read.data;
  const at = sendAt === null ? null : checkSendAt(sendAt, now, header('send-at'));
  return {
    stream,
    tags,
    metadata,
    sendAt: at !== null && at > now ? at : null,
    idempotencyKey,
    trackOpens: read.data['track-opens'],
    trackClicks: read.data['track-clicks'],
  };
}

function wrongOption(issue: z.core.$ZodIssue | undefined): Problem {
  if (issue?.code === 'unrecognized_keys') return wrong('unknown_field', issue.keys[0] ?? '', 'is not known');
  const name = String(issue?.path[0] ?? '');
  const code = name === 'idempotency-key' ? 'invalid_idempotency_key' : 'invalid_field';
  return wrong(code, name, issue?.message ?? 'is wrong');
}

const header = (name: string): string => `X-Posthorn-${name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())}`;

const wrong = (
  code: 'unknown_field' | 'invalid_field' | 'invalid_idempotency_key',
  name: string,
  why: string,
): Problem => new Problem(code, `${header(name)} ${why}`, { field: header(name) });
