import assert from 'node:assert/strict';
import { trackingBase, trackingTargetOf, type HostRule } from '../../src/tracking/host.ts';
import { configFor } from '../support/harness/app.ts';

const ruleOf = (publicUrl: string, domainHosts: boolean | null = null): HostRule =>
  configFor('/tmp', 25, { http: { publicUrl }, tracking: { domainHosts } });
const OWN = { tracking_host: 'track.acme.test' };

describe('tracking/host', () => {
  for (const [publicUrl, domainHosts, target, base, why] of [
    ['http://mail.host.test', null, 'mail.host.test', 'http://track.acme.test', 'plain http needs no certificate'],
    ['http://mail.host.test:8025', null, 'mail.host.test', 'http://track.acme.test:8025', 'the same port'],
    ['https://mail.host.test/post', true, 'mail.host.test', 'https://track.acme.test/post', 'the same scheme and path'],
    [
      'https://mail.host.test',
      null,
      null,
      'https://mail.host.test',
      'with https each name needs a certificate, so it has to be wanted',
    ],
    ['http://mail.host.test', false, null, 'http://mail.host.test', 'not wanted'],
    ['http://127.0.0.1:8025', true, null, 'http://127.0.0.1:8025', 'an address can be no alias'],
    ['http://[2001:db8::1]:8025', true, null, 'http://[2001:db8::1]:8025', 'nor one of IPv6'],
    ['http://localhost:8025', true, null, 'http://localhost:8025', 'a name that is another machine elsewhere'],
  ] as const) {
    it(`${base}: ${why}`, () => {
      const rule = ruleOf(publicUrl, domainHosts);
      assert.equal(trackingTargetOf(rule), target);
      assert.equal(trackingBase(rule)(OWN), base);
      assert.equal(trackingBase(rule)({ tracking_host: null }), rule.http.publicUrl, 'DNS does not lead to us');
      assert.equal(trackingBase(rule)(null), rule.http.publicUrl, 'no domain of the account');
    });
  }
});
