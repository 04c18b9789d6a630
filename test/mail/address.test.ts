import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { addressKey, formatMailbox, parseMailbox } from '../../src/mail/address.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';

const label = (length: number): string => 'a'.repeat(length);

/** [input, name, address, reason] */
const good: readonly (readonly [string, string | null, string, string])[] = [
  ['a@b.c', null, 'a@b.c', 'the shortest form'],
  ['<a@b.c>', null, 'a@b.c', 'angle brackets without a name'],
  ['Name <a@b.c>', 'Name', 'a@b.c', 'a name'],
  ['  Name   <a@b.c>  ', 'Name', 'a@b.c', 'spaces around are nothing'],
  ['\t a@b.c\r\n', null, 'a@b.c', 'so are line breaks'],
  ['Name<a@b.c>', 'Name', 'a@b.c', 'no space is needed before <'],
  ['"Quoted, name" <a@b.c>', 'Quoted, name', 'a@b.c', 'a quoted name'],
  ['"a \\"b\\" \\\\" <a@b.c>', 'a "b" \\', 'a@b.c', 'quoted pairs in the name'],
  ['"" <a@b.c>', null, 'a@b.c', 'an empty name is none'],
  ['Acme, Inc. <a@b.c>', 'Acme, Inc.', 'a@b.c', 'an unquoted name is taken whole'],
  ['Ann (sales) [x]: <a@b.c>', 'Ann (sales) [x]:', 'a@b.c', 'specials in an unquoted name'],
  ['Anna "Nan" Lee <a@b.c>', 'Anna "Nan" Lee', 'a@b.c', 'quotes inside an unquoted name'],
  ['"Q" Lee <a@b.c>', '"Q" Lee', 'a@b.c', 'a name that only begins with quotes'],
  ['a < b <a@b.c>', 'a < b', 'a@b.c', 'the last < opens the address'],
  ['Žluťoučký kůň <a@b.c>', 'Žluťoučký kůň', 'a@b.c', 'a name outside ASCII'],
  ['a@b.c <a@b.c>', 'a@b.c', 'a@b.c', 'the address as its own name'],
  ['"x@y.z, b" <a@b.c>', 'x@y.z, b', 'a@b.c', 'in quotes a name may look like a list'],
  ['Ana.Lee+x@B.Example', null, 'Ana.Lee+x@b.example', 'domain lower-cased, local part kept'],
  ["!#$%&'*+-/=?^_`{|}~@b.c", null, "!#$%&'*+-/=?^_`{|}~@b.c", 'every atext'],
  ['"john doe"@b.c', null, '"john doe"@b.c', 'a quoted local part'],
  ['"ana"@b.c', null, 'ana@b.c', 'quotes that are not needed go'],
  ['"an\\a"@b.c', null, 'ana@b.c', 'a quoted pair that is not needed goes'],
  ['""@b.c', null, '""@b.c', 'an empty quoted string is one'],
  ['X <"a<b@c"@b.c>', 'X', '"a<b@c"@b.c', '< and @ in a quoted local part'],
  ['X <"a\\"<b"@b.c>', 'X', '"a\\"<b"@b.c', 'an escaped quote before <'],
  ['"x" <"a\\\\"@b.c>', 'x', '"a\\\\"@b.c', 'an escaped backslash at the end'],
  ['a@Bücher.example', null, 'a@xn--bcher-kva.example', 'U-labels become A-labels'],
  ['a@BÜCHER。example', null, 'a@xn--bcher-kva.example', 'UTS-46 maps case and the full stop'],
  ['a@faß.example', null, 'a@xn--fa-hia.example', 'nontransitional'],
  ['a@xn--bcher-kva.example', null, 'a@xn--bcher-kva.example', 'an A-label stays'],
  ['a@XN--a.com', null, 'a@xn--a.com', 'a label of ASCII that is no punycode: DNS has no such name'],
  ['a@1.2.3.c4', null, 'a@1.2.3.c4', 'digits in a label'],
  [`${label(64)}@b.c`, null, `${label(64)}@b.c`, 'the longest local part'],
  [`a@${label(63)}.c`, null, `a@${label(63)}.c`, 'the longest label'],
];

