import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type LaneClaim, decideShare, roughly, shareOf } from '../../../src/mta/lanes/lane-shares.ts';

const claim = (epoch: number, demand: number, connections: number, allowed = 10): LaneClaim => ({
  epoch,
  demand,
  connections,
  allowed,
});

/** Nodes that look in any order, each look in one transaction, as NodeShares does it. */
class Fleet {
  readonly nodes = new Map<number, { demand: number; allowed: number; may: number; open: number }>();
  readonly rows = new Map<number, LaneClaim>();
  private last = 0;

  join(demand: number, allowed: number): void {
    this.nodes.set(++this.last, { demand, allowed, may: 1, open: 0 });
  }

  node(at: number): { epoch: number; node: { demand: number; allowed: number; may: number; open: number } } {
    const found = [...this.nodes][at % this.nodes.size];
    assert.ok(found);
    return { epoch: found[0], node: found[1] };
  }

  look(at: number): void {
    const { epoch, node } = this.node(at);
    const others = [...this.rows.values()].filter((row) => row.epoch !== epoch);
    const { demand, allowed, may, open } = node;
    const look = { epoch, had: may, open, demand, allowed, hasRate: false, mayRaise: true };
    const before = this.rows.get(epoch)?.connections ?? 1;
    const { share, claim: own } = decideShare(look, others);
    if (own === null) this.rows.delete(epoch);
    else this.rows.set(epoch, own);
    node.may = own === null ? 1 : share.connections;
    // Connections that it has to close are announced until they are: its share may grow meanwhile, but not what is reserved.
    if (own !== null && own.connections > before) {
      const reserved = [...this.rows.values()].reduce((sum, { connections }) => sum + connections, 0);
      const least = Math.min(...[...this.rows.values()].map((row) => row.allowed));
      assert.ok(reserved <= least, `${String(reserved)} of ${String(least)} after a raise`);
    }
  }

  /** Opens what it may, or closes some. */
  use(at: number, count: number): void {
    const { node } = this.node(at);
    node.open = count > node.open ? Math.max(node.open, Math.min(count, node.may)) : count;
  }

  die(at: number): void {
    const { epoch } = this.node(at);
    this.nodes.delete(epoch);
    this.rows.delete(epoch);
  }

  get open(): number {
    return [...this.nodes.values()].reduce((sum, { open }) => sum + open, 0);
  }
}

const steps = fc.array(
  fc.record({
    what: fc.constantFrom('look', 'use', 'use', 'want', 'die' as const, 'look', 'limit'),
    node: fc.nat(4),
    count: fc.nat(30),
  }),
  { maxLength: 120 },
);

