import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { checkPassword, createPasswords } from '../../src/members/password.ts';

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

  it('matches the same password and no other, salted anew each time', async () => {
    const passwords = createPasswords();
    const [one, two] = [await passwords.hash('correct horse'), await passwords.hash('correct horse')];
    assert.match(one, /^scrypt\$32768\$8\$1\$/);
    assert.notEqual(one, two);
    assert.equal(await passwords.matches('correct horse', one), true);
    assert.equal(await passwords.matches('correct horse', two), true);
    assert.equal(await passwords.matches('correct horsf', one), false);
    assert.equal(await passwords.matches('', one), false);
    for (const stored of [null, '', 'scrypt$1$1$1$x$y', `${one}x`]) assert.equal(await passwords.matches('correct horse', stored), false); // prettier-ignore
  });

  it('takes both ways to write an accent for the same password', async () => {
    const passwords = createPasswords();
    const stored = await passwords.hash('caf\u00e9 au lait noir');
    assert.equal(await passwords.matches('cafe\u0301 au lait noir', stored), true);
  });

  it('turns away who comes when too many wait', async () => {
    const passwords = createPasswords();
    const tries = Array.from({ length: 25 }, () => passwords.matches('x', null).then(() => 'done', (error: unknown) => (error as Problem).code)); // prettier-ignore
    const results = await Promise.all(tries);
    assert.equal(results.filter((one) => one === 'service_unavailable').length, 5);
    assert.equal(await passwords.matches('x', null), false, 'and is open again afterwards');
  });
});