/** [input, reason] */
const refused: readonly (readonly [string, string])[] = [
  ['', 'empty'],
  ['   ', 'only spaces'],
  ['a', 'no @'],
  ['@b.c', 'no local part'],
  ['a@', 'no domain'],
  ['a@b', 'one label'],
  ['a@b.c.', 'a trailing dot'],
  ['a@.b.c', 'an empty label'],
  ['a@b..c', 'an empty label inside'],
  ['.a@b.c', 'a leading dot'],
  ['a.@b.c', 'a trailing dot in the local part'],
  ['a..b@b.c', 'two dots'],
  ['a b@b.c', 'a space in an atom'],
  ['a@b c.d', 'a space in the domain'],
  ['a@-b.c', 'a label begins with a hyphen'],
  ['a@b-.c', 'a label ends with a hyphen'],
  ['a@b_c.d', 'an underscore is not LDH'],
  ['a@b.123', 'the last label is all digits'],
  ['a@0x7f.1', 'no IPv4 address in disguise'],
  ['a@１.２.３.４', 'nor in full-width digits'],
  ['a@[192.0.2.1]', 'an address literal'],
  ['a@[IPv6:::1]', 'an IPv6 literal'],
  ['a@%61.com', 'percent signs are not decoded'],
  [`${label(65)}@b.c`, 'local part too long'],
  [`a@${label(64)}.c`, 'label too long'],
  [`a@${`${label(62)}.`.repeat(4)}com`, 'domain too long'],
  [`${label(64)}@${`${label(62)}.`.repeat(3)}com`, 'address over 254'],
  [`${'ü'.repeat(20)}@b.c`, 'local part outside ASCII'],
  ['a(comment)@b.c', 'a comment'],
  ['a@b.c (comment)', 'a comment after'],
  ['<@relay.example:a@b.c>', 'a route'],
  ['Friends: a@b.c, d@e.f;', 'a group'],
  ['Friends:;', 'an empty group'],
  ['a@b.c, d@e.f', 'a list'],
  ['A <a@b.c>, D <d@e.f>', 'a list with names must not lose its first member'],
  ['a@b.c, D <d@e.f>', 'nor this one'],
  ['<a@b.c', 'not closed'],
  ['a@b.c>', 'not opened'],
  ['Name a@b.c', 'a name without brackets'],
  ['Name <>', 'nothing between the brackets'],
  ['"Name <a@b.c>', 'the quote of the name is open'],
  ['"a"b"@b.c', 'a quote in a quoted string'],
  ['"a"."b"@b.c', 'obsolete local part'],
  ['"a\\"@b.c', 'the last quote is escaped'],
  ['a\\@b@c.d', 'a backslash outside quotes'],
  ['a@b.c\r\nBcc: d@e.f', 'header injection'],
  ['N\r\nBcc: x <a@b.c>', 'header injection in the name'],
  ['a\u0000@b.c', 'NUL'],
  ['N\u007f <a@b.c>', 'DEL in the name'],
  ['N\u0085 <a@b.c>', 'C1 control in the name'],
  ['N\t<a@b.c>', 'a tab is a control character'],
  ['N\ud800 <a@b.c>', 'half a surrogate pair'],
  [`${'N'.repeat(1000)} <a@b.c>`, 'too long as a whole'],
];

