/** The bodies of other services, read into those of our operations: what they mean here, and what is refused by its name. */
import assert from 'node:assert/strict';
import { splitAddresses, wordsOf } from '../../../src/api/compat/members.ts';
import { readForeign, serviceAt, withAdapter } from '../../../src/api/compat/services.ts';

const NOW = Date.parse('2026-01-31T09:30:00Z');
const JSON_TYPE = 'application/json';

function read(form: string, body: unknown, contentType = JSON_TYPE): unknown {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const result = readForeign(Buffer.from(text), { form, contentType, headers: {}, params: {}, now: NOW });
  if (result.kind === 'ok') return result.value;
  return result.kind === 'refused' ? `${result.code} ${String(result.field)}` : result.kind;
}

const formOf = (fields: readonly (readonly [string, string])[]): string =>
  new URLSearchParams(fields.map(([name, value]): [string, string] => [name, value])).toString();
const FORM = 'application/x-www-form-urlencoded';

const mail = { From: 'a@x.test', To: 'b@x.test', Subject: 's', TextBody: 't' };
const send = { from: { email: 'a@x.test' }, subject: 's', content: [{ type: 'text/plain', value: 't' }] };
const toOne = { ...send, personalizations: [{ to: [{ email: 'b@x.test' }] }] };

const refused: readonly (readonly [form: string, body: unknown, fault: string, contentType?: string])[] = [
  ['resend.email', { from: 'a@x.test', surprise: 1 }, 'unknown_field surprise'],
  ['resend.email', { attachments: [{ filename: 'a', path: 'https://x.test/a' }] }, 'invalid_field attachments[0].path'],
  ['resend.batch', [{ to: 'b@x.test' }, { tpo: 1 }], 'unknown_field [1].tpo'],
  ['resend.batch', { to: 'b@x.test' }, 'ok'],
  ['resend.email', { scheduled_at: 'whenever' }, 'invalid_field scheduled_at'],
  ['resend.batch', [{ scheduledAt: 'soon' }], 'invalid_field [0].scheduledAt'],
  ['postmark.email', { ...mail, Surprise: 1 }, 'unknown_field Surprise'],
  ['postmark.email', { ...mail, InlineCss: true }, 'invalid_field InlineCss'],
  ['postmark.email', { ...mail, TrackLinks: 'TextOnly' }, 'invalid_field TrackLinks'],
  ['postmark.email', { ...mail, Attachments: [{ Name: 'a', Url: 'x' }] }, 'unknown_field Attachments[0].Url'],
  ['postmark.templates', { Messages: [{ ...mail, Hm: 1 }] }, 'unknown_field Messages[0].Hm'],
  ['postmark.email', [mail], 'unknown_field list'],
  ['sendgrid.mail', { ...toOne, surprise: 1 }, 'unknown_field surprise'],
  ['sendgrid.mail', { ...send, personalizations: [{ to: [], bbc: [] }] }, 'unknown_field personalizations[0].bbc'],
  ['sendgrid.mail', send, 'missing_field personalizations'],
  ['sendgrid.mail', { ...toOne, content: [{ type: 'text/x-amp-html', value: '' }] }, 'invalid_field content.type'],
  ['sendgrid.mail', { ...toOne, mail_settings: { footer: { enable: true } } }, 'invalid_field mail_settings.footer'],
  [
    'sendgrid.mail',
    { ...toOne, tracking_settings: { ganalytics: { enable: true } } },
    'invalid_field tracking_settings.ganalytics',
  ],
  ['sendgrid.cancel', { batch_id: 'x', status: 'pause' }, 'invalid_field status'],
  ['mailgun.message', formOf([['o:surprise', 'yes']]), 'unknown_field o:surprise', FORM],
  ['mailgun.message', formOf([['amp-html', '<p>']]), 'unknown_field amp-html', FORM],
  ['mailgun.message', formOf([['t:variables', '{']]), 'invalid_field t:variables', FORM],
  [
    'mailgun.message',
    formOf([
      ['from', 'a@x.test'],
      ['h:Sender', 'b@x.test'],
    ]),
    'invalid_field h:Sender',
    FORM,
  ],
  ['mailgun.message', 'x', 'unsupported_media_type null', 'text/plain'],
  ['mailgun.message', 'x', 'invalid_request null', 'multipart/form-data; boundary=b'],
  ['mailgun.message', '--b\r\n\r\n', 'invalid_request null', 'multipart/form-data; boundary=b'],
];

