/** Tells who wrote a mail to us: a mail system, or the mailbox of a person that answers by itself. */
import type { Arrival } from './finding.ts';
import { isAutoReplied, isMarkedAutoReply } from '../mail/auto-reply.ts';
import { soughtAddress } from '../mail/address.ts';
import { addressesIn } from '../mail/addresses-in.ts';
import { fieldsOf, wordsOf, type MailPart } from '../mail/mime-read.ts';
import { foldText, type BounceWords } from './bounce-words.ts';

/** Judges by its From (local part or display name), its return path, or a form that only mail servers write (RFC 3464). */
export function isFromDaemon(mail: MailPart, { sender }: Pick<Arrival, 'sender'>, words: BounceWords): boolean {
  const from = fromOf(mail);
  if (/^\s*<\s*>/.test(from) || words.senders.has(localPartOfFrom(mail)) || words.senderNames(foldText(from)))
    return true;
  if (mail.type === 'multipart/report' && mail.params.get('report-type')?.toLowerCase() === 'delivery-status')
    return true;
  const [field = ''] = returnPathsOf(mail);
  return [field, sender ?? ''].some((path) =>
    words.senders.has(/^\s*<?([^@<>\s]{1,64})/.exec(path.toLowerCase())?.[1] ?? ''),
  );
}

/** Answering machines have it too (RFC 3834 section 3.3). */
export const hasNullSender = (mail: MailPart, { sender }: Pick<Arrival, 'sender'>): boolean =>
  sender === '' || returnPathsOf(mail).some((value) => /^<\s*>/.test(value.trim()));

/** True if the sender is known, and is neither a mail system nor another program. */
export const isFromPerson = (mail: MailPart, arrival: Pick<Arrival, 'sender'>, words: BounceWords): boolean =>
  (arrival.sender !== null || returnPathsOf(mail).length > 0) &&
  !(hasNullSender(mail, arrival) || words.nobodies.has(localPartOfFrom(mail)) || isFromDaemon(mail, arrival, words));

const returnPathsOf = ({ headers }: MailPart): string[] => fieldsOf(headers, new Set(['return-path']));

/** True for the answer of a person's mailbox (RFC 3834): whatever failure it mentions, it is not the one who reports it. */
export const isAnswer = (mail: MailPart, arrival: Pick<Arrival, 'sender'>, words: BounceWords): boolean =>
  (isMarkedAutoReply(mail.headers) ||
    isAutoReplied(mail.headers) ||
    words.autoReplySubjects(foldText(wordsOf(mail.headers, 'subject')))) &&
  !isFromDaemon(mail, arrival, words);

export function isFromRecipient(mail: MailPart, { about }: Pick<Arrival, 'about'>): boolean {
  const [first, ...others] = addressesIn(fromOf(mail));
  return about !== null && first !== undefined && others.length === 0 && isSame(first.address, about.address);
}

const isSame = (one: string, other: string): boolean => soughtAddress(one) === soughtAddress(other);

const fromOf = (mail: MailPart): string => wordsOf(mail.headers, 'from').slice(0, 1000);

/** Returns the local part in lower case; of `MAILER-DAEMON` alone, and of `MAILER-DAEMON <>`, the name. */
export function localPartOfFrom(mail: MailPart): string {
  const from = fromOf(mail);
  const [first] = addressesIn(from);
  return (
    (first?.address ?? from)
      .toLowerCase()
      .replace(/^[<"\s]+/, '')
      .split(/[@>\s]/, 1)[0] ?? ''
  );
}
