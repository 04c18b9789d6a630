/** The stock library of the Standard Webhooks project takes every call that we make, and no other. */
import assert from 'node:assert/strict';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { startReceiver, type ReceivedCall, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

const SIMULATED = 'simulator.posthorn.test';

describe('journey: the standardwebhooks package', () => {
  let app: TestApp;
  let receiver: WebhookReceiver;
  let hook: { id: string; secret: string };

  before(async () => {
    app = await startTestApp({
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });
    receiver = await startReceiver();
    const events = [
      'sent',
      'delivered',
      'opened',
      'clicked',
      'bounced',
      'complained',
      'deferred',
      'suppressed',
      'failed',
      'unsubscribed',
    ];
    const made = await app.request<{ id: string; secret: string }>('POST', '/v1/webhooks', {
      url: receiver.url,
      events,
    });
    assert.equal(made.status, 201, made.text);
    hook = made.body;
    for (const name of ['delivered', 'bounced', 'complained', 'opened', 'clicked', 'deferred'])
      await app.send({ from: `hi@${SIMULATED}`, to: `${name}@${SIMULATED}`, subject: 'Grüße 🎉 "quoted"' });
    assert.equal((await app.request('POST', `/v1/webhooks/${hook.id}/test`, {})).status, 200);
    // `sent` and its end for each of the six, what came after three of them, and the test.
    await receiver.reached(16);
  });
  after(async () => {
    await receiver.close();
    await app.stop();
  });

  /** The package compares with the time of the machine, which has gone on by more than it allows where the machine is busy. */
  const verified = (secret: string, body: string, headers: Record<string, string>): unknown => {
    const { now } = Date;
    Date.now = () => app.clock.now();
    try {
      return new Webhook(secret).verify(body, headers);
    } finally {
      Date.now = now;
    }
  };
  const headersOf = ({ headers }: ReceivedCall): Record<string, string> =>
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  const refused = (
    call: ReceivedCall,
    changes: { body?: string; headers?: Record<string, string>; secret?: string },
  ): void => {
    const { body = call.body, headers = {}, secret = hook.secret } = changes;
    assert.throws(() => verified(secret, body, { ...headersOf(call), ...headers }), WebhookVerificationError);
  };

  it('verifies every call and reads its body', () => {
    for (const call of receiver.calls) assert.deepEqual(verified(hook.secret, call.body, headersOf(call)), call.event);
    const kinds = new Set(receiver.calls.map(({ event }) => event.type));
    for (const kind of ['sent', 'delivered', 'bounced', 'complained', 'opened', 'clicked', 'deferred'])
      assert.ok(kinds.has(kind), kind);
  });

  it('refuses a wrong secret, a changed body, a changed id, an old and a future timestamp', () => {
    const wrong = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    for (const call of receiver.calls) {
      refused(call, { secret: wrong });
      refused(call, { body: call.body.replace('"event"', '"Event"') });
      refused(call, { body: `${call.body} ` });
      refused(call, { headers: { 'webhook-id': 'evt_00000000000000000000000000' } });
      const second = Number(call.headers['webhook-timestamp']);
      refused(call, { headers: { 'webhook-timestamp': String(second - 301) } });
      refused(call, { headers: { 'webhook-timestamp': String(second + 301) } });
      refused(call, { headers: { 'webhook-signature': 'v1,AAAA' } });
    }
  });

  it('takes calls by the old and by the new secret while a rotation lasts', async () => {
    const before = receiver.calls.length;
    const rotated = await app.request<{ secret: string }>('POST', `/v1/webhooks/${hook.id}/secret/rotate`, {});
    assert.equal(rotated.status, 200, rotated.text);
    await app.send({ from: `hi@${SIMULATED}`, to: `delivered@${SIMULATED}` });
    await receiver.reached(before + 2);
    for (const call of receiver.calls.slice(before))
      for (const secret of [hook.secret, rotated.body.secret])
        assert.deepEqual(verified(secret, call.body, headersOf(call)), call.event);
  });
});
