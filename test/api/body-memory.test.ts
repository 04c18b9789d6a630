import assert from 'node:assert/strict';
import type { BudgetName } from '../../src/base/budgets.ts';
import { BodyMemory } from '../../src/api/body-memory.ts';

const MIB = 2 ** 20;
const noRoom = { code: 'service_unavailable' };

describe('the memory for bodies', () => {
  it('leaves room for others, however much one account takes', () => {
    const memory = new BodyMemory(256 * MIB);
    const greedy = Array.from({ length: 7 }, () => memory.begin('acc_greedy'));
    assert.throws(() => {
      for (let mib = 0; mib < 36; mib++) for (const one of greedy) one.take(MIB);
    }, noRoom);
    assert.ok(memory.bytes <= 129 * MIB, String(memory.bytes / MIB));
    for (let n = 0; n < 10; n++) memory.begin('acc_other').take(6 * MIB);
    memory.begin('acc_third').take(30 * MIB);
    for (const one of greedy) one.release();
    for (const one of greedy) one.release();
    assert.equal(memory.bytes, 90 * MIB, 'given back once');
  });

  it('gives strangers a small part, however much is free', () => {
    const refused: BudgetName[] = [];
    const memory = new BodyMemory(256 * MIB, (budget) => refused.push(budget));
    const forms = Array.from({ length: 16 }, () => memory.begin(null));
    for (const form of forms) form.take(MIB);
    const late = memory.begin(null);
    assert.throws(() => {
      late.take(1);
    }, noRoom);
    late.release();
    assert.deepEqual(refused, ['open_form_memory']);
    memory.begin('acc_one').take(100 * MIB);
  });
});
