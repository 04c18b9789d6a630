import assert from 'node:assert/strict';
import common from '../../config/common-passwords.json' with { type: 'json' };
import { guessedEasily } from '../../src/members/password.ts';

const CONTEXT = ['ana@acme.example', 'mail.acme.example'];

describe('members/common-passwords', () => {
  for (const password of [
    '123456789012',
    'password1234',
    'qwertyuiop12',
    'P@$$w0rd2024!',
    'Summer2024!!',
    'Welcome12345',
    'passwordpassword',
    'dragonmonkey',
    'administrator',
    '1qaz2wsx3edc',
    'q1w2e3r4t5y6',
    'qwertzuiopü+',
    'azertyuiop12',
    'abcdefghijkl',
    'aaaabbbbcccc',
    'abcabcabcabc',
    'iloveyou1234',
    '!@#$%^&*()!@',
    'liverpool1892',
    'lkjhgfdsapoi',
    'ana@acme.example',
    'Ana.Acme.2024',
    'mail.acme.example',
    'posthorn2024',
    'Posthorn!posthorn',
    'p0sth0rn-acme',
  ])
    it(`refuses ${password}`, () => {
      assert.match(guessedEasily(password, CONTEXT) ?? '', /among the first that are guessed/);
    });

  for (const password of [
    'correct horse battery staple',
    'twelve chars',
    'žluťoučký kůň',
    'silver dragon monkey banana',
    'Zebra-Lampe-17-Kran',
    'kX9$mfPq2LwZ',
    'fuchs gans hof turm',
    'acme 71 owls blink',
    '密码是一个很长的句子好不好',
  ])
    it(`takes ${password}`, () => {
      assert.equal(guessedEasily(password, CONTEXT), null);
    });

  it('refuses each of the commonest 3,000, made long enough as people do', () => {
    const taken = common.slice(0, 3000).flatMap((word) => {
      const long = [
        word.padEnd(12, '1'),
        `${word}${'2024!'.repeat(3)}`.slice(0, Math.max(12, word.length + 5)),
        word + word,
      ];
      return long.filter((one) => one.length >= 12 && guessedEasily(one) === null);
    });
    assert.ok(taken.length < 0.12 * 9000, `${String(taken.length)} of 9000: ${taken.slice(0, 40).join(' ')}`);
    assert.deepEqual(
      common.filter((word) => word.length >= 12 && guessedEasily(word) === null),
      [],
    );
  });

  it('seldom refuses what a generator makes', () => {
    let seed = 7;
    const letter = (): string => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.charAt(
        Math.floor((seed / 2_147_483_648) * 62),
      );
    };
    let refused = 0;
    for (let n = 0; n < 2000; n++) if (guessedEasily(Array.from({ length: 16 }, letter).join('')) !== null) refused++;
    assert.ok(refused < 5, String(refused));
  });
});
