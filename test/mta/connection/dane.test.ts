import assert from 'node:assert/strict';
import { X509Certificate, createHash } from 'node:crypto';
import type { TlsaRecord } from '../../../src/net/resolver.ts';
import { daneFault } from '../../../src/mta/connection/tls.ts';
import { expired, server as certificate, testCa } from '../../support/harness/certificate.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import { notOpened, openDeps, opened, targetOf } from './helpers.ts';

const leaf = new X509Certificate(certificate.cert);
const old = new X509Certificate(expired.cert);
const ca = new X509Certificate(testCa);
const now = Date.parse('2026-01-31T09:30:00Z');
const spki = (of: X509Certificate): Buffer => of.publicKey.export({ type: 'spki', format: 'der' });
const sha = (name: string, bytes: Buffer): Buffer => createHash(name).update(bytes).digest();
const record = (usage: number, selector: number, matchingType: number, bytes: Buffer): TlsaRecord => ({
  usage,
  selector,
  matchingType,
  certificate: bytes,
});

const rows: [reason: string, chain: X509Certificate[], host: string, record: TlsaRecord, good: boolean][] = [
  ['3 1 1', [leaf], 'mx1.dest.test', record(3, 1, 1, sha('sha256', spki(leaf))), true],
  ['3 0 1', [leaf], 'mx1.dest.test', record(3, 0, 1, sha('sha256', leaf.raw)), true],
  ['3 1 2', [leaf], 'mx1.dest.test', record(3, 1, 2, sha('sha512', spki(leaf))), true],
  ['3 0 0', [leaf], 'mx1.dest.test', record(3, 0, 0, leaf.raw), true],
  ['another key', [leaf], 'mx1.dest.test', record(3, 1, 1, sha('sha256', spki(ca))), false],
  [
    'with usage 3 name and dates do not count',
    [old],
    'mx9.other.test',
    record(3, 1, 1, sha('sha256', spki(old))),
    true,
  ],
  ['2 0 1', [leaf, ca], 'mx1.dest.test', record(2, 0, 1, sha('sha256', ca.raw)), true],
  ['2 1 1', [leaf, ca], 'mx2.dest.test', record(2, 1, 1, sha('sha256', spki(ca))), true],
  ['usage 2, wrong name', [leaf, ca], 'mx9.other.test', record(2, 1, 1, sha('sha256', spki(ca))), false],
  ['usage 2, expired', [old, ca], 'mx1.dest.test', record(2, 1, 1, sha('sha256', spki(ca))), false],
  ['usage 2, anchor not sent', [leaf], 'mx1.dest.test', record(2, 1, 1, sha('sha256', spki(ca))), false],
  [
    'usage 2, a chain that does not hold',
    [ca, leaf],
    'mx1.dest.test',
    record(2, 1, 1, sha('sha256', spki(leaf))),
    false,
  ],
  ['no certificate', [], 'mx1.dest.test', record(3, 1, 1, sha('sha256', spki(leaf))), false],
];

describe('mta/connection/dane', () => {
  for (const [reason, chain, host, tlsa, good] of rows)
    it(`${reason}: ${good ? 'matches' : 'does not match'}`, () => {
      const fault = daneFault(
        chain.map((each) => each.raw),
        ['other.test', host],
        [tlsa],
        now,
      );
      assert.equal(fault === null, good, fault ?? 'matched');
    });

  it('says what is wrong with a chain that has the trust anchor', () => {
    const anchor = record(2, 1, 1, sha('sha256', spki(ca)));
    const other = record(3, 1, 1, sha('sha256', spki(ca)));
    const told = (chain: X509Certificate[], ...records: TlsaRecord[]) =>
      daneFault(
        chain.map((each) => each.raw),
        ['mx9.other.test', 'other.test'],
        records,
        now,
      );
    assert.equal(told([old, ca], anchor), 'CERT_HAS_EXPIRED');
    assert.match(told([leaf, ca], other, anchor) ?? '', /ALTNAME_INVALID: .* not for mx9\.other\.test or other\.test$/);
    assert.match(told([ca, leaf], record(2, 1, 1, sha('sha256', spki(leaf)))) ?? '', /do not lead to the trust anchor/);
    assert.match(told([leaf], anchor) ?? '', /matches no TLSA record/);
  });

  it('rejects bytes that are not a certificate', () => {
    assert.match(daneFault([Buffer.from('x')], ['mx1.dest.test'], [], now) ?? '', /can be read/);
  });

  it('decides over a real connection', async () => {
    const server = await startMailServer({
      tls: 'starttls',
      certificate: { ...certificate, cert: certificate.cert + testCa },
    });
    const deps = openDeps();
    for (const usage of [2, 3]) {
      const tlsa = [record(usage, 1, 1, sha('sha256', spki(usage === 2 ? ca : leaf)))];
      const need = { mode: 'required' as const, verify: 'dane' as const, tlsa, policy: 'dane' as const };
      const session = await opened(deps, targetOf(server, { need }));
      assert.deepEqual([session.tls?.verified, session.tls?.policy], [true, 'dane']);
      await session.close();
      const wrong = [record(usage, 1, 1, sha('sha256', Buffer.from('x')))];
      const failed = await notOpened(deps, targetOf(server, { need: { ...need, tlsa: wrong } }));
      assert.equal(failed.tlsUnsatisfied, true);
    }
    await server.close();
  });
});
