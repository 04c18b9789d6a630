import assert from 'node:assert/strict';
import { Problem, type ProblemCode } from '../../src/base/problem.ts';
import { checkKeyChanges, checkNewKey, type KeyRequest } from '../../src/keys/new-key.ts';
import { scopeNames } from '../../src/keys/scopes.ts';

const now = 1_000_000;
const good: KeyRequest = { name: 'App', scopes: ['send'] };

const bad: [request: KeyRequest, code: ProblemCode, field: string][] = [
  [{ ...good, name: '' }, 'invalid_field', 'name'],
  [{ ...good, name: '  ' }, 'invalid_field', 'name'],
  [{ ...good, name: 'a\nb' }, 'invalid_field', 'name'],
  [{ ...good, name: 'x'.repeat(101) }, 'field_too_long', 'name'],
  [{ ...good, scopes: [] }, 'invalid_field', 'scopes'],
  [{ ...good, scopes: ['send', 'sendd'] }, 'invalid_field', 'scopes[1]'],
  [{ ...good, scopes: ['toString'] }, 'invalid_field', 'scopes[0]'],
  [{ ...good, scopes: new Array<string>(31).fill('send') }, 'too_many_items', 'scopes'],
  [{ ...good, domains: ['acme.test', 'a b'] }, 'invalid_field', 'domains[1]'],
  [{ ...good, domains: ['test'] }, 'invalid_field', 'domains[0]'],
  [{ ...good, domains: ['x'.repeat(300)] }, 'invalid_field', 'domains[0]'],
  [{ ...good, domains: new Array<string>(101).fill('acme.test') }, 'too_many_items', 'domains'],
  [{ ...good, allowedIps: ['::/0'] }, 'invalid_field', 'allowed_ips[0]'],
  [{ ...good, expiresAt: now }, 'invalid_field', 'expires_at'],
  [{ ...good, expiresAt: Number.NaN }, 'invalid_field', 'expires_at'],
];

describe('keys/new-key', () => {
  it('fills in what is not said', () => {
    assert.deepEqual(checkNewKey(good, now), {
      name: 'App',
      mode: 'live',
      scopes: ['send'],
      domains: [],
      allowedIps: [],
      expiresAt: null,
    });
  });

  it('puts everything into its canonical form', () => {
    const checked = checkNewKey(
      {
        name: ' App ',
        mode: 'test',
        scopes: ['template', 'send', 'send'],
        domains: ['Bücher.Test', 'xn--bcher-kva.test', 'a.test'],
        allowedIps: ['10.1.2.3/8'],
        expiresAt: now + 1,
      },
      now,
    );
    assert.deepEqual(checked, {
      name: 'App',
      mode: 'test',
      scopes: ['send', 'template'],
      domains: ['xn--bcher-kva.test', 'a.test'],
      allowedIps: ['10.0.0.0/8'],
      expiresAt: now + 1,
    });
    assert.equal(checkNewKey({ ...good, scopes: scopeNames }, now).scopes.length, 30);
  });

  for (const [request, code, field] of bad) {
    it(`refuses ${JSON.stringify(request).slice(0, 70)}`, () => {
      assert.throws(
        () => checkNewKey(request, now),
        (error: unknown) => error instanceof Problem && error.code === code && error.field === field,
      );
    });
  }

  it('checks changes by the same rules and leaves out what does not change', () => {
    assert.deepEqual(checkKeyChanges({}, 0), {});
    assert.deepEqual(checkKeyChanges({ name: ' B ', allowedIps: [] }, 0), { name: 'B', allowedIps: [] });
    assert.throws(() => checkKeyChanges({ scopes: [] }, 0), Problem);
    assert.deepEqual(checkKeyChanges({ expiresAt: null }, 5), { expiresAt: null });
    assert.throws(() => checkKeyChanges({ expiresAt: 5 }, 5), Problem);
  });
});
