/**
 * Submission (RFC 6409, RFC 8314) for programs that speak only SMTP: whoever signs in with an API key may send, under the same
 * rules as over the API, and the mail goes out as it came. 250 means what 202 means: it is durable.
 */
import { Allowance } from '../scheduling/allowance.ts';
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { networkOf } from '../net/ip.ts';
import { Problem } from '../base/problem.ts';
import { actorOf, type Authenticate, type Caller } from '../keys/caller.ts';
import { isIpAllowed } from '../keys/ip-list.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { addressKey, parseMailbox, type Mailbox } from '../mail/address.ts';
import type { SubmittedMail } from '../mail/submitted.ts';
import { acceptSingle, type AcceptDeps } from '../messages/accept/accept.ts';
import type { MessageContent, MessageDraft } from '../messages/request/send-request.ts';
import { KEEP_MS, recordKey, type IdempotencyStore } from '../storage/idempotency-store.ts';
import type { Rows } from '../storage/rows.ts';
import { auditRow, type ActWords } from '../operations/audit-row.ts';
import type { AuditRow, IdempotencyRow } from '../storage/tables.ts';
import type { Handlers, Session } from './listener.ts';
import { refusalOf, refuse, type SmtpRefusal } from './smtp-refusal.ts';
import { submissionOptions } from './submission-options.ts';
import type { SubmissionReader } from './submission-reader.ts';

export interface SubmissionDeps {
  clock: Clock;
  accept: AcceptDeps;
  authenticate: Authenticate;
  /** The key that programs of trusted networks send with, or null. */
  trustedCaller(): Promise<Caller | null>;
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** Counts a request of the account; the seconds to wait, or null where it may go on. */
  takeRequest(accountId: string, plan: string): number | null;
  audit: { write(row: AuditRow): Promise<void> };
  idempotency: { store: IdempotencyStore; onMismatch: 'replay' | 'error' };
  reader: SubmissionReader;
  usedUp: UsedUp;
  /** Takes what could not be written beside a session. */
  failed: (error: unknown) => void;
  isVerified(accountId: string, domain: string): Promise<boolean>;
  /** The account of our own mail, which notices belong to. */
  ownAccount: { ensure(): Promise<void> };
}

export interface SubmissionSettings {
  hostname: string;
  /** CIDR ranges whose clients need no TLS, and no sign-in where there is a key for them. */
  trustedNetworks: readonly string[];
  smtputf8: boolean;
  recipients: number;
  /** Who is told where a mail has failed in the end. */
  notify: 'sender' | 'operator' | 'none';
  operatorAddress: string | null;
}

/** Who has signed in: the key itself is kept to ask anew before each mail, since it may be revoked meanwhile. */
export interface Submitter {
  token: string | null;
  keyId: string;
}

type Standing = { caller: Caller } | SmtpRefusal;

