import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readStsPolicy, readStsRecord, stsNames } from '../../src/mail/sts-policy.ts';

describe('mail/sts-policy', () => {
  for (const [texts, id, reason] of [
    [['v=STSv1; id=20160831085700Z;'], '20160831085700Z', 'as in the RFC'],
    [['v=spf1 -all', 'v=STSv1;id=1'], '1', 'beside others, and without spaces'],
    [['v=STSv1; x=y; id = 7 ;'], '7', 'after unknown fields'],
    [[], null, 'none'],
    [['v=STSv1; id=1', 'v=STSv1; id=2'], null, 'two are none'],
    [['v=STSv1;'], null, 'no id'],
    [['v=STSv1; id=a-b'], null, 'an id of other characters'],
    [[`v=STSv1; id=${'1'.repeat(33)}`], null, 'an id that is too long'],
    [['v=STSv2; id=1'], null, 'another version'],
    [['id=1; v=STSv1;'], null, 'the version is not first'],
  ] as const) {
    it(`reads ${JSON.stringify(texts)} as ${String(id)}: ${reason}`, () => {
      assert.equal(readStsRecord(texts), id);
    });
  }

  const policy = (...lines: string[]): string => lines.join('\r\n');
  for (const [text, expected, reason] of [
    [
      policy('version: STSv1', 'mode: enforce', 'mx: mail.example.com', 'mx: *.example.net', 'max_age: 604800', ''),
      { mode: 'enforce', mx: ['mail.example.com', '*.example.net'], maxAge: 604_800 },
      'as in the RFC',
    ],
    [
      'version:STSv1\nmode:testing\nmx: MX.Example.COM\nmax_age:1\n',
      { mode: 'testing', mx: ['mx.example.com'], maxAge: 1 },
      'LF alone, no spaces, capitals',
    ],
    [
      policy('version: STSv1', 'mode: none', 'max_age: 86400'),
      { mode: 'none', mx: [], maxAge: 86_400 },
      'none needs no mx',
    ],
    [
      policy('version: STSv1', 'mode: enforce', 'mx: a.test', 'max_age: 9999999999', 'later: x'),
      { mode: 'enforce', mx: ['a.test'], maxAge: 31_557_600 },
      'at most a year; unknown fields',
    ],
    [policy('version: STSv2', 'mode: enforce', 'mx: a.test', 'max_age: 1'), null, 'another version'],
    [policy('mode: enforce', 'mx: a.test', 'max_age: 1'), null, 'no version'],
    [policy('version: STSv1', 'mode: strict', 'mx: a.test', 'max_age: 1'), null, 'an unknown mode'],
    [policy('version: STSv1', 'mode: enforce', 'max_age: 1'), null, 'no mx'],
    [policy('version: STSv1', 'mode: enforce', 'mx: a.test'), null, 'no max_age'],
    [policy('version: STSv1', 'mode: enforce', 'mx: a.test', 'max_age: -1'), null, 'a negative one'],
    [policy('version: STSv1', 'mode: enforce', 'mx: a.*.test', 'max_age: 1'), null, 'a star inside'],
    [policy('version: STSv1', 'mode: enforce', 'mx: a b.test', 'max_age: 1'), null, 'no host name'],
    [
      policy(
        'version: STSv1',
        'mode: enforce',
        ...Array.from({ length: 101 }, (_, n) => `mx: m${String(n)}.test`),
        'max_age: 1',
      ),
      null,
      'too many',
    ],
    ['<html>', null, 'another document'],
  ] as const) {
    it(`${expected === null ? 'refuses' : 'reads'} a policy: ${reason}`, () => {
      const read = readStsPolicy(text);
      assert.deepEqual(read.kind === 'policy' ? read.policy : null, expected);
    });
  }

  for (const [mx, host, expected, reason] of [
    [['mail.example.com'], 'MAIL.example.com.', true, 'the name, whatever the case'],
    [['mail.example.com'], 'a.mail.example.com', false, 'below it'],
    [['*.example.com'], 'mx1.example.com', true, 'one label'],
    [['*.example.com'], 'a.b.example.com', false, 'two labels'],
    [['*.example.com'], 'example.com', false, 'no label'],
    [['*.com'], 'com', false, 'a single label'],
    [['a.test', '*.b.test'], 'x.b.test', true, 'one of several'],
    [[], 'a.test', false, 'nothing'],
  ] as const) {
    it(`${JSON.stringify(mx)} ${expected ? 'names' : 'does not name'} ${host}: ${reason}`, () => {
      assert.equal(stsNames({ mx }, host), expected);
    });
  }

  it('never throws, whatever it is given', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.array(fc.string()), (text, texts) => {
        readStsPolicy(text);
        readStsRecord(texts);
        stsNames({ mx: texts }, text);
      }),
    );
  });
});
