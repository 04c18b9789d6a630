/**
 * Names that Resend, Postmark, SendGrid and Mailgun give to the members of a send request. A request written for one of them
 * gets a hint if its data belongs here, instead of only "unknown member".
 */
import type { FaultNote } from '../../base/check.ts';

type Hints = NonNullable<FaultNote['hints']>;

const meant = (name: string): string => `did you mean \`${name}\`?`;

/** Hints by the name in lower case without `-` and `_`; a name that ends with a colon stands for all that begin with it. */
export const messageHints: Hints = {
  scheduledat: meant('send_at'),
  delivertime: meant('send_at'),
  template: meant('template_id'),
  templatealias: meant('template_id'),
  templatemodel: meant('variables'),
  templatedata: meant('variables'),
  dynamictemplatedata: meant('variables'),
  substitutions: meant('variables'),
  globalsubstitutions: meant('variables'),
  htmlbody: meant('html'),
  textbody: meant('text'),
  plainbody: meant('text'),
  body: 'give `html`, `text` or both.',
  content: 'give `html`, `text` or both.',
  message: 'give `html`, `text` or both.',
  react: 'render it to HTML and send that as `html`.',
  amphtml: 'AMP is not supported; give `html` and `text`.',
  personalizations: 'give `recipients`, with one entry for each mail.',
  recipientvariables: 'give `recipients`, with `variables` in each entry.',
  messages: 'give `recipients`, with one entry for each mail.',
  recipient: meant('to'),
  sender: meant('from'),
  replytolist: meant('reply_to'),
  category: meant('tags'),
  categories: meant('tags'),
  customargs: meant('metadata'),
  uniqueargs: meant('metadata'),
  messagestream: meant('stream'),
  messagestreamid: meant('stream'),
  ippoolname: meant('stream'),
  tracklinks: meant('track_clicks'),
  trackingsettings: 'give `track_opens` and `track_clicks`.',
  tracking: 'give `track_opens` and `track_clicks`.',
  mailsettings: 'give `test: true` instead of a sandbox mode.',
  testmode: meant('test'),
  asm: meant('unsubscribe'),
  inline: 'give `attachments`, with a `content_id` for each inline file.',
  attachment: meant('attachments'),
  idempotencykey: 'send it as the header `Idempotency-Key`.',
  'h:': 'give `headers`, without the `h:`.',
  'v:': 'give `variables` for templates or `metadata` for events, without the `v:`.',
  't:': 'give `variables`, `template_version` or `auto_text`.',
  'o:': 'options are members of their own: `tags`, `send_at`, `test`, `track_opens`, `track_clicks`.',
};

/** The same for members of attachments. */
export const attachmentHints: Hints = {
  name: meant('filename'),
  path: 'files are not fetched from addresses: give their base64 as `content`.',
  url: 'files are not fetched from addresses: give their base64 as `content`.',
  type: meant('content_type'),
  mimetype: meant('content_type'),
  data: meant('content'),
  inlinecontentid: meant('content_id'),
  cid: meant('content_id'),
};

/** The hint for a `to` of the wrong type or with several addresses. */
export const ONE_RECIPIENT = 'Several people go into `cc` and `bcc`, or into `recipients` for a mail each';
