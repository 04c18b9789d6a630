import assert from 'node:assert/strict';
import { isScope, scopeAllows, scopeNames } from '../../src/keys/scopes.ts';
import type { Scope } from '../../src/keys/scopes.ts';

describe('scopes', () => {
  it('are thirty, counted by area as the contract counts them', () => {
    const areas = new Map<string, number>();
    for (const name of scopeNames) {
      const area = name.split(':')[0] ?? '';
      areas.set(area, (areas.get(area) ?? 0) + 1);
    }
    assert.equal(scopeNames.length, 30);
    assert.deepEqual(Object.fromEntries(areas), {
      send: 1,
      campaign: 2,
      message: 4,
      template: 3,
      suppression: 3,
      webhook: 4,
      event: 2,
      stats: 1,
      domain: 4,
      stream: 2,
      key: 2,
      audit: 1,
      settings: 1,
    });
  });

  const rows: [granted: string[], needed: Scope, allowed: boolean, why: string][] = [
    [['send'], 'send', true, 'the scope itself'],
    [['send'], 'campaign', false, 'another area'],
    [['domain'], 'domain:read', true, 'a bare scope opens its whole area, reads included'],
    [['domain'], 'domain:dkim', true, 'a bare scope opens its whole area, writes included'],
    [['domain:read'], 'domain', false, 'a verb does not open the area'],
    [['domain:read'], 'domain:verify', false, 'a verb opens only itself'],
    [['message'], 'message:read', false, 'an area without a bare name cannot be granted whole'],
    [['event'], 'event:engagement', false, 'likewise'],
    [['campaign'], 'campaign:read', true, 'campaign includes campaign:read'],
    [['key:read', 'key'], 'key', true, 'any of the granted ones'],
    [[], 'settings', false, 'nothing granted'],
    [['toString'], 'settings', false, 'names of object members are no scopes'],
  ];
  for (const [granted, needed, allowed, why] of rows) {
    it(`[${granted.join(' ')}] ${allowed ? 'opens' : 'does not open'} ${needed}: ${why}`, () => {
      assert.equal(scopeAllows(granted, needed), allowed);
    });
  }

  it('knows its own names only', () => {
    assert.equal(isScope('send'), true);
    assert.equal(isScope('message'), false);
    assert.equal(isScope('constructor'), false);
  });
});
