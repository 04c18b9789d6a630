import assert from 'node:assert/strict';
import { StrangerLines } from '../../src/api/audit.ts';
import { budgets } from '../../src/base/budgets.ts';

describe('api/stranger-lines', () => {
  it('keeps so many of one network, and so many of all, an hour; the rest is counted', () => {
    const usedUp: string[] = [];
    const lines = new StrangerLines((budget) => usedUp.push(budget));
    const most = budgets.unknown_key_lines_network.most;
    const taken = (ip: string, times: number, now = 0): number =>
      Array.from({ length: times }, () => lines.take(ip, now, false)).filter(Boolean).length;
    assert.equal(taken('192.0.2.1', most + 5), most);
    assert.equal(taken('192.0.2.77', 1), 0, 'the same network');
    assert.equal(lines.notKept, 6);
    const networks = Array.from({ length: 300 }, (_, n) => `2001:db8:0:${n.toString(16)}::1`);
    const others = networks.filter((ip) => lines.take(ip, 0, false)).length;
    assert.equal(others, budgets.unknown_key_lines.most - most);
    assert.deepEqual([...new Set(usedUp)], ['unknown_key_lines_network', 'unknown_key_lines']);
    assert.equal(taken('192.0.2.1', 1, 3_600_000), 1, 'in the next hour');
  });
});
