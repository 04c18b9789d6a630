import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createPhraseIndex, faultOfPhrase, wordingOf } from '../../src/base/phrase.ts';

const says = (phrase: string, text: string): boolean => {
  const index = createPhraseIndex();
  const list = index.add([phrase]);
  return index.find(wordingOf(text).words).has(list);
};

describe('base/phrase', () => {
  for (const [phrase, text, why] of [
    ['user unknown', 'User unknown', 'letter case'],
    ['user unknown', '<ana@dest.test>: user: "unknown".', 'punctuation is no word'],
    ['user unknown', 'user ana@dest.test unknown', 'nor is an address'],
    ['user unknown', 'user mx1.dest.test unknown', 'nor a host name'],
    ['no such user', 'No-Such-User', 'hyphens part words'],
    ['user doesnt exist', 'user doesn’t exist', 'apostrophes do not'],
    ['adresse inconnue', "l'adresse inconnue", 'but those of an article do'],
    ['desactive', 'Compte désactivé', 'accents'],
    ['empfänger unbekannt', 'Empfaenger? Nein: EMPFÄNGER UNBEKANNT', 'in phrases too'],
    ['not found please', 'not found.Please', 'a full stop without a space is no host name'],
    ['reject*', 'rejected', 'the beginning of a word'],
    ['(user|mail box) unknown', 'mail-box unknown', 'one of several'],
    ['no such [local] user', 'no such user', 'what may be missing'],
    ['no such [local] user', 'no such local user', 'and may be there'],
    ['user ... unknown', 'user with this name is quite unknown', 'a gap'],
    ['用户不存在', '您好，用户不存在！', 'no spaces between words'],
    ['用户 ... 不存在', '该用户ana在此不存在', 'a gap there'],
    ['ユーザ', 'ﾕｰｻﾞが見つかりません', 'half-width forms'],
  ] as const) {
    it(`finds "${phrase}" in "${text}": ${why}`, () => {
      assert.ok(says(phrase, text));
    });
  }

  for (const [phrase, text, why] of [
    ['user', 'username', 'a part of a word is another word'],
    ['reject*', 'unreject', 'also at its front'],
    ['spam', 'user unknown at antispam.spam-filter.example.net', 'host names say nothing'],
    ['spam', 'user spam@dest.test unknown', 'nor do addresses'],
    ['unknown user', 'user unknown', 'the order counts'],
    ['user ... unknown', `user ${'x '.repeat(25)}unknown`, 'a gap has an end'],
    ['end', `${'word '.repeat(250)}end`, 'what stands behind 1,000 characters'],
  ] as const) {
    it(`does not find "${phrase}" in "${text.slice(0, 60)}": ${why}`, () => {
      assert.ok(!says(phrase, text));
    });
  }

  it('keeps names and links apart', () => {
    const { words, names } = wordingOf('see https://lists.example.net/why?p=NoSuch or mx.dest.test, please');
    assert.equal(words, ' see or please ');
    assert.equal(names, ' https://lists.example.net/why?p=nosuch mx.dest.test ');
  });

  it('tells which of several lists are there', () => {
    const index = createPhraseIndex();
    const [full, gone, other] = [
      index.add(['mailbox full', 'over quota']),
      index.add(['no such user']),
      index.add(['spam']),
    ];
    assert.deepEqual([...index.find(wordingOf('No such user; over quota').words)].sort(), [full, gone]);
    assert.ok(!index.find(wordingOf('well').words).has(other));
  });

  for (const [phrase, fault] of [
    ['a (b', /bracket/],
    ['a) b', /bracket/],
    ['mail(box)', /bracket/],
    ['a|b', /bracket or bar/],
    ['(a (b) c)', /bracket/],
    ['', /no word/],
    ['[perhaps]', /no word/],
    ['!!!', /nothing where a word/],
    ['(a|) b', /nothing where a word/],
    ['... user', /gap before/],
    ['a ... b ... c ... d', /more than 2 gaps/],
    ['re*', /fewer than 3 letters/],
  ] as const) {
    it(`says what is wrong with "${phrase}"`, () => {
      assert.match(faultOfPhrase(phrase) ?? '', fault);
      assert.throws(() => createPhraseIndex().add([phrase]), fault);
    });
  }

  it('finds what it is given, with any punctuation between', () => {
    const word = fc.stringMatching(/^[a-z]{1,12}$/);
    const between = fc.stringMatching(/^[ ,;:()"!?-]{1,5}$/);
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 6 }), between, fc.string(), (words, gap, around) => {
        assert.ok(says(words.join(' '), `${around.replaceAll(/[\p{L}\p{N}@._:/]/gu, ' ')} ${words.join(gap)} end`));
      }),
    );
  });

  it('reads any phrase and any text without an error of its own', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), (phrase, text) => {
        if (faultOfPhrase(phrase) === null) says(phrase, text);
        assert.match(wordingOf(text).words, /^ .*$/s);
      }),
    );
  });
});
