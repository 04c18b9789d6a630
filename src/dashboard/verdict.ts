/**
 * The fate of a message in plain words: at most two sentences, the first of which says what happened, and the second what to do or
 * what comes next. Pure.
 */
import type { Attempt, MessageDetails, Suppression, Why } from '../client/types.ts';
import type { SuppressionReason } from '../storage/tables.ts';
import { pluralize } from '../base/pluralize.ts';
import { spanText, wordsOf } from './words.ts';
import type { bounceReasons } from '../config/bounce-rule.ts';

type BounceReason = (typeof bounceReasons)[number];

/** Why a receiver did not take a mail: a few words for a list; a clause with the domain at `%`, for a sentence; what the sender can do. */
type ReasonWords = readonly [short: string, clause: string, advice: string];

const OURS = 'Sending it again helps once the receiver has lifted that; its answer says how.';
const CONTENT = 'Change the content before you send it again.';

const reasonWords: Readonly<Record<BounceReason, ReasonWords>> = {
  mailbox_not_found: ['no such mailbox', 'the mailbox does not exist at %', 'Ask for the right address.'],
  mailbox_disabled: ['mailbox disabled', 'the mailbox is disabled at %', 'Ask for another address.'],
  mailbox_full: ['mailbox full', 'the mailbox is full at %', 'Send it again later, or ask for another address.'],
  domain_not_found: ['no such domain', 'the domain % does not exist', 'Look for a typing error in the address.'],
  null_mx: ['domain takes no mail', '% takes no mail at all', 'Ask for another address.'],
  message_too_large: [
    'too large',
    'it is too large for %',
    'Send a smaller one, such as with a link in the place of an attachment.',
  ],
  content_rejected: ['content refused', '% does not take its content', CONTENT],
  spam: ['taken for spam', '% takes it for spam', CONTENT],
  policy: ['refused by policy', 'a rule of % refuses it', OURS],
  reputation: ['our address is blocked', '% does not take mail from our address', OURS],
  rate_limited: ['too fast for the receiver', '% takes mail from us only slowly', 'Send it again later.'],
  dmarc: [
    'DMARC failed',
    '% could not verify the sending domain (DMARC)',
    'Look at the DNS records of the sending domain.',
  ],
  auth_required: [
    'sender not verified',
    '% asks for a verified sender',
    'Look at the DNS records of the sending domain.',
  ],
  tls_required: ['TLS needed', 'no encrypted connection to % was possible', 'Its operator has to mend that.'],
  routing_loop: ['mail loop', 'the hosts of % send it in a circle', 'Their operator has to mend that.'],
  network: ['host not reached', 'the mail host of % was not reached', 'Send it again later.'],
  expired: ['gave up in time', '% did not take it in time', 'Send it again later, or ask for another address.'],
  other: ['refused', '% refused it', 'The answer below says why.'],
};

const suppressedWords: Readonly<Record<SuppressionReason, string>> = {
  hard_bounce: 'an earlier mail to it bounced',
  complaint: 'its owner reported our mail as spam',
  unsubscribe: 'its owner has unsubscribed',
  manual: 'someone has put it there by hand',
};

/** Returns the clause about the domain, and the advice. */
function wordsFor(reason: string | null, domain: string): readonly [clause: string, advice: string] {
  const isKnown = reason !== null && Object.hasOwn(reasonWords, reason);
  const [, clause, advice] = isKnown ? reasonWords[reason as BounceReason] : reasonWords.other;
  return [clause.replace('%', () => domain), advice];
}

/** Returns the reason of a refusal, a failure or a suppression in a few words, for a list; '' for none. */
export function reasonText(reason: string | null): string {
  if (reason === null) return '';
  if (Object.hasOwn(reasonWords, reason)) return reasonWords[reason as BounceReason][0];
  return wordsOf(reason);
}

