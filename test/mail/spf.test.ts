/** SPF against tables of records, and against mailauth, which is another program for the same standard. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { checkSpf, type Look, type SpfQuestion } from '../../src/mail/authentication.ts';
import { lookInZones, type Zones } from '../support/fakes/zones.ts';

/** mailauth brings no types. */
type Reference = (question: object) => Promise<{ status: { result: string } }>;
const { spf: reference } = createRequire(import.meta.url)('mailauth/lib/spf') as { spf: Reference };

const zones: Zones = {
  'plain.test TXT': ['other', 'v=spf1 ip4:192.0.2.0/28 ip6:2001:db8::/32 -all'],
  'soft.test TXT': ['v=spf1 a mx ~all'],
  'soft.test A': ['192.0.2.10'],
  'soft.test MX': ['10 mx.soft.test'],
  'mx.soft.test A': ['192.0.2.20'],
  'mx.soft.test AAAA': ['2001:db8::20'],
  'chain.test TXT': ['v=spf1 include:plain.test ?all'],
  'moved.test TXT': ['v=spf1 redirect=plain.test'],
  'lost.test TXT': ['v=spf1 redirect=none.test'],
  'none.test TXT': ['nothing of it'],
  'void.test TXT': ['v=spf1 a:v1.test a:v2.test a:v3.test -all'],
  'two.test TXT': ['v=spf1 -all', 'v=spf1 +all'],
  'odd.test TXT': ['v=spf1 ip4:300.1.2.3 -all'],
  'unknown.test TXT': ['v=spf1 foo:bar -all'],
  'loop.test TXT': ['v=spf1 include:loop.test -all'],
  'trouble.test TXT': 'TIMEOUT',
  'troubled.test TXT': ['v=spf1 include:trouble.test -all'],
  'exists.test TXT': ['v=spf1 exists:%{ir}.%{v}._spf.%{d2} -all'],
  '1.2.0.192.in-addr._spf.exists.test A': ['127.0.0.2'],
  'local.test TXT': ['v=spf1 exists:%{l}.%{o}.users.test -all'],
  'ana.local.test.users.test A': ['127.0.0.2'],
  'ptr.test TXT': ['v=spf1 ptr -all'],
  '192.0.2.1 PTR': ['host.ptr.test'],
  'host.ptr.test A': ['192.0.2.1'],
  'neutral.test TXT': ['v=spf1 ip4:198.51.100.1'],
  'cidr.test TXT': ['v=spf1 a/24//64 -all'],
  'cidr.test A': ['192.0.2.77'],
  'cidr.test AAAA': ['2001:db8::77'],
  'helo.test TXT': ['v=spf1 ip4:192.0.2.1 -all'],
  'many.test TXT': [`v=spf1 ${Array.from({ length: 11 }, (_, n) => `exists:e${String(n)}.many.test`).join(' ')} -all`],
  ...Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`e${String(n)}.many.test MX`, ['10 x.test']])),
};

const look: Look = (type, name) => {
  const found = lookInZones(zones, name, type.toUpperCase());
  if (found.kind === 'fault') return Promise.resolve(null);
  const records = found.kind === 'records' ? found.records : [];
  return Promise.resolve(type === 'mx' ? records.map((one) => one.split(' ')[1] ?? '') : records);
};

/** The same table in the form of Node's resolver. */
async function resolve(name: string, type: string): Promise<unknown> {
  const found = lookInZones(zones, type === 'PTR' && name.startsWith('1.2.0.192') ? '192.0.2.1' : name, type);
  if (found.kind === 'fault') throw Object.assign(new Error('fault'), { code: 'ETIMEOUT' });
  if (found.kind !== 'records')
    throw Object.assign(new Error('none'), { code: found.kind === 'no_data' ? 'ENODATA' : 'ENOTFOUND' });
  if (type === 'TXT') return found.records.map((one) => [one]);
  if (type !== 'MX') return found.records;
  return found.records.map((one) => ({ priority: Number(one.split(' ')[0]), exchange: one.split(' ')[1] }));
}

const from = (domain: string, ip = '192.0.2.1'): SpfQuestion => ({ ip, sender: `ana@${domain}`, helo: 'helo.test' });

const cases: readonly (readonly [SpfQuestion, string])[] = [
  [from('plain.test'), 'pass'],
  [from('plain.test', '192.0.2.16'), 'fail'],
  [from('plain.test', '2001:db8::1'), 'pass'],
  [from('plain.test', '::ffff:192.0.2.1'), 'pass'],
  [from('soft.test', '192.0.2.10'), 'pass'],
  [from('soft.test', '192.0.2.20'), 'pass'],
  [from('soft.test', '2001:db8::20'), 'pass'],
  [from('soft.test', '192.0.2.30'), 'softfail'],
  [from('chain.test'), 'pass'],
  [from('chain.test', '198.51.100.1'), 'neutral'],
  [from('moved.test'), 'pass'],
  [from('moved.test', '198.51.100.1'), 'fail'],
  [from('lost.test'), 'permerror'],
  [from('none.test'), 'none'],
  [from('absent.test'), 'none'],
  [from('void.test'), 'permerror'],
  [from('two.test'), 'permerror'],
  [from('unknown.test'), 'permerror'],
  [from('loop.test'), 'permerror'],
  [from('trouble.test'), 'temperror'],
  [from('troubled.test'), 'temperror'],
  [from('exists.test'), 'pass'],
  [from('exists.test', '192.0.2.2'), 'fail'],
  [from('local.test'), 'pass'],
  [from('ptr.test'), 'pass'],
  [from('ptr.test', '192.0.2.2'), 'fail'],
  [from('neutral.test'), 'neutral'],
  [from('cidr.test', '192.0.2.1'), 'pass'],
  [from('cidr.test', '192.0.3.1'), 'fail'],
  [from('cidr.test', '2001:db8::1'), 'pass'],
  [{ ip: '192.0.2.1', sender: '', helo: 'helo.test' }, 'pass'],
  [{ ip: '192.0.2.1', sender: '', helo: 'localhost' }, 'none'],
];

describe('checkSpf', () => {
  for (const [question, result] of cases)
    it(`says ${result} of ${question.sender || question.helo} from ${question.ip}, as mailauth does`, async () => {
      assert.equal((await checkSpf(look, question)).result, result);
      const { status } = await reference({ ...question, resolver: resolve });
      assert.equal(status.result, result);
    });

  it('takes a record with a broken address for an error', async () => {
    assert.equal((await checkSpf(look, from('odd.test'))).result, 'permerror');
  });

  it('ends after ten look-ups', async () => {
    assert.equal((await checkSpf(look, from('many.test'))).result, 'permerror');
  });

  it('names the domain that it is about', async () => {
    assert.equal((await checkSpf(look, from('plain.test'))).domain, 'plain.test');
    assert.equal((await checkSpf(look, { ip: '192.0.2.1', sender: '', helo: 'helo.test' })).domain, 'helo.test');
  });
});