describe('api/compat/services', () => {
  for (const [form, body, fault, contentType] of refused)
    it(`${form}: ${fault}`, () => {
      const result = read(form, body, contentType);
      assert.equal(typeof result === 'string' ? result : 'ok', fault === 'ok' ? 'ok' : fault);
    });

  it('ignores what concerns only the other service, and what is off', () => {
    const off = { enable: false };
    assert.deepEqual(
      read('sendgrid.mail', { ...toOne, ip_pool_name: 'p', mail_settings: { footer: off, sandbox_mode: off } }),
      { from: 'a@x.test', subject: 's', text: 't', test: false, to: 'b@x.test' },
    );
    assert.deepEqual(
      read(
        'mailgun.message',
        formOf([
          ['to', 'b@x.test, c@x.test'],
          ['o:sending-ip', '192.0.2.1'],
        ]),
        FORM,
      ),
      {
        to: 'b@x.test',
        cc: ['c@x.test'],
      },
    );
  });

  it('puts our placeholder of the unsubscribe link in the place of theirs', () => {
    const html = (body: unknown): unknown => (body as { html: string }).html;
    assert.equal(html(read('resend.email', { html: '{{{RESEND_UNSUBSCRIBE_URL}}}' })), '{{unsubscribe_url}}');
    assert.equal(html(read('postmark.email', { ...mail, HtmlBody: '{{{ pm:unsubscribe }}}' })), '{{unsubscribe_url}}');
    const content = [{ type: 'text/html', value: '<%asm_group_unsubscribe_raw_url%>' }];
    assert.equal(html(read('sendgrid.mail', { ...toOne, content })), '{{unsubscribe_url}}');
    assert.equal(
      html(read('mailgun.message', formOf([['html', '%tag_unsubscribe_url%']]), FORM)),
      '{{unsubscribe_url}}',
    );
  });

  it('replaces words literally, whatever braces stand around them', () => {
    const personalizations = ['Ana', '{{ x }}'].map((name, n) => ({
      to: [{ email: `${String(n)}@x.test` }],
      substitutions: { '-n-': name, '-nn-': 'long' },
    }));
    const body = { ...send, subject: '-n-{{ y }}-nn-', personalizations };
    const { subject, recipients } = read('sendgrid.mail', body) as {
      subject: string;
      recipients: { variables: object }[];
    };
    assert.equal(subject, '{{{ w1 }}}{% raw %}{{ y }}{% endraw %}{{{ w0 }}}');
    assert.deepEqual(
      recipients.map(({ variables }) => variables),
      [
        { w0: 'long', w1: 'Ana' },
        { w0: 'long', w1: '{{ x }}' },
      ],
    );
  });

  it("gives a template Mailgun's variables, and never sends their header", () => {
    const variables = { 'h:X-Mailgun-Variables': '{"name":"header","shop":{"city":"Graz"}}', 'v:order': '17' };
    const of = (more: Record<string, string>): unknown =>
      read('mailgun.message', formOf(Object.entries({ ...variables, ...more })), FORM);
    assert.deepEqual(of({}), { metadata: { name: 'header', shop: '{"city":"Graz"}', order: '17' } });
    assert.deepEqual(of({ template: 't', 't:variables': '{"name":"Ana"}' }), {
      metadata: { order: '17' },
      template_id: 't',
      variables: { name: 'Ana', shop: { city: 'Graz' }, order: '17' },
    });
    const values = JSON.stringify({ 'b@x.test': { n: 'Bo' }, 'c@x.test': {} });
    const each = { template: 't', to: 'b@x.test,c@x.test', 't:variables': '{"name":"Hi %recipient.n%"}' };
    const { recipients } = of({ ...each, 'recipient-variables': values }) as { recipients: { variables: object }[] };
    assert.deepEqual(
      recipients.map((one) => one.variables),
      ['Hi Bo', 'Hi %recipient.n%'].map((name) => ({ name, shop: { city: 'Graz' }, order: '17' })),
    );
  });

  it('names members of ours in the words of the service', () => {
    const inWords = wordsOf('Messages', { to: 'To' });
    assert.equal(
      inWords('`recipients[1].to` and `to` are bad; to `cc`.'),
      '`Messages[1].To` and `To` are bad; to `cc`.',
    );
    assert.equal(inWords('recipients[1].to'), 'Messages[1].To');
    assert.equal(inWords('recipients[2]'), 'Messages[2]');
  });

  it('reads times in plain English', () => {
    for (const [text, at] of [
      ['in 1 min', '2026-01-31T09:31:00.000Z'],
      ['in 90 minutes', '2026-01-31T11:00:00.000Z'],
      ['in an hour', '2026-01-31T10:30:00.000Z'],
      ['in 2 days', '2026-02-02T09:30:00.000Z'],
      ['2026-02-01T10:00:00+01:00', '2026-02-01T09:00:00.000Z'],
    ] as const)
      assert.deepEqual(read('resend.move', { scheduled_at: text }), { send_at: at });
  });

  it('reads a file of a form byte for byte, whatever is in it', () => {
    for (const content of ['', '\r\n', '--b', '\r\n--bx\r\n', 'a\0\u00ff'.repeat(50)]) {
      const bytes = Buffer.from(content, 'latin1');
      const body = Buffer.concat([
        Buffer.from(
          '--edge\r\nContent-Disposition: form-data; name="attachment"; filename="a.txt"\r\nContent-Type: text/x\r\n\r\n',
        ),
        bytes,
        Buffer.from('\r\n--edge--\r\n'),
      ]);
      const result = readForeign(body, {
        form: 'mailgun.message',
        contentType: 'multipart/form-data; boundary="edge"',
        headers: {},
        params: {},
        now: NOW,
      });
      assert.deepEqual(result.kind === 'ok' ? result.value : result, {
        attachments: [{ filename: 'a.txt', content: bytes.toString('base64'), content_type: 'text/x' }],
      });
    }
  });

  it('splits addresses at commas that are not part of one', () => {
    assert.deepEqual(
      splitAddresses('"A, B" <a@x.test>, b@x.test (c, d),, E <e@x.test>, =?utf-8?q?J=C3=B6=2C_K?= <j@x.test>, no one'),
      ['"A, B" <a@x.test>', '"c, d" <b@x.test>', '"E" <e@x.test>', '"Jö, K" <j@x.test>', 'no one'],
    );
  });

  it('finds the service of a path, also of a program that keeps only the host', () => {
    assert.equal(serviceAt('/compat/resend/emails')?.name, 'resend');
    assert.equal(serviceAt('/compat/other/emails'), null);
    assert.equal(serviceAt('/v1/messages'), null);
    assert.equal(
      withAdapter('/v3/x.test/messages', { authorization: 'Basic YTpi' }),
      '/compat/mailgun/v3/x.test/messages',
    );
    assert.equal(withAdapter('/v3/mail/send', { authorization: 'Bearer k' }), '/compat/sendgrid/v3/mail/send');
    assert.equal(withAdapter('/v3/mail/send', {}), '/v3/mail/send');
  });
});
