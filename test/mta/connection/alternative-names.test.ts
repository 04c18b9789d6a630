import assert from 'node:assert/strict';
import type { PeerCertificate } from 'node:tls';
import { checkAlternativeNames } from '../../../src/mta/connection/tls.ts';

/** Only these parts of a certificate are looked at. */
const certificate = (CN: string, subjectaltname?: string): PeerCertificate =>
  ({ subject: { CN }, ...(subjectaltname === undefined ? {} : { subjectaltname }) }) as unknown as PeerCertificate;

describe('mta/connection/tls: the names of a certificate', () => {
  for (const [reason, of, isGood] of [
    ['an alternative name', certificate('x', 'DNS:mx.dest.test'), true],
    ['an alternative name with a wildcard', certificate('x', 'DNS:a.test, DNS:*.dest.test'), true],
    ['another alternative name', certificate('mx.dest.test', 'DNS:other.test'), false],
    ['a common name alone (RFC 8461 section 4.2)', certificate('mx.dest.test'), false],
    [
      'a common name beside an alternative name of another kind',
      certificate('mx.dest.test', 'email:a@dest.test'),
      false,
    ],
  ] as const)
    it(`${reason}: ${isGood ? 'good' : 'not good'}`, () => {
      const fault = checkAlternativeNames('mx.dest.test', of);
      assert.equal(fault === undefined, isGood);
      if (fault !== undefined) assert.equal((fault as NodeJS.ErrnoException).code, 'ERR_TLS_CERT_ALTNAME_INVALID');
    });
});
