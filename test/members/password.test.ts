import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { checkPassword, createPasswords, type Passwords } from '../../src/members/password.ts';

describe('members/password', () => {
  for (const [password, why] of [
    ['', 'nothing'],
    ['eleven char', 'one character too few'],
    ['x'.repeat(40), 'one letter over and over'],
    ['abc'.repeat(20), 'three letters'],
    ['abcd'.repeat(65), 'longer than anybody types'],
  ] as const) {
    it(`refuses ${why}`, () => {
      assert.throws(() => {
        checkPassword(password);
      }, Problem);
    });
  }

  for (const password of ['twelve chars', 'correct horse battery staple', 'žluťoučký kůň', ' leading and trailing ']) {
    it(`takes ${JSON.stringify(password)}`, () => {
      checkPassword(password);
    });
  }

  const matches = (passwords: Passwords, password: string, stored: string | null): Promise<boolean> =>
    passwords.inTurn({ name: 'here', isKnown: false }, (look) => look.matches(password, stored));

  it('matches the same password and no other, with a new salt each time', async () => {
    const passwords = createPasswords();
    const [one, two] = [await passwords.hash('correct horse'), await passwords.hash('correct horse')];
    assert.match(one, /^scrypt\$32768\$8\$1\$/);
    assert.notEqual(one, two);
    assert.equal(await matches(passwords, 'correct horse', one), true);
    assert.equal(await matches(passwords, 'correct horse', two), true);
    assert.equal(await matches(passwords, 'correct horsf', one), false);
    assert.equal(await matches(passwords, '', one), false);
    for (const stored of [null, '', 'scrypt$1$1$1$x$y', `${one}x`])
      assert.equal(await matches(passwords, 'correct horse', stored), false);
  });

  it('takes both ways to write an accent for the same password', async () => {
    const passwords = createPasswords();
    const stored = await passwords.hash('caf\u00e9 au lait noir');
    assert.equal(await matches(passwords, 'cafe\u0301 au lait noir', stored), true);
  });
});
