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

describe('keys/grant: the addresses of a key that another one makes', () => {
  for (const [range, entry, isWithin] of [
    ['10.0.0.0/8', '10.0.0.0/8', true],
    ['10.0.0.0/8', '10.200.0.0/16', true],
    ['10.0.0.0/8', '10.255.255.255', true],
    ['10.0.0.0/8', '10.0.0.0/7', false],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['192.0.2.1', '192.0.2.0/31', false],
    ['2001:db8::/32', '2001:db8:ffff::/48', true],
    ['2001:db8::/32', '2001:db8::/31', false],
    ['10.0.0.0/8', '::/64', false],
  ] as const)
    it(`${isWithin ? 'are' : 'are not'} ${entry} if its own are ${range}`, () => {
      const grant = (): void => mayManage({ ...granter, allowedIps: [range] }, { ...key, allowedIps: [entry] }, 'id');
      if (isWithin) grant();
      else assert.throws(grant, Problem);
    });

  it('are not all addresses if its own are some', () => {
    assert.throws(() => mayManage({ ...granter, allowedIps: ['10.0.0.0/8'] }, key, 'id'), Problem);
  });
});