/** The reasons that a list can be filtered by, with their words. */
export const reasonChoices: readonly (readonly [reason: string, text: string])[] = (
  Object.keys(reasonWords) as BounceReason[]
).map((reason) => [reason, reasonWords[reason][0]] as const);

export interface Verdict {
  tone: 'good' | 'amber' | 'red' | 'blue';
  /** One sentence or two. With `next` there is one, and the view adds when it is tried next. */
  text: string;
  /** An event whose time is known: `The next try is`. */
  next: { text: string; at: string } | null;
}

export interface VerdictFacts {
  message: Pick<MessageDetails, 'status' | 'status_at' | 'created_at' | 'send_at' | 'test' | 'engagement'> & {
    recipients: readonly Pick<MessageDetails['recipients'][number], 'email' | 'status' | 'status_at'>[];
    attempts: readonly Pick<Attempt, 'recipient' | 'outcome' | 'reason' | 'mx' | 'smtp_reply'>[];
    events: readonly { type: string; data: object }[];
  };
  /** The waits of recipients now. */
  waits: readonly Pick<Why['recipients'][number], 'email' | 'reason' | 'summary' | 'until'>[];
  /** The entries for which a copy would not be sent. */
  blocking: readonly Pick<Suppression, 'email' | 'reason'>[];
}

type Recipient = VerdictFacts['message']['recipients'][number];

export function verdictOf(facts: VerdictFacts): Verdict {
  const { recipients } = facts.message;
  const [first] = recipients;
  if (first === undefined) return { tone: 'blue', text: 'It has no recipient any more.', next: null };
  return recipients.length === 1 ? ofOne(facts, first) : ofSeveral(facts);
}

const domainOf = (email: string): string => email.slice(email.lastIndexOf('@') + 1);

/** The reason of the last refusal of a recipient, of the attempt or of the report that came later. */
function reasonOf({ message }: VerdictFacts, { email }: Recipient): string | null {
  const late = message.events.findLast((event) => event.type === 'bounced' && isOf(event.data, email));
  const detail = late === undefined ? undefined : (late.data as { bounced?: { reason?: string } }).bounced;
  return detail?.reason ?? message.attempts.findLast((one) => one.recipient === email)?.reason ?? null;
}

const isOf = (data: object, email: string): boolean => 'recipient' in data && data.recipient === email;

/** Says that an address is mailed no more, if it is so. */
const noMore = ({ blocking }: VerdictFacts, { email }: Recipient): string =>
  blocking.some((one) => one.email.toLowerCase() === email.toLowerCase())
    ? `${email} gets no more mail until you lift that.`
    : '';

function ofOne(facts: VerdictFacts, recipient: Recipient): Verdict {
  const { message } = facts;
  const { email, status } = recipient;
  const domain = domainOf(email);
  switch (status) {
    case 'delivered':
      return ofDelivered(facts, recipient);
    case 'bounced': {
      const [clause, advice] = wordsFor(reasonOf(facts, recipient), domain);
      return {
        tone: 'red',
        text: `Not delivered: ${clause}. ${noMore(facts, recipient) || advice}`,
        next: null,
      };
    }
    case 'complained':
      return {
        tone: 'red',
        text: `Delivered, and reported as spam by its recipient. ${noMore(facts, recipient) || 'Ask whether they want this mail.'}`,
        next: null,
      };
    case 'suppressed': {
      const entry = facts.blocking.find((one) => one.email.toLowerCase() === email.toLowerCase());
      const why =
        entry === undefined
          ? 'it was on the suppression list'
          : `${email} is on the suppression list, as ${suppressedWords[entry.reason as SuppressionReason]}`;
      const then =
        entry === undefined ? 'It is not there any more: you can send it again.' : 'Lift that, and send it again.';
      return { tone: 'amber', text: `Not sent: ${why}. ${then}`, next: null };
    }
    case 'failed': {
      const [clause, advice] = wordsFor(reasonOf(facts, recipient), domain);
      return { tone: 'red', text: `Given up: ${clause}. ${advice}`, next: null };
    }
    case 'canceled':
      return { tone: 'blue', text: 'Canceled before it was sent.', next: null };
    case 'scheduled':
      return {
        tone: 'blue',
        text: 'Waiting for its time.',
        next: message.send_at === null ? null : { text: 'It is sent', at: message.send_at },
      };
    default:
      return ofWaiting(facts, recipient);
  }
}