export function submissionHandlers(deps: SubmissionDeps, settings: SubmissionSettings): Handlers<Submitter> {
  const inFlight = new Map<string, Promise<unknown>>();
  const notes = new Allowance(budgets.submission_audit_network);
  const isTrusted = (ip: string): boolean =>
    settings.trustedNetworks.length > 0 && isIpAllowed(settings.trustedNetworks, ip);

  async function authenticate(
    session: Session<Submitter>,
    name: string,
    password: string,
  ): Promise<{ user: Submitter } | SmtpRefusal> {
    if (!session.isSecure && !isTrusted(session.ip))
      return refused(session, 'AUTH', null, refuse(538, '5.7.11 STARTTLS first: a key is not sent in the clear'));
    const standing = await standingOf(deps, password, session.ip);
    if (!('caller' in standing)) return refused(session, 'AUTH', standing.of ?? null, standing);
    const { caller } = standing;
    if (name !== 'apikey' && name !== caller.keyId)
      return refused(session, 'AUTH', caller, refuse(535, '5.7.8 the user name is `apikey`, or the id of the key'));
    return { user: { token: password, keyId: caller.keyId } };
  }

  /** Who sends this mail: asked before each one. */
  async function callerOf(session: Session<Submitter>): Promise<Standing> {
    const token = session.user?.token;
    if (typeof token === 'string') {
      const standing = await standingOf(deps, token, session.ip);
      return 'caller' in standing ? standing : refuse(535, standing.text);
    }
    if (!isTrusted(session.ip)) return refuse(530, '5.7.0 sign in first');
    const caller = await deps.trustedCaller();
    if (caller === null) return refuse(530, '5.7.0 sign in first');
    return checked(caller, deps.clock.now(), session.ip);
  }

  /** Of strangers a few lines a minute: beyond that anybody could fill the disk. */
  function mayNote(ip: string): boolean {
    const [network, now] = [networkOf(ip), deps.clock.now()];
    const fits = notes.has(network, 1, now);
    if (fits) notes.spend(network, 1, now);
    else deps.usedUp('submission_audit_network');
    return fits;
  }

  async function refused(
    session: Session<Submitter>,
    step: string,
    caller: Caller | null,
    refusal: SmtpRefusal,
  ): Promise<SmtpRefusal> {
    if (caller !== null || mayNote(session.ip))
      await deps.audit.write(submissionAudit(deps, session, { step, caller, code: refusal.code, problem: null }));
    return refusal;
  }

  return {
    authenticate,
    maySignInClear: isTrusted,
    async sender(session, address) {
      const standing = await callerOf(session);
      if (!('caller' in standing)) return refused(session, 'MAIL', null, standing);
      const { caller } = standing;
      if (address !== '' && parseMailbox(address, { smtputf8: true }).kind === 'bad')
        return refuse(553, '5.1.7 this is no address');
      const wait = deps.takeRequest(caller.accountId, caller.plan);
      if (wait === null) return null;
      return refused(session, 'MAIL', caller, refuse(450, `4.7.1 rate limit: try again in ${String(wait)} seconds`));
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
        .then((standing) => refused(session, step, 'caller' in standing ? standing.caller : null, refusal))
        .catch(deps.failed);
    },
    async data(session, bytes) {
      const started = deps.clock.monotonic();
      const standing = await callerOf(session);
      if (!('caller' in standing)) return refused(session, 'DATA', null, standing);
      const { caller } = standing;
      deps.noteUse(caller.keyId, session.ip, 'SMTP');
      try {
        const { mail, digest } = await deps.reader.read(bytes);
        if (mail.kind === 'refused') return await refused(session, 'DATA', caller, refuse(554, mail.text));
        const id = await take(session, caller, mail, digest, started);
        return `2.0.0 queued as ${id}`;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        const refusal = refusalOf(error);
        await deps.audit.write(
          submissionAudit(deps, session, { step: 'DATA', caller, code: refusal.code, problem: error.code, started }),
        );
        return refusal;
      }
    },
  };

  async function take(
    session: Session<Submitter>,
    caller: Caller,
    mail: SubmittedMail,
    digest: string,
    started: number,
  ): Promise<string> {
    const options = submissionOptions(mail.options, deps.clock.now());
    const key =
      options.idempotencyKey === null
        ? null
        : recordKey(caller.accountId, caller.mode, 'SMTP', 'submission', options.idempotencyKey);
    // One after the other with the same key: the second then finds what the first has written.
    while (key !== null && inFlight.has(key)) await inFlight.get(key);
    const work = store(session, caller, { mail, options, key, digest, started });
    if (key === null) return work;
    const settled = work.then(nothing, nothing);
    inFlight.set(key, settled);
    void settled.then(() => inFlight.delete(key));
    return work;
  }

  async function store(
    session: Session<Submitter>,
    caller: Caller,
    { mail, options, key, digest, started }: Taken,
  ): Promise<string> {
    const { clock, idempotency } = deps;
    const before = key === null ? null : await idempotency.store.find(key);
    if (before !== null) {
      if (before.body_hash !== digest && idempotency.onMismatch === 'error')
        throw new Problem('idempotency_key_reused', 'this idempotency key was used with another mail');
      await deps.audit.write(
        submissionAudit(deps, session, { step: 'DATA', caller, code: 250, problem: null, started, isReplay: true }),
      );
      return (JSON.parse(before.body) as { id: string }).id;
    }
    const noticeTo = await noticeAddress(session, caller);
    const now = clock.now();
    const draft = draftOf(session, mail, options, { id: newId('msg', now), now, noticeTo });
    const sender = { ...caller, requestId: newId('req', now) };
    const together = (): Rows => ({
      audit: [
        submissionAudit(deps, session, {
          step: 'DATA',
          caller,
          code: 250,
          problem: null,
          started,
          requestId: sender.requestId,
        }),
      ],
      ...(key === null ? {} : { idempotency: [idempotencyRow(key, digest, draft.source?.id ?? '', now)] }),
    });
    const { id } = await acceptSingle(deps.accept, sender, draft, together);
    return id;
  }

  /** RFC 5321 section 6.1: to the sender of the envelope, if that is one of the account's own; never for a notice. */
  async function noticeAddress({ sender }: Session<Submitter>, { accountId }: Caller): Promise<string | null> {
    const { notify, operatorAddress } = settings;
    const parsed = parseMailbox(sender, { smtputf8: true });
    if (notify === 'none' || parsed.kind === 'bad') return null;
    const isOwn = notify === 'sender' && (await deps.isVerified(accountId, parsed.mailbox.domain));
    const address = isOwn ? parsed.mailbox.address : operatorAddress;
    if (address !== null) await deps.ownAccount.ensure();
    return address;
  }

  function draftOf(
    session: Session<Submitter>,
    mail: SubmittedMail,
    options: ReturnType<typeof submissionOptions>,
    { id, now, noticeTo }: { id: string; now: number; noticeTo: string | null },
  ): MessageDraft {
    const recipients = session.recipients.map((address) => {
      const parsed = parseMailbox(address, settings);
      if (parsed.kind === 'bad') throw new Problem('invalid_recipient', parsed.why);
      const key = addressKey(parsed.mailbox.address);
      return { type: mail.to.has(key) ? 'to' : mail.cc.has(key) ? 'cc' : 'bcc', mailbox: parsed.mailbox } as const;
    });
    const [first] = recipients;
    if (first === undefined) throw new Error('a mail without recipients');
    const of = (type: 'cc' | 'bcc'): Mailbox[] =>
      recipients.slice(1).flatMap((one) => (one.type === type ? [one.mailbox] : []));
    const rfcMessageId = mail.messageId ?? `<${id}@${mail.from.domain}>`;
    const received = receivedBy(session, { id, now, hostname: settings.hostname });
    return {
      from: mail.from,
      to: first.mailbox,
      cc: of('cc'),
      bcc: of('bcc'),
      replyTo: mail.replyTo,
      subject: mail.subject,
      content: nothingComposed(),
      source: {
        id,
        rfcMessageId,
        bytes: deps.reader.finish(mail, { received, messageId: rfcMessageId, date: new Date(now) }),
        recipients,
        noticeTo,
      },
      requireTls: session.requireTls ? true : mail.waivesTls ? false : null,
      headers: [],
      tags: options.tags,
      metadata: options.metadata,
      sendAt: options.sendAt,
      expiresAt: null,
      stream: options.stream,
      trackOpens: false,
      trackClicks: false,
      unsubscribe: false,
      onSuppressed: 'accept',
      test: null,
    };
  }
}

