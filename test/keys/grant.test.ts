import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { mayManage, type Granter } from '../../src/keys/grant.ts';

const granter: Granter = { scopes: ['send', 'key'], domains: ['acme.test'], allowedIps: [], expiresAt: null };
const key = { name: 'k', mode: 'live' as const, scopes: ['send'], domains: ['acme.test'], allowedIps: [] };

describe('keys/grant: a key that may do more than the one in use', () => {
  for (const [why, more, challenge] of [
    ['a scope', { scopes: ['send', 'campaign'] }, 'Bearer realm="api", error="insufficient_scope", scope="campaign"'],
    ['all domains', { domains: [] }, 'Bearer realm="api", error="insufficient_scope"'],
  ] as const)
    it(`is not managed: ${why}`, () => {
      assert.throws(
        () => mayManage(granter, { ...key, ...more }, 'id'),
        (error) =>
          error instanceof Problem &&
          error.code === 'insufficient_scope' &&
          error.headers['WWW-Authenticate'] === challenge,
      );
    });

  it('is managed where it may do no more', () => {
    mayManage(granter, key, 'id');
  });
});
