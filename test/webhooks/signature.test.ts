import assert from 'node:assert/strict';
import fc from 'fast-check';
import { sign, writeSecret } from '../../src/webhooks/signature.ts';
import { verifyCall } from '../support/fakes/webhook-receiver.ts';

describe('webhooks/signature', () => {
  it('is what other implementations make of the published example', () => {
    const secret = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
    const headers = sign([secret], {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1614265330,
      body: '{"test": 2432232314}',
    });
    assert.equal(headers['webhook-signature'], 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  it('is verified with the secret as it is shown, by each of several secrets, and by no other', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ minLength: 32, maxLength: 32 }), { minLength: 1, maxLength: 3 }),
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 1, max: 4_000_000_000 }),
        (raw, body, timestamp) => {
          const secrets = raw.map((bytes) => Buffer.from(bytes));
          const call = { headers: { ...sign(secrets, { id: 'evt_1', timestamp, body }) }, body };
          for (const secret of secrets) assert.equal(verifyCall(call, writeSecret(secret), timestamp * 1000), null);
          assert.equal(verifyCall(call, writeSecret(Buffer.alloc(32, 7)), timestamp * 1000), 'signature');
          assert.equal(
            verifyCall({ ...call, body: `${body}x` }, writeSecret(Buffer.from(secrets[0] ?? [])), timestamp * 1000),
            'signature',
          );
        },
      ),
    );
  });

  it('writes a secret as whsec_ and base64', () => {
    assert.equal(writeSecret(Buffer.alloc(32)), `whsec_${'A'.repeat(43)}=`);
  });
});
