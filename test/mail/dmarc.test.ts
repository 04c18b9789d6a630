/** DMARC by tables of records. */
import assert from 'node:assert/strict';
import { checkDmarc, type Authenticated, type Look } from '../../src/mail/authentication.ts';
import { lookInZones, type Zones } from '../support/fakes/zones.ts';

const zones: Zones = {
  '_dmarc.acme.example TXT': ['x', 'v=DMARC1; p=reject; sp=quarantine'],
  '_dmarc.strict.example TXT': ['v=DMARC1;p=quarantine;adkim=s;aspf=s'],
  '_dmarc.two.example TXT': ['v=DMARC1; p=none', 'v=DMARC1; p=reject'],
  '_dmarc.odd.example TXT': ['v=DMARC1; p=perhaps'],
  '_dmarc.trouble.example TXT': 'SERVFAIL',
};
const look: Look = (_, name) => {
  const found = lookInZones(zones, name, 'TXT');
  return Promise.resolve(found.kind === 'records' ? found.records : found.kind === 'fault' ? null : []);
};

const nothing: Authenticated = { spf: [], dkim: [] };
const cases: readonly (readonly [string, Authenticated, string, string | null])[] = [
  ['acme.example', { spf: ['rp.acme.example'], dkim: [] }, 'pass', 'reject'],
  ['acme.example', { spf: [], dkim: ['acme.example'] }, 'pass', 'reject'],
  ['acme.example', { spf: ['evil.test'], dkim: ['evil.test'] }, 'fail', 'reject'],
  ['shop.acme.example', { spf: [], dkim: ['acme.example'] }, 'pass', 'quarantine'],
  ['shop.acme.example', nothing, 'fail', 'quarantine'],
  ['strict.example', { spf: ['rp.strict.example'], dkim: ['mail.strict.example'] }, 'fail', 'quarantine'],
  ['strict.example', { spf: ['rp.strict.example'], dkim: ['strict.example'] }, 'pass', 'quarantine'],
  ['two.example', nothing, 'none', null],
  ['odd.example', nothing, 'none', null],
  ['absent.example', nothing, 'none', null],
  ['trouble.example', { spf: ['trouble.example'], dkim: [] }, 'temperror', null],
];

describe('checkDmarc', () => {
  for (const [from, authenticated, result, policy] of cases)
    it(`says ${result} of ${from} with ${JSON.stringify(authenticated)}`, async () => {
      assert.deepEqual(await checkDmarc(look, from, authenticated), { result, domain: from, policy });
    });
});