interface Taken {
  mail: SubmittedMail;
  options: ReturnType<typeof submissionOptions>;
  key: string | null;
  digest: string;
  started: number;
}

const nothing = (): void => undefined;
const nothingComposed = (): MessageContent => ({ html: null, text: null, autoText: false, attachments: [] });

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

/** The caller behind a key, or why it may not send; `of` names whose key it was, for the audit log. */
async function standingOf(
  { authenticate, clock }: Pick<SubmissionDeps, 'authenticate' | 'clock'>,
  token: string,
  ip: string,
): Promise<{ caller: Caller } | (SmtpRefusal & { of?: Caller })> {
  const found = await authenticate(token);
  if (found.kind === 'unknown') return refuse(535, '5.7.8 there is no such API key');
  const standing = checked(found.caller, clock.now(), ip);
  return 'caller' in standing ? standing : { ...standing, of: found.caller };
}

function checked(caller: Caller, now: number, ip: string): Standing {
  if (caller.revokedAt !== null && caller.revokedAt <= now) return refuse(535, '5.7.8 this API key was revoked');
  if (caller.expiresAt !== null && caller.expiresAt <= now) return refuse(535, '5.7.8 this API key has expired');
  if (caller.allowedIps.length > 0 && !isIpAllowed(caller.allowedIps, ip))
    return refuse(535, `5.7.1 this API key may not be used from ${ip}`);
  if (!scopeAllows(caller.scopes, 'send')) return refuse(535, '5.7.1 this API key has not the scope `send`');
  return { caller };
}

/** RFC 5321 section 4.4. What the client calls itself is its own affair, as long as it is a name. */
function receivedBy(
  { helo, ip, protocol }: Session<Submitter>,
  { id, now, hostname }: { id: string; now: number; hostname: string },
): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const literal = ip.includes(':') ? `IPv6:${ip}` : ip;
  const date = new Date(now).toUTCString().replace('GMT', '+0000');
  return `from ${name} ([${literal}])\r\n by ${hostname} with ${protocol} id ${id};\r\n ${date}`;
}

interface Audited {
  step: string;
  caller: Caller | null;
  code: number;
  problem: string | null;
  started?: number;
  isReplay?: boolean;
  requestId?: string;
}

/** The audit row: one for every use of a key, refused uses included. */
function submissionAudit(
  { clock }: Pick<SubmissionDeps, 'clock'>,
  { ip, helo }: Session<Submitter>,
  { step, caller, code, problem, started, isReplay = false, requestId }: Audited,
): AuditRow {
  const now = clock.now();
  return auditRow({
    at: now,
    accountId: caller?.accountId ?? null,
    keyId: caller?.keyId ?? null,
    actor: caller === null ? 'smtp' : actorOf(caller),
    ip,
    userAgent: helo,
    method: 'SMTP',
    endpoint: step,
    operation: step === 'DATA' ? 'submitMessage' : 'signIn',
    words: step === 'DATA' ? submitted : null,
    status: code,
    result: code < 400 ? 'ok' : code === 451 ? 'failed' : 'refused',
    code: problem,
    isReplay,
    requestId: requestId ?? newId('req', now),
    ms: started === undefined ? 0 : clock.monotonic() - started,
  });
}

const submitted: ActWords = { says: 'sent a mail by SMTP', type: 'message' };
