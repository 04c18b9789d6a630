import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { budgetNames, budgets } from '../../src/base/budgets.ts';
import { Allowance } from '../../src/scheduling/allowance.ts';
import { networkOf } from '../../src/net/ip.ts';

const root = path.resolve(import.meta.dirname, '../..');

describe('budgets', () => {
  it('are used', () => {
    const sources = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && file !== 'base/budgets.ts')
      .map((file) => readFileSync(path.join(root, 'src', file), 'utf8'))
      .join('\n');
    for (const name of budgetNames) {
      // Contents of a mail that is kept are cut silently: no client waits for an answer about it. A port for mail
      // says which of its limits was reached, and so the budget.
      const byLimit = /^(?:mx|received)(?=_(?:connections|memory)(?:_network)?$)/.exec(name);
      const isUsed = sources.includes(byLimit === null ? `'${name}'` : `\`${byLimit[0]}_\${limit}\``);
      if (budgets[name].per !== 'mail') assert.ok(isUsed, `${name} is never used up`);
    }
  });
});

describe('an allowance', () => {
  it('is for each name and for one window', () => {
    const allowance = new Allowance({ most: 10, within: 'hour' });
    assert.ok(allowance.has('a', 10, 0));
    allowance.spend('a', 8, 0);
    assert.ok(allowance.has('a', 2, 1));
    assert.ok(!allowance.has('a', 3, 1));
    assert.ok(allowance.has('b', 10, 1));
    assert.ok(allowance.has('a', 10, 3_600_000));
  });

  it('counts newcomers together once there are too many names', () => {
    const allowance = new Allowance({ most: 10, within: 'hour' }, { mostNames: 2 });
    for (const name of ['a', 'b', 'c']) allowance.spend(name, 10, 0);
    assert.ok(!allowance.has('d', 1, 0));
    assert.ok(allowance.has('d', 1, 3_600_000));
  });
});

describe('the network of an address', () => {
  for (const [address, network] of [
    ['192.0.2.77', '192.0.2.0/24'],
    ['::ffff:192.0.2.77', '192.0.2.0/24'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
  ] as const)
    it(`of ${address} is ${network}`, () => {
      assert.equal(networkOf(address), network);
    });
});
