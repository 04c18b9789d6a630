/** Which node has which domain or endpoint: tables and properties. */
import assert from 'node:assert/strict';
import type { NodeRecord } from '../../src/storage/nodes.ts';
import { Owners } from '../../src/storage/owners.ts';

const node = (epoch: number, name: string, more: Partial<NodeRecord> = {}): NodeRecord => ({
  epoch,
  name,
  version: '1',
  isDraining: false,
  isLeader: false,
  isDelivering: true,
  isCommand: false,
  since: 0,
  quietMs: 0,
  facts: '{}',
  ...more,
});

function ownersAt(
  epoch: number,
  first: readonly NodeRecord[],
): { owners: Owners; become(next: readonly NodeRecord[]): void } {
  let records = first;
  let changed = (): void => undefined;
  const owners = new Owners({ epoch, list: () => records, onChange: (listener) => (changed = listener) });
  return {
    owners,
    become(next) {
      records = next;
      changed();
    },
  };
}

const keys = Array.from({ length: 6000 }, (_, n) => `domain-${String(n)}.example`);
const trio = [node(4, 'one'), node(5, 'two'), node(9, 'three')];
const split = (owners: Owners): Map<string, number> =>
  new Map(keys.map((key) => [key, owners.ownerOf(key)?.epoch ?? -1]));

describe('owners of domains and endpoints', () => {
  it('gives each key to exactly one node, at every node the same', () => {
    const all = trio.map(({ epoch }) => ownersAt(epoch, trio).owners);
    for (const key of keys) assert.equal(all.filter((owners) => owners.isOurs(key)).length, 1, key);
  });

  it('divides the keys evenly, also those that differ in their first or last characters only', () => {
    const { owners } = ownersAt(4, trio);
    for (const some of [keys, keys.map((key) => `${key.slice(7)}${key.slice(0, 7)}`)]) {
      const counts = new Map<number, number>();
      for (const key of some) {
        const epoch = owners.ownerOf(key)?.epoch ?? -1;
        counts.set(epoch, (counts.get(epoch) ?? 0) + 1);
      }
      for (const { epoch } of trio) assert.ok((counts.get(epoch) ?? 0) > 1800, JSON.stringify([...counts]));
    }
  });

  it('moves only the keys of a node that ends, and gives them back to one that comes under its name', () => {
    const { owners, become } = ownersAt(4, trio);
    const before = split(owners);
    become([node(4, 'one'), node(9, 'three')]);
    for (const [key, epoch] of split(owners)) if (before.get(key) !== 5) assert.equal(epoch, before.get(key), key);
    become([node(4, 'one'), node(9, 'three'), node(12, 'two')]);
    for (const [key, epoch] of split(owners)) assert.equal(epoch === 12 ? 5 : epoch, before.get(key), key);
  });

  it('gives nothing to nodes that drain and to commands; where all drain they go on', () => {
    const { owners, become } = ownersAt(4, [
      node(4, 'one', { isDraining: true }),
      node(5, 'two'),
      node(6, 'x', { isCommand: true }),
    ]);
    assert.ok(keys.every((key) => owners.ownerOf(key)?.epoch === 5));
    become([node(4, 'one', { isDraining: true }), node(5, 'two', { isDraining: true })]);
    assert.ok(keys.some((key) => owners.isOurs(key)) && keys.some((key) => !owners.isOurs(key)));
  });

  it('gives nothing to nodes without the role, also where no other is there', () => {
    const { owners, become } = ownersAt(4, [node(4, 'one', { isDelivering: false }), node(5, 'two')]);
    assert.ok(keys.every((key) => owners.ownerOf(key)?.epoch === 5));
    become([node(4, 'one', { isDelivering: false }), node(5, 'two', { isDraining: true })]);
    assert.ok(keys.every((key) => owners.ownerOf(key)?.epoch === 5));
    become([node(4, 'one', { isDelivering: false })]);
    assert.equal(owners.ownerOf('a.example'), null);
  });

  it('has no owner while nobody is known, and tells its listeners of each change until they end', () => {
    const { owners, become } = ownersAt(4, []);
    assert.equal(owners.ownerOf('a.example'), null);
    assert.equal(owners.isOurs('a.example'), false);
    let told = 0;
    const end = owners.onChange(() => told++);
    become([node(4, 'one')]);
    assert.equal(owners.isOurs('a.example'), true);
    end();
    become([]);
    assert.equal(told, 1);
  });
});
