import assert from 'node:assert/strict';
import type { BudgetName } from '../../src/base/budgets.ts';
import { BodyMemory } from '../../src/api/body.ts';

const MIB = 2 ** 20;
const IP = '192.0.2.1';
const noRoom = { code: 'service_unavailable' };

describe('the memory for bodies', () => {
  it('leaves room for others, however much one account takes', () => {
    const memory = new BodyMemory(256 * MIB);
    const greedy = Array.from({ length: 7 }, () => memory.begin('acc_greedy', IP));
    assert.throws(() => {
      for (let mib = 0; mib < 36; mib++) for (const one of greedy) one.take(MIB);
    }, noRoom);
    assert.ok(memory.bytes <= 129 * MIB, String(memory.bytes / MIB));
    for (let n = 0; n < 10; n++) memory.begin('acc_other', IP).take(6 * MIB);
    memory.begin('acc_third', IP).take(30 * MIB);
    for (const one of greedy) one.release();
    for (const one of greedy) one.release();
    assert.equal(memory.bytes, 90 * MIB, 'given back once');
  });

  it('gives strangers a small part, however much is free, and leaves room in it for other networks', () => {
    const refused: BudgetName[] = [];
    const memory = new BodyMemory(256 * MIB, (budget) => refused.push(budget));
    for (const [ip, mib] of [
      ['192.0.2.1', 8],
      ['198.51.100.1', 4],
      ['203.0.113.1', 2],
    ] as const) {
      for (let n = 0; n < mib; n++) memory.begin(null, ip).take(MIB);
      const late = memory.begin(null, ip.replace(/1$/, '99'));
      assert.throws(() => late.take(1), noRoom);
      late.release();
    }
    assert.deepEqual(refused, Array(3).fill('open_form_memory_network'));
    const honest = memory.begin(null, '2001:db8::1');
    honest.take(MIB);
    honest.release();
    const large = memory.begin(null, '2001:db8::1');
    assert.throws(() => large.take(3 * MIB), noRoom);
    large.release();
    assert.equal(refused.at(-1), 'open_form_memory');
    memory.begin('acc_one', IP).take(100 * MIB);
  });
});
