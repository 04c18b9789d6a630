/** An answer under a known Idempotency-Key shows no secret, and no mail of another key, to a caller who may not see it now. */
import assert from 'node:assert/strict';
import { checkRepeat, type Repeat } from '../../src/api/idempotency.ts';
import type { Caller } from '../../src/keys/caller.ts';

const caller = (scopes: readonly string[], domains: readonly string[] = []): Caller => ({
  accountId: 'acc',
  keyId: 'key',
  keyName: 'a key',
  mode: 'live',
  scopes,
  domains,
  allowedIps: [],
  plan: 'unlimited',
  paused: false,
  expiresAt: null,
  revokedAt: null,
});

const message = { object: 'message', from: 'Shop <hi@acme.test>' };
const batch = { object: 'batch', id: 'bat_1' };
const secret = { object: 'webhook_secret', secret: 'whsec_1' };
const key = (scopes: string[], more: object = {}) => ({
  object: 'key',
  name: 'new',
  mode: 'live',
  scopes,
  domains: [],
  allowed_ips: [],
  expires_at: null,
  key: 'ak_live_1',
  ...more,
});

type Case = [what: string, who: Caller, answer: Partial<Repeat>, code: string | null];

const cases: Case[] = [
  ['a bulk send without the scope for one', caller(['send']), { record: batch }, null],
  ['mail', caller(['send']), { record: message }, null],
  ['mail with another body', caller(['send']), { record: message, isMismatch: true }, 'idempotency_key_reused'],
  [
    'mail with another body that it may read',
    caller(['send', 'message:read']),
    { record: message, isMismatch: true },
    null,
  ],
  ['its own mail with another body', caller(['send']), { record: message, isMismatch: true, isOthers: false }, null],
  ['its own mail from a domain it lost', caller(['send'], ['shop.test']), { record: message, isOthers: false }, null],
  ['a key with its own rights', caller(['key', 'send']), { record: key(['send']) }, null],
  ['a key with more rights', caller(['key']), { record: key(['send']) }, 'insufficient_scope'],
  [
    'a key it made, with a right it lost',
    caller(['key']),
    { record: key(['send']), isOthers: false },
    'insufficient_scope',
  ],
  ['a key for all domains', caller(['key', 'send'], ['a.test']), { record: key(['send']) }, 'insufficient_scope'],
  [
    'a key for its domain',
    caller(['key', 'send'], ['a.test']),
    { record: key(['send'], { domains: ['a.test'] }) },
    null,
  ],
  ['the secret of a webhook endpoint', caller(['webhook:read']), { record: secret }, 'insufficient_scope'],
  ['the secret that it may read', caller(['webhook:secret']), { record: secret }, null],
  ['the secret that it made', caller(['webhook:read']), { record: secret, isOthers: false }, null],
  ['an answer without a body', caller(['webhook']), { record: {} }, null],
];

describe('the answer to another request with the same Idempotency-Key', () => {
  for (const [what, who, answer, code] of cases)
    it(`${what}: ${code ?? 'given'}`, () => {
      const ask = () => {
        checkRepeat(who, { record: {}, isOthers: true, isMismatch: false, ...answer });
      };
      if (code === null) assert.doesNotThrow(ask);
      else assert.throws(ask, { code });
    });
});