describe('mail/address', () => {
  for (const [input, name, address, reason] of good) {
    it(`takes ${JSON.stringify(input).slice(0, 60)}: ${reason}`, () => {
      const parsed = parseMailbox(input);
      assert.ok(parsed.kind === 'ok', parsed.kind === 'bad' ? parsed.why : '');
      assert.equal(parsed.mailbox.name, name);
      assert.equal(parsed.mailbox.address, address);
      assert.equal(`${parsed.mailbox.local}@${parsed.mailbox.domain}`, address);
    });
  }

  for (const [input, reason] of refused) {
    it(`refuses ${JSON.stringify(input).slice(0, 60)}: ${reason}`, () => {
      const parsed = parseMailbox(input);
      assert.ok(parsed.kind === 'bad');
      assert.notEqual(parsed.why, '');
    });
  }

  it('tells the quoted form of a part with dots that RFC 5322 forbids', () => {
    for (const local of ['user..name', '.user', 'user.']) {
      const parsed = parseMailbox(`${local}@dest.test`);
      assert.match(parsed.kind === 'bad' ? parsed.why : '', new RegExp(`write it in quotes, as "${local}"@`));
      assert.equal(parseMailbox(`"${local}"@dest.test`).kind, 'ok');
    }
  });

  it('takes a local part outside ASCII with SMTPUTF8, but nothing invisible', () => {
    const parsed = parseMailbox('Jürgen <jürgen@bücher.example>', { smtputf8: true });
    assert.ok(parsed.kind === 'ok');
    assert.equal(parsed.mailbox.address, 'jürgen@xn--bcher-kva.example');
    for (const hidden of ['\u00a0', '\u200b', '\u202e', '\ufeff', '\u3000']) {
      assert.equal(parseMailbox(`a${hidden}b@b.c`, { smtputf8: true }).kind, 'bad');
    }
    assert.equal(parseMailbox(`${'ü'.repeat(33)}@b.c`, { smtputf8: true }).kind, 'bad', '66 octets');
  });

  it('compares by lower case', () => {
    assert.equal(addressKey('Ana.Lee@b.example'), 'ana.lee@b.example');
  });

  it('reads back what it formats', () => {
    const name = fc
      .string({ unit: 'binary', maxLength: 60 })
      .map((text) => text.replace(/[\x00-\x1f\x7f-\x9f]/g, '') || 'x');
    fc.assert(
      fc.property(fc.option(name), fc.stringMatching(/^[a-z."+ \\]{1,9}@[a-zü-]{1,5}\.[a-z]{2}$/), (shown, email) => {
        const plain = parseMailbox(email);
        fc.pre(plain.kind === 'ok');
        const mailbox = { ...plain.mailbox, name: shown };
        assert.deepEqual(parseMailbox(formatMailbox(mailbox)), { kind: 'ok', mailbox });
      }),
    );
  });

  it('bug: reads back a name that begins or ends with a space of any kind', () => {
    for (const name of ['\u205f', '\u3000Ana', 'Ana\u00a0', '\ufeffAna', ' Ana ']) {
      const mailbox = { name, local: 'a', domain: 'b.example', address: 'a@b.example' };
      assert.deepEqual(parseMailbox(formatMailbox(mailbox)), { kind: 'ok', mailbox });
    }
  });

  it('never throws, and what it takes obeys the rule', () => {
    const pieces = fc
      .array(fc.constantFrom('a', '"', '\\', '<', '>', '@', '.', ' ', ',', ':', ';', 'ü', '-', '1', '('))
      .map((all) => all.join(''));
    fc.assert(
      fc.property(fc.oneof(pieces, fc.string({ unit: 'binary' })), (text) => {
        const parsed = parseMailbox(text);
        if (parsed.kind === 'bad') return;
        const { local, domain, address } = parsed.mailbox;
        assert.match(domain, /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/);
        assert.match(address, /^[\x20-\x7e]{3,254}$/);
        assert.ok(local.length <= 64);
        assert.deepEqual(parseMailbox(address), { kind: 'ok', mailbox: { ...parsed.mailbox, name: null } });
      }),
      { numRuns: 1000 },
    );
  });

  describe('against isemail', () => {
    /** Addresses that are valid mail syntax but not by our rule, or the other way round. */
    const differs: Readonly<Record<string, string>> = {
      'test@io': 'we ask for two labels',
      'test@org': 'we ask for two labels',
    };
    /** White space around is nothing to us, line breaks included. */
    const hasOther = (address: string): boolean => address in differs || address !== address.trim();
    const ours = new Set([
      'ISEMAIL_VALID',
      'ISEMAIL_DNSWARN_NO_RECORD',
      'ISEMAIL_DNSWARN_NO_MX_RECORD',
      'ISEMAIL_RFC5321_QUOTEDSTRING',
    ]);

    it('agrees where the rules are the same', function () {
      const path = corpus('addresses/isemail/isemail.json');
      if (path === null) return this.skip(NO_CORPORA);
      const cases = JSON.parse(readFileSync(path, 'utf8')) as { address: string; diagnosis: string }[];
      const wrong: unknown[] = [];
      for (const { address, diagnosis } of cases) {
        if (hasOther(address)) continue;
        const expected = ours.has(diagnosis) ? 'ok' : 'bad';
        const actual = parseMailbox(address);
        if (actual.kind !== expected) wrong.push([address, diagnosis, actual]);
      }
      assert.ok(cases.length > 100);
      assert.deepEqual(wrong, []);
    });

    it('agrees with the list for SMTPUTF8', function () {
      const path = corpus('addresses/skeggse-isemail/test/tests.json');
      if (path === null) return this.skip(NO_CORPORA);
      const cases = JSON.parse(readFileSync(path, 'utf8')) as [string, string][];
      const wrong: unknown[] = [];
      for (const [address, label] of cases) {
        const expected = label === 'valid' || label === 'rfc5321QuotedString' ? 'ok' : 'bad';
        const actual = parseMailbox(address, { smtputf8: true });
        // UTS-46 has no place for code points that are not assigned yet.
        if (hasOther(address) || /\p{Cn}/u.test(address)) continue;
        if (actual.kind !== expected) wrong.push([address, label, actual]);
      }
      assert.deepEqual(wrong, []);
    });
  });
});
