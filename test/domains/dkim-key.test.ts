import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import type { Keyring } from '../../src/base/keyring.ts';
import { makeDkimKeys, promote, sealPurpose, selectorFor } from '../../src/domains/dkim-key.ts';

const january = Date.parse('2026-01-31T23:59:59Z');
/** Shows what was sealed for which purpose. */
const openKeyring = {
  seal: (purpose: string, plain: Buffer | string) => `${purpose}|${plain.toString()}`,
} as Keyring;

describe('domains/dkim-key', () => {
  it('makes an RSA-2048 and an Ed25519 key, each sealed for its own row', async () => {
    const keys = await makeDkimKeys(
      { keyring: openKeyring },
      { domainId: 'dom_1', now: january, state: 'pending', taken: [] },
    );
    assert.deepEqual(
      keys.map(({ algorithm, selector, state }) => [algorithm, selector, state]),
      [
        ['rsa-sha256', 'ph202601r', 'pending'],
        ['ed25519-sha256', 'ph202601e', 'pending'],
      ],
    );
    for (const key of keys) {
      const [purpose, pem = ''] = key.private_key_sealed.split('|');
      assert.equal(purpose, sealPurpose(key.id));
      const privateKey = createPrivateKey(pem);
      assert.equal(createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }), key.public_key);
      assert.deepEqual([key.active_at, key.retired_at], [null, null]);
      if (key.algorithm === 'rsa-sha256') assert.equal(privateKey.asymmetricKeyDetails?.modulusLength, 2048);
      else assert.equal(privateKey.asymmetricKeyType, 'ed25519');
    }
  });

  const selectors: [taken: string[], selector: string, reason: string][] = [
    [[], 'ph202601r', 'the first of a month'],
    [['ph202601r'], 'ph202601r2', 'the second: a resolver may still hold the first'],
    [['ph202601r', 'ph202601r2'], 'ph202601r3', 'the third'],
    [['ph202512r', 'ph202601e'], 'ph202601r', 'other months and algorithms do not count'],
  ];
  for (const [taken, selector, reason] of selectors) {
    it(`names a key ${selector}: ${reason}`, () => {
      assert.equal(selectorFor('rsa-sha256', january, taken), selector);
    });
  }

  type Key = Parameters<typeof promote>[0][number];
  const rsa = (id: string, state: Key['state']): Key => ({ id, algorithm: 'rsa-sha256', state });
  const ed = (id: string, state: Key['state']): Key => ({ id, algorithm: 'ed25519-sha256', state });
  const steps: [keys: Key[], seen: string[], activate: string[], retire: string[], reason: string][] = [
    [[rsa('1', 'pending'), ed('2', 'pending')], [], [], [], 'nothing is seen'],
    [[rsa('1', 'pending'), ed('2', 'pending')], ['1'], ['1'], [], 'one of the first pair'],
    [[rsa('1', 'active'), ed('2', 'active')], ['1', '2'], [], [], 'active ones stay'],
    [[rsa('1', 'active'), rsa('3', 'pending')], ['1', '3'], ['3'], ['1'], 'the next one takes over'],
    [[rsa('1', 'active'), rsa('3', 'pending')], ['1'], [], [], 'not before it is seen'],
    [
      [rsa('1', 'active'), ed('2', 'active'), rsa('3', 'pending'), ed('4', 'pending')],
      ['4'],
      ['4'],
      ['2'],
      'algorithms on their own',
    ],
    [[ed('2', 'pending'), ed('4', 'pending')], ['2', '4'], ['4'], ['2'], 'only the newest of two'],
    [[rsa('1', 'retiring'), rsa('3', 'pending')], ['3'], ['3'], [], 'what retires goes on retiring'],
    [[rsa('1', 'retiring')], ['1'], [], [], 'what retires does not come back'],
  ];
  for (const [keys, seen, activate, retire, reason] of steps) {
    it(`promotes: ${reason}`, () => {
      const step = promote(keys, new Set(seen));
      assert.deepEqual([step.activate.map(({ id }) => id), step.retire.map(({ id }) => id)], [activate, retire]);
    });
  }
});