describe('mta/lanes/lane-shares', () => {
  const cases: [string, LaneClaim, LaneClaim[], number][] = [
    ['all of the limit where no other node wants the lane', claim(1, 50, 1), [], 10],
    ['what the others have left', claim(1, 50, 1), [claim(2, 50, 8)], 2],
    ['one connection where the others have all', claim(1, 50, 1), [claim(2, 50, 10)], 1],
    ['its fair share at once where it has more', claim(1, 50, 10), [claim(2, 50, 1)], 5],
    ['a part by demand', claim(1, 100, 10), [claim(2, 4, 1)], 9],
    ['the odd one to the node that joined first', claim(1, 50, 1, 5), [claim(2, 50, 1, 5)], 3],
    ['and not to the other', claim(2, 50, 1, 5), [claim(1, 50, 1, 5)], 2],
    ['the smallest limit that any node knows', claim(1, 50, 10), [claim(2, 50, 1, 4)], 2],
    ['one each where there are more nodes than connections', claim(3, 9, 2, 2), [claim(1, 9, 1), claim(2, 9, 1)], 1],
    ['what it has where nobody wants more', claim(1, 0, 3), [claim(2, 0, 2)], 3],
    ['nothing of what a node without mail still has open', claim(1, 50, 1), [claim(2, 0, 6)], 4],
    ['no more than it has while the others have too many', claim(1, 50, 3, 4), [claim(2, 50, 4, 4)], 2],
  ];
  for (const [what, own, others, connections] of cases)
    it(`gives ${what}`, () => {
      assert.equal(shareOf(others, own).connections, connections);
    });

  it('divides an operator’s rate by demand', () => {
    assert.equal(shareOf([claim(2, 25, 1)], claim(1, 75, 1)).fraction, 0.75);
    assert.equal(shareOf([], claim(1, 0, 1)).fraction, 1);
  });

  it('rounds large demands only', () => {
    assert.deepEqual([0, 1, 7, 16, 17, 90, 100, 5000].map(roughly), [0, 1, 7, 16, 16, 64, 128, 4096]);
  });

  it('reserves what is open still when the share has shrunk, and needs no row in the end', () => {
    const look = { epoch: 1, had: 10, open: 9, demand: 50, allowed: 10, hasRate: false, mayRaise: true };
    const shrunk = decideShare(look, [claim(2, 64, 1)]);
    assert.deepEqual([shrunk.share.connections, shrunk.claim?.connections], [5, 9]);
    const idle = decideShare({ ...look, had: 5, open: 2, demand: 0 }, []);
    assert.deepEqual([idle.share.connections, idle.claim?.connections, idle.claim?.demand], [2, 2, 0]);
    assert.equal(decideShare({ ...look, had: 2, open: 0, demand: 1 }, []).claim, null);
    assert.equal(decideShare({ ...look, had: 1, open: 0, demand: 1, hasRate: true }, []).claim?.demand, 1);
  });

  it('raises nothing while a server has not announced what it has', () => {
    const look = { epoch: 1, had: 1, open: 1, demand: 50, allowed: 10, hasRate: false, mayRaise: false };
    assert.equal(decideShare(look, []).share.connections, 1);
    assert.equal(decideShare({ ...look, had: 10 }, [claim(2, 64, 1)]).share.connections, 5, 'but it is lowered');
  });

  it('never has more than the limit and one for each further node open, in any order of steps', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 1, max: 25 }), steps, (count, limit, taken) => {
        const fleet = new Fleet();
        for (let n = 0; n < count; n++) fleet.join(0, limit);
        for (const { what, node, count: number } of taken) {
          if (what === 'look') fleet.look(node);
          else if (what === 'use') fleet.use(node, number);
          else if (what === 'want') fleet.node(node).node.demand = number * 7;
          // Another one takes the place of a node that dies. A limit that falls counts for what is opened from then on.
          else if (what === 'limit') fleet.node(node).node.allowed = Math.max(1, Math.min(limit, number));
          else {
            fleet.die(node);
            fleet.join(number, limit);
          }
          assert.ok(fleet.open <= limit + count - 1, `${String(fleet.open)} are open of ${String(limit)}`);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('reaches the whole limit, with one connection for each node at least, where all want more', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 1, max: 25 }), steps, (count, limit, taken) => {
        const fleet = new Fleet();
        for (let n = 0; n < count; n++) fleet.join(0, limit);
        for (const { what, node, count: number } of taken) {
          if (what === 'look') fleet.look(node);
          else if (what === 'use') fleet.use(node, number);
          else if (what === 'want') fleet.node(node).node.demand = number;
        }
        for (let n = 0; n < count; n++) {
          fleet.node(n).node.demand = 30 + 100 * n;
          fleet.node(n).node.allowed = limit;
        }
        for (let round = 0; round < 6; round++)
          for (let n = 0; n < count; n++) {
            fleet.look(n);
            fleet.use(n, 0);
            fleet.use(n, fleet.node(n).node.may);
          }
        const each = [...fleet.nodes.values()].map(({ open }) => open);
        assert.equal(fleet.open, Math.max(limit, count), each.join());
        assert.ok(each.every((open) => open >= 1));
      }),
      { numRuns: 300 },
    );
  });
});
