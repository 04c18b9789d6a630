/** A request that was written for another service is told where its data goes here. */
import assert from 'node:assert/strict';
import { Problem } from '../../../src/base/problem.ts';
import { defaultLimits } from '../../../src/messages/request/send-limits.ts';
import { checkSend } from '../../../src/messages/request/send-request.ts';

const refusal = (more: object): Problem => {
  try {
    checkSend(
      { from: 'a@acme.test', to: 'b@dest.test', subject: 'S', text: 'T', ...more },
      { now: 0, smtputf8: false, limits: defaultLimits },
    );
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  return assert.fail('it was taken');
};

describe('messages/foreign-names', () => {
  for (const [more, code, field, says] of [
    [{ scheduled_at: 'in 1 min' }, 'unknown_field', 'scheduled_at', /did you mean `send_at`\?$/],
    [{ replyTo: 'a@b.test' }, 'unknown_field', 'replyTo', /did you mean `reply_to`\?$/],
    [{ HtmlBody: '<p>' }, 'unknown_field', 'HtmlBody', /did you mean `html`\?$/],
    [{ TemplateModel: {} }, 'unknown_field', 'TemplateModel', /did you mean `variables`\?$/],
    [{ MessageStream: 'outbound' }, 'unknown_field', 'MessageStream', /did you mean `stream`\?$/],
    [
      { personalizations: [] },
      'unknown_field',
      'personalizations',
      /give `recipients`, with one entry for each mail\.$/,
    ],
    [{ dynamic_template_data: {} }, 'unknown_field', 'dynamic_template_data', /did you mean `variables`\?$/],
    [{ template_data: {} }, 'unknown_field', 'template_data', /did you mean `variables`\?$/],
    [{ body: 'Hello' }, 'unknown_field', 'body', /give `html`, `text` or both\.$/],
    [{ 'h:X-Campaign': 'x' }, 'unknown_field', 'h:X-Campaign', /give `headers`, without the `h:`\.$/],
    [{ 'o:deliverytime': 'x' }, 'unknown_field', 'o:deliverytime', /`send_at`/],
    [
      { attachments: [{ path: 'https://acme.test/a.pdf', filename: 'a.pdf' }] },
      'unknown_field',
      'attachments[0].path',
      /base64 as `content`\.$/,
    ],
    [
      { attachments: [{ name: 'a.pdf', content: '' }] },
      'unknown_field',
      'attachments[0].name',
      /did you mean `filename`\?$/,
    ],
    [{ to: ['a@b.test', 'c@d.test'] }, 'invalid_type', 'to', /must be a string\. Several people go into `cc`/],
    [
      { to: 'a@b.test, c@d.test' },
      'invalid_recipient',
      'to',
      /Several people go into `cc` and `bcc`, or into `recipients`/,
    ],
    [{ cc: 'a@b.test, c@d.test' }, 'invalid_recipient', 'cc', /Give several as a list\.$/],
    [{ constructor: 1 }, 'unknown_field', 'constructor', /is not known here\.$/],
  ] as const) {
    it(`hints for ${field}: ${JSON.stringify(more).slice(0, 60)}`, () => {
      const problem = refusal(more);
      assert.deepEqual([problem.code, problem.field], [code, field]);
      assert.match(problem.message, says);
    });
  }
});
