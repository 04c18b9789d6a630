/** Mails that came to a domain that receives. */
import { bytes, flag, integer, json, map, orNull, table, text, texts, time, type RowOf } from '../table.ts';

/** An address in a mail, with the name before it. */
export interface ReceivedMailbox {
  email: string;
  name: string | null;
}

export interface ReceivedFile {
  index: number;
  filename: string;
  content_type: string;
  size: number;
  content_id: string | null;
}

const RECEIVED_AT = '2026-01-31T10:02:11.004Z';
const person = { email: 'ana@example.net', name: 'Ana' };

export const received = table(
  {
    id: text().says('Id of the mail.', 'rcv_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    domain: text().says('The domain that it came to.', 'acme.example'),
    at: time().says('When it was taken.', RECEIVED_AT),
    status: text('new', 'read', 'unreadable').says(
      '`new` until it has been read; `unreadable` if it cannot be taken apart in time: then only its source is there.',
      'read',
    ),
    size: integer().says('Bytes of its source.', 4211),
    client_ip: text(),
    helo: text(),
    envelope_json: json<{ from: string; to: string[] }>().says('Sender and recipients of the SMTP session.', {
      from: 'ana@example.net',
      to: ['support@acme.example'],
    }),
    from_json: orNull(json<ReceivedMailbox>()).says(
      'The author, if the mail names one and no more: believe it if `dmarc` is `pass`.',
      person,
    ),
    /** The author's address in the form in which addresses are compared; empty without one. */
    from_key: text(),
    to_json: json<ReceivedMailbox[]>().says('The first 50 of the To field.', [
      { email: 'support@acme.example', name: null },
    ]),
    cc_json: json<ReceivedMailbox[]>().says('The first 50 of the Cc field.', []),
    reply_to_json: json<ReceivedMailbox[]>().says('The first 50 of the Reply-To field.', []),
    subject: text().says('Its subject.', 'Re: Your order'),
    date: orNull(time()).says('Its Date field; null if it has none that can be read.', '2026-01-31T10:02:08.000Z'),
    message_id: orNull(text()).says('Its Message-ID.', '<CAF1b2@mail.example.net>'),
    in_reply_to: orNull(text()).says(
      'The Message-ID that it answers.',
      '<msg_01jz5w8q3hf2m9d4x6k7c1b0na@acme.example>',
    ),
    references_json: texts().says('The last 20 Message-IDs of the conversation.', [
      '<msg_01jz5w8q3hf2m9d4x6k7c1b0na@acme.example>',
    ]),
    text: orNull(text()).says('Its text; null without one, and in lists and events.', 'Thank you!\n\n> Your order ...'),
    html: orNull(text()).says('Its HTML, written by a stranger: never show it outside of a sandbox. Null as `text`.'),
    reply_text: orNull(text()).says(
      'What its author wrote: the text without quotations and signature. Null as `text`.',
      'Thank you!',
    ),
    truncated: flag().says('Whether text or html was longer than 256 KiB and is cut: the source has all of it.'),
    attachments_json: json<ReceivedFile[]>().says('Its files, the first 100.', []),
    spf_json: orNull(json<{ result: string; domain: string }>()).says(
      'Whether the sending host may send for the domain of the envelope (RFC 7208).',
      { result: 'pass', domain: 'example.net' },
    ),
    dkim_json: json<{ result: string; domain: string; selector: string }[]>().says(
      'Its signatures, the first five (RFC 6376).',
      [{ result: 'pass', domain: 'example.net', selector: 's1' }],
    ),
    dmarc_json: orNull(json<{ result: string; domain: string; policy: string | null }>()).says(
      'Whether the domain of `from` vouches for it (RFC 7489).',
      { result: 'pass', domain: 'example.net', policy: 'reject' },
    ),
    spam_headers_json: map().says('Fields that filters before this server have written, by their names.'),
    auto_submitted: orNull(text()).says(
      '`auto-replied` or `auto-generated` if a program wrote it (RFC 3834): send no automatic answer to it.',
    ),
    answers: orNull(text()).says('Id of our message that it answers.', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
  },
  { hasLargeValues: true },
);
export type ReceivedRow = RowOf<typeof received>;

/** The source of each, apart from the rest: a change of a row would write it again. */
export const receivedSources = table({ received_id: text(), raw: bytes() }, { hasLargeValues: true });
