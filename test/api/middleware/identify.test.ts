import assert from 'node:assert/strict';
import { KEY, someCaller, startHarness } from '../harness.ts';
import type { Harness } from '../harness.ts';

describe('api/middleware/identify', () => {
  let h: Harness;
  beforeEach(async () => {
    h = await startHarness({
      settings: { trustedProxies: ['127.0.0.1'] },
      callers: {
        expired: { ...someCaller, expiresAt: 1000 },
        revoked: { ...someCaller, revokedAt: 1000 },
        elsewhere: { ...someCaller, allowedIps: ['192.0.2.0/24', '2001:db8::/32'] },
        tiny: { ...someCaller, plan: 'tiny', keyId: 'key_tiny', accountId: 'acc_tiny' },
      },
    });
  });
  afterEach(() => h.stop());

  const rows: [key: string | null, from: string, noted: string[], why: string][] = [
    [KEY, '198.51.100.7', ['key_one 198.51.100.7'], 'the address the proxy names, not the proxy'],
    ['elsewhere', '192.0.2.9', ['key_one 192.0.2.9'], 'an address of the list'],
    ['elsewhere', '2001:db8::5', ['key_one 2001:db8::5'], 'an IPv6 address of the list'],
    ['elsewhere', '198.51.100.7', [], 'a forbidden address is no use of the key by its owner'],
    ['expired', '198.51.100.7', [], 'an ended key'],
    ['revoked', '198.51.100.7', [], 'a revoked key'],
    ['nonsense', '198.51.100.7', [], 'no such key'],
    [null, '198.51.100.7', [], 'no key'],
  ];
  for (const [key, from, noted, why] of rows) {
    it(`notes ${noted.length === 0 ? 'no use for' : 'the use with'} ${why}`, async () => {
      await h.send('GET', '/v1/messages', { key, headers: { 'x-forwarded-for': from } });
      assert.deepEqual(h.uses, noted);
    });
  }

  it('notes refused uses too: the key was good', async () => {
    for (let n = 0; n < 5; n++) await h.send('GET', '/v1/messages', { key: 'tiny' });
    await h.send('DELETE', '/v1/settings');
    assert.equal(h.uses.length, 6);
  });
});
