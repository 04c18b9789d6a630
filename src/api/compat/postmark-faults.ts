/** The errors of programs that were written for Postmark. */
import type { ProblemCode } from '../../base/problem.ts';
import { wordsOf } from './members.ts';

/** Our codes by theirs. */
const codes: Readonly<Record<number, readonly ProblemCode[]>> = {
  10: ['missing_api_key', 'invalid_api_key', 'key_expired', 'key_revoked', 'insufficient_scope'],
  400: ['domain_not_verified', 'domain_not_allowed'],
  402: ['invalid_json'],
  405: ['sending_paused', 'quota_exceeded'],
  406: ['recipient_suppressed'],
  1101: ['unknown_template'],
  1109: ['template_render_failed', 'missing_variable'],
  1226: ['unknown_stream'],
};

const INACTIVE =
  'You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: %. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.';

const inWords = wordsOf('Messages', {
  from: 'From',
  to: 'To',
  cc: 'Cc',
  bcc: 'Bcc',
  reply_to: 'ReplyTo',
  subject: 'Subject',
  html: 'HtmlBody',
  text: 'TextBody',
  tags: 'Tag',
  metadata: 'Metadata',
  headers: 'Headers',
  attachments: 'Attachments',
  stream: 'MessageStream',
  template_id: 'TemplateId',
  variables: 'TemplateModel',
});

/** Their code and text of a fault. */
export function faultOf(code: ProblemCode, message: string, status: number): { ErrorCode: number; Message: string } {
  const known = Object.keys(codes).find((theirs) => codes[Number(theirs)]?.includes(code));
  const address = code === 'recipient_suppressed' ? /[^\s"`<>]+@[^\s"`<>]*[^\s"`<>.,:]/.exec(message)?.[0] : undefined;
  return {
    ErrorCode: Number(known ?? (status >= 429 ? status : status === 404 ? 701 : 300)),
    Message: address === undefined ? inWords(message) : INACTIVE.replace('%', address),
  };
}
