import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { WebhookError } from '../../src/client/errors.ts';
import { verifyWebhook, type WebhookHeaders } from '../../src/client/webhook-signature.ts';

const SECRET = `whsec_${Buffer.from('thirty-two bytes of a test secret').toString('base64')}`;
const OTHER = `whsec_${Buffer.from('another secret').toString('base64')}`;
const NOW = Date.parse('2026-01-31T09:30:00Z');
const SECONDS = String(NOW / 1000);
const BODY = JSON.stringify({
  object: 'event',
  id: 'evt_1',
  type: 'bounced',
  data: { subject: 'Grüße', bounced: { class: 'hard' } },
});

/** By the words of Standard Webhooks 1.0, with Node's own HMAC. */
function signed(secret: string, id = 'evt_1', timestamp = SECONDS, body = BODY): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}

const headers = (more: Record<string, string> = {}): Record<string, string> => ({
  'webhook-id': 'evt_1',
  'webhook-timestamp': SECONDS,
  'webhook-signature': signed(SECRET),
  ...more,
});

const verify = (
  given: WebhookHeaders = headers(),
  body: string | Uint8Array = BODY,
  secret: string | readonly string[] = SECRET,
) => verifyWebhook(body, given, secret, { now: NOW });

describe('client/webhook-signature', () => {
  for (const [reason, given, body, secret] of [
    ['a plain object', headers(), BODY, SECRET],
    ['Headers', new Headers(headers()), BODY, SECRET],
    [
      'names in another case, as proxies make them',
      Object.fromEntries(Object.entries(headers()).map(([name, value]) => [name.toUpperCase(), value])),
      BODY,
      SECRET,
    ],
    [
      'values as lists',
      Object.fromEntries(Object.entries(headers()).map(([name, value]) => [name, [value]])),
      BODY,
      SECRET,
    ],
    ['bytes', headers(), Buffer.from(BODY), SECRET],
    [
      'a second signature, of a rotation',
      headers({ 'webhook-signature': `${signed(OTHER)} ${signed(SECRET)}` }),
      BODY,
      SECRET,
    ],
    [
      'a signature of a kind to come',
      headers({ 'webhook-signature': `v1a,AAAA v2,x ${signed(SECRET)}` }),
      BODY,
      SECRET,
    ],
    ['one of several secrets', headers(), BODY, [OTHER, SECRET]],
    ['a secret without its prefix', headers(), BODY, SECRET.slice(6)],
    [
      'four minutes old',
      headers({
        'webhook-timestamp': String(NOW / 1000 - 240),
        'webhook-signature': signed(SECRET, 'evt_1', String(NOW / 1000 - 240)),
      }),
      BODY,
      SECRET,
    ],
  ] as const) {
    it(`believes ${reason}`, async () => {
      const event = await verify(given, body, secret);
      assert.equal(event.id, 'evt_1');
      // The kind tells which member there is: this line is checked by the compiler.
      assert.equal(event.type === 'bounced' ? event.data.bounced.class : '', 'hard');
    });
  }

  const old = String(NOW / 1000 - 301);
  const early = String(NOW / 1000 + 301);
  for (const [reason, code, given, body] of [
    ['another body', 'bad_signature', headers(), BODY.replace('hard', 'soft')],
    ['one byte more', 'bad_signature', headers(), `${BODY} `],
    ['another id', 'bad_signature', headers({ 'webhook-id': 'evt_2' }), BODY],
    ['another time', 'bad_signature', headers({ 'webhook-timestamp': String(NOW / 1000 - 1) }), BODY],
    ['another secret', 'bad_signature', headers({ 'webhook-signature': signed(OTHER) }), BODY],
    ['a signature cut short', 'bad_signature', headers({ 'webhook-signature': signed(SECRET).slice(0, -8) }), BODY],
    ['a signature that is no base64', 'bad_signature', headers({ 'webhook-signature': 'v1,%%%' }), BODY],
    [
      'the wrong version',
      'bad_signature',
      headers({ 'webhook-signature': signed(SECRET).replace('v1,', 'v2,') }),
      BODY,
    ],
    [
      'a true signature behind ten others',
      'bad_signature',
      headers({ 'webhook-signature': `${`${signed(OTHER)} `.repeat(10)}${signed(SECRET)}` }),
      BODY,
    ],
    ['no id', 'missing_header', headers({ 'webhook-id': '' }), BODY],
    ['no signature', 'missing_header', { 'webhook-id': 'evt_1', 'webhook-timestamp': SECONDS }, BODY],
    ['no headers', 'missing_header', new Headers(), BODY],
    [
      'a call of long ago',
      'too_old',
      headers({ 'webhook-timestamp': old, 'webhook-signature': signed(SECRET, 'evt_1', old) }),
      BODY,
    ],
    [
      'a call of the future',
      'too_new',
      headers({ 'webhook-timestamp': early, 'webhook-signature': signed(SECRET, 'evt_1', early) }),
      BODY,
    ],
    ['a time that is none', 'bad_timestamp', headers({ 'webhook-timestamp': '1e9' }), BODY],
    [
      'a body that is no event',
      'unreadable_body',
      headers({ 'webhook-signature': signed(SECRET, 'evt_1', SECONDS, '{}') }),
      '{}',
    ],
    [
      'a body that is no JSON',
      'unreadable_body',
      headers({ 'webhook-signature': signed(SECRET, 'evt_1', SECONDS, 'x') }),
      'x',
    ],
  ] as const) {
    it(`refuses ${reason}: ${code}`, async () => {
      await assert.rejects(verify(given, body), (error) => error instanceof WebhookError && error.code === code);
    });
  }

  it('takes another tolerance', async () => {
    const given = headers({ 'webhook-timestamp': old, 'webhook-signature': signed(SECRET, 'evt_1', old) });
    assert.ok(await verifyWebhook(BODY, given, SECRET, { now: NOW, toleranceMs: 301_000 }));
    await assert.rejects(
      verifyWebhook(BODY, headers(), SECRET),
      WebhookError,
      'the clock is real where no time is given',
    );
  });

  it('says that a secret is none: that is no fault of the call', async () => {
    for (const secret of ['', 'whsec_', 'whsec_%%%']) await assert.rejects(verify(headers(), BODY, secret), TypeError);
  });
});
