import assert from 'node:assert/strict';
import { checkRepeat } from '../../src/api/idempotency.ts';
import type { Caller } from '../../src/keys/caller.ts';

const caller = (scopes: readonly string[]): Caller => ({
  accountId: 'acc',
  keyId: 'key',
  keyName: 'a key',
  mode: 'live',
  scopes,
  domains: [],
  allowedIps: [],
  plan: 'unlimited',
  paused: false,
  expiresAt: null,
  revokedAt: null,
});

describe('the answer of a bulk send, asked for with the body of a single mail under the same Idempotency-Key', () => {
  const answer = { isSecret: false, isBulk: true };

  it('is refused to a key that may not send in bulk', () => {
    assert.throws(() => checkRepeat(caller(['send']), caller(['campaign']), answer), { code: 'insufficient_scope' });
  });

  it('is given to one that may', () => {
    assert.doesNotThrow(() => checkRepeat(caller(['send', 'campaign']), caller(['campaign']), answer));
  });

  it('leaves the answers of single mails as they were', () => {
    assert.doesNotThrow(() => checkRepeat(caller(['send']), caller(['campaign']), { ...answer, isBulk: false }));
  });

  it("is refused with another body to a key that may not read messages: it would see the other key's mail", () => {
    const other = { ...answer, isBulk: false, isMismatch: true };
    assert.throws(() => checkRepeat(caller(['send']), caller(['send']), other), { code: 'idempotency_key_reused' });
    assert.doesNotThrow(() => checkRepeat(caller(['send', 'message:read']), caller(['send']), other));
    assert.doesNotThrow(() => checkRepeat(caller(['send']), caller(['send']), { ...other, isMismatch: false }));
  });
});
