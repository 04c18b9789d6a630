/** Accepts a submitted mail as the API accepts a request: the same checks, one transaction, the same idempotency keys. */
import { hash } from 'node:crypto';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { addressKey, parseMailbox, type Mailbox } from '../mail/address.ts';
import { dateTime } from '../mail/message-head.ts';
import type { SubmittedMail } from '../mail/submitted.ts';
import { acceptSingle } from '../messages/accept/accept.ts';
import type { MessageContent, MessageDraft } from '../messages/request/send-request.ts';
import { isKeyTaken, KEEP_MS, recordKey } from '../storage/idempotency-store.ts';
import type { Rows } from '../storage/rows.ts';
import type { IdempotencyRow } from '../storage/tables.ts';
import { InTurn } from './in-turn.ts';
import { submissionOptions } from './submission-options.ts';
import {
  submissionAudit,
  type SubmissionDeps,
  type SubmissionSession,
  type SubmissionSettings,
} from './submission-session.ts';

/** A mail that was read, and what it is accepted with. */
export interface ReadSubmission {
  mail: SubmittedMail;
  /** SHA-256 of its octets, hex. */
  digest: string;
  /** When DATA began, on the monotonic clock. */
  started: number;
}

interface Keyed extends ReadSubmission {
  options: ReturnType<typeof submissionOptions>;
  /** The record of its idempotency key, or null without one. */
  key: string | null;
}

export class SubmissionAcceptor {
  private readonly deps: SubmissionDeps;
  private readonly settings: SubmissionSettings;
  /** Mails with the same idempotency key are stored one after the other. */
  private readonly perKey = new InTurn();

  constructor(deps: SubmissionDeps, settings: SubmissionSettings) {
    this.deps = deps;
    this.settings = settings;
  }

  /** Resolves with the id of the message, which is durable then. Throws Problem. */
  async accept(session: SubmissionSession, caller: Caller, read: ReadSubmission): Promise<string> {
    const options = submissionOptions(read.mail.options, this.deps.clock.now());
    if (read.mail.isSealed && (options.trackOpens || options.trackClicks))
      throw new Problem('invalid_field', 'a signed or encrypted mail cannot be tracked: leave out X-Posthorn-Track-*', {
        field: `X-Posthorn-Track-${options.trackOpens ? 'Opens' : 'Clicks'}`,
      });
    const key =
      options.idempotencyKey === null
        ? null
        : recordKey(caller.accountId, caller.mode, 'SMTP', placeOf(session), options.idempotencyKey);
    const store = (): Promise<string> => this.store(session, caller, { ...read, options, key });
    return key === null ? store() : this.perKey.run(key, store);
  }

  private async store(
    session: SubmissionSession,
    caller: Caller,
    { mail, options, key, digest, started }: Keyed,
  ): Promise<string> {
    const { deps } = this;
    const { clock } = deps;
    const audited = { step: 'DATA', caller, code: 250, problem: null, started };
    const before = key === null ? null : await this.idOfFirst(session, caller, { key, digest, started });
    if (before !== null) return before;
    const noticeTo = await this.noticeAddress(session, caller);
    const sender = await this.senderOf(caller, mail);
    const now = clock.now();
    const draft = this.draftOf(session, mail, options, { id: newId('msg', now), now, noticeTo, sender });
    const by = { ...caller, requestId: newId('req', now) };
    const alsoWrite = (): Rows => ({
      audit: [submissionAudit(deps, session, { ...audited, requestId: by.requestId })],
      ...(key === null ? {} : { idempotency: [idempotencyRow(key, digest, draft.source?.id ?? '', now)] }),
    });
    try {
      const { id } = await acceptSingle(deps.accept, by, draft, alsoWrite);
      return id;
    } catch (error) {
      // Another node has accepted a mail with the same key meanwhile, and this one was rolled back.
      const first =
        key !== null && isKeyTaken(error) ? await this.idOfFirst(session, caller, { key, digest, started }) : null;
      if (first === null) throw error;
      return first;
    }
  }

  /** Returns the id of the message that was accepted with this key before, or null. Throws a Problem if it was another mail. */
  private async idOfFirst(
    session: SubmissionSession,
    caller: Caller,
    { key, digest, started }: { key: string; digest: string; started: number },
  ): Promise<string | null> {
    const { deps } = this;
    const { store, onMismatch } = deps.idempotency;
    const row = await store.find(key);
    if (row === null) return null;
    if (row.body_hash !== digest && onMismatch === 'error')
      throw new Problem('idempotency_key_reused', 'this idempotency key was used with another mail');
    const line = { step: 'DATA', caller, code: 250, problem: null, started, isReplay: true };
    await deps.audit.write(submissionAudit(deps, session, line));
    return (JSON.parse(row.body) as { id: string }).id;
  }

  /** Returns the address for a notice of failure: the envelope's sender if its domain is the account's own, else the operator (RFC 5321, 6.1). */
  private async noticeAddress({ sender }: SubmissionSession, { accountId }: Caller): Promise<string | null> {
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
    session: SubmissionSession,
    mail: SubmittedMail,
    options: ReturnType<typeof submissionOptions>,
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
      trackOpens: options.trackOpens,
      trackClicks: options.trackClicks,
      unsubscribe: false,
      onSuppressed: 'accept',
      test: null,
    };
  }
}

/**
 * The place of a key: the recipients are a part of it. A mail with more of them than one session takes comes in several, which are the
 * same but for these (RFC 5321 section 4.5.3.1.10), and each has to be sent.
 */
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
  { helo, ip, protocol }: SubmissionSession,
  { id, now, hostname }: { id: string; now: number; hostname: string },
): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const literal = ip.includes(':') ? `IPv6:${ip}` : ip;
  const date = dateTime(new Date(now));
  return `from ${name} ([${literal}])\r\n by ${hostname} with ${protocol} id ${id};\r\n ${date}`;
}
