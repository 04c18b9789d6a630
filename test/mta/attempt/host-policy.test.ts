import assert from 'node:assert/strict';
import { policyAt } from '../../../src/mta/attempt/outcome.ts';
import type { Host, Site } from '../../../src/mta/sites/sites.ts';

const host: Host = { name: 'mx1.dest.test', port: 25, addresses: [{ ip: '192.0.2.25', family: 4 }] };
const site: Site = { kind: 'site', name: 'dest', hosts: [host], relay: null };
const trouble: Host = { ...host, dane: { kind: 'trouble', text: 'SERVFAIL' } };

describe('mta/attempt/host-policy, the policy of an attempt', () => {
  it('is the one that allows plaintext', () => {
    assert.equal(policyAt(site, host.name, null), 'opportunistic');
    assert.equal(policyAt({ ...site, tls: 'none' }, host.name, null), 'operator');
    assert.equal(policyAt({ ...site, relay: { tls: 'none', auth: null } }, host.name, null), 'operator');
  });

  it('is the one that keeps the mail from the host', () => {
    assert.equal(policyAt({ ...site, hosts: [trouble] }, host.name, null), 'dane');
    assert.equal(policyAt(site, host.name, 'require'), 'requiretls');
    const sts: Site['sts'] = { mode: 'enforce', mx: ['other.test'], maxAge: 86_400 };
    assert.equal(policyAt({ ...site, sts }, host.name, null), 'mta-sts');
  });

  it('is none without a host of the site', () => {
    assert.equal(policyAt(site, null, null), null);
    assert.equal(policyAt(site, '', null), null);
  });
});