function ofDelivered({ message }: VerdictFacts, { email, status_at: at }: Recipient): Verdict {
  const host = message.attempts.findLast((one) => one.recipient === email && one.outcome === 'accepted')?.mx;
  const begun = Date.parse(message.send_at ?? message.created_at);
  const took = spanText(Math.max(1000, Date.parse(at) - begun));
  const who = message.test ? 'the simulator' : (host ?? domainOf(email));
  const { opens, clicks } = message.engagement;
  const more = clicks > 0 ? ' A link in it was followed.' : opens > 0 ? ' It was opened.' : '';
  return { tone: 'good', text: `Delivered: ${who} took it after ${took}.${more}`, next: null };
}

/** Mail that is under way: why it waits, and when it is tried next. */
function ofWaiting(facts: VerdictFacts, recipient: Recipient): Verdict {
  const { email } = recipient;
  const wait = facts.waits.find((one) => one.email === email);
  if (wait === undefined || wait.reason === 'being_sent')
    return { tone: 'blue', text: 'It is being sent now.', next: null };
  const next = wait.until === null ? null : { text: 'The next try is', at: wait.until };
  if (wait.reason === 'held')
    return {
      tone: 'amber',
      text: firstSentence(`Held: ${lower(wait.summary)}`),
      next: next === null ? null : { ...next, text: 'It goes on' },
    };
  const isTried = facts.message.attempts.some((one) => one.recipient === email);
  if (!isTried || wait.reason !== 'waiting_for_retry')
    return { tone: 'blue', text: firstSentence(`Waiting: ${lower(wait.summary)}`), next };
  return {
    tone: 'amber',
    text: `Not delivered yet: ${wordsFor(reasonOf(facts, recipient), domainOf(email))[0]}.`,
    next,
  };
}

/** A dot within a name or a number ends no sentence. */
const firstSentence = (text: string): string => /^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? `${text}.`;
const lower = (text: string): string =>
  text.replace(/^It is held: /, '').replace(/^[A-Z](?=[a-z ])/, (first) => first.toLowerCase());

const under = new Set(['scheduled', 'queued', 'sent', 'deferred']);
const lost = new Set(['bounced', 'complained', 'failed', 'suppressed']);

/** Counts the recipients by what became of them; the first that is lost gives the advice. */
function ofSeveral(facts: VerdictFacts): Verdict {
  const { recipients } = facts.message;
  const count = (is: (status: string) => boolean): number => recipients.filter(({ status }) => is(status)).length;
  const [taken, waiting, gone] = [
    count((one) => one === 'delivered'),
    count((one) => under.has(one)),
    count((one) => lost.has(one)),
  ];
  const parts = [
    `${String(taken)} of ${pluralize(recipients.length, 'recipient')} ${taken === 1 ? 'has' : 'have'} it`,
    ...(waiting === 0 ? [] : [`${String(waiting)} ${waiting === 1 ? 'waits' : 'wait'}`]),
    ...(gone === 0 ? [] : [`${String(gone)} ${gone === 1 ? 'does' : 'do'} not get it`]),
  ];
  const worst = recipients.find(({ status }) => lost.has(status));
  const about =
    worst === undefined
      ? ''
      : ` ${worst.email}: ${lower(ofOne(facts, worst).text.split('. ')[0] ?? '').replace(/\.$/, '')}.`;
  return {
    tone: gone > 0 ? 'red' : waiting > 0 ? 'amber' : 'good',
    text: `${parts.join(', ')}.${about}`,
    next: null,
  };
}
