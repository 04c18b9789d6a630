import assert from 'node:assert/strict';
import { loneNode } from '../../src/storage/nodes.ts';
import { readiness } from '../../src/api/health.ts';

type Deps = Parameters<typeof readiness>[0];

const database = (works: boolean, trouble: string | null = null): Deps['db'] =>
  ({
    commit: { trouble },
    prepared: { all: () => (works ? Promise.resolve([]) : Promise.reject(new Error('closed'))) },
  }) as never;
const disk = (room: boolean): Deps['disk'] => ({ hasRoom: () => room });
const taken = { code: 'EADDRINUSE', since: 0 } as const;
const [self] = loneNode(7, { name: 'a', version: '1', facts: '{}', since: 0 }).list();
const node = (isDraining: boolean, holdsLease = true): Deps['nodes'] => ({
  epoch: 7,
  holdsLease,
  list: () => (self === undefined ? [] : [{ ...self, isDraining }]),
});
const open: Parameters<typeof readiness>[1][number] = { name: 'submission', open: 587, fault: null };

describe('readiness', () => {
  for (const [what, works, room, mx, status] of [
    ['works', true, true, { open: 25, fault: null }, 'ok'],
    ['has not opened its ports yet', true, true, { open: null, fault: null }, 'starting'],
    ['finds a port taken', true, true, { open: null, fault: taken }, 'degraded'],
    ['has a full disk while it starts', true, false, { open: null, fault: null }, 'unavailable'],
    ['has no database', false, true, { open: 25, fault: null }, 'unavailable'],
  ] as const)
    it(`is ${status} where the server ${what}`, async () => {
      const deps = { db: database(works), disk: disk(room), nodes: node(false) };
      assert.equal((await readiness(deps, [{ name: 'mx', ...mx }, open])).status, status);
    });

  it('says that the database takes no writes', async () => {
    const deps = { db: database(true, 'No space left on device'), disk: disk(true), nodes: node(false) };
    const { status, checks } = await readiness(deps, [open]);
    assert.deepEqual([status, checks['database']], ['unavailable', false]);
  });

  for (const [what, nodes, status] of [
    ['is drained by an operator', node(true), 'draining'],
    ['has given the database no sign of life for ten seconds', node(false, false), 'unavailable'],
  ] as const)
    it(`is ${status} where the server ${what}`, async () => {
      assert.equal((await readiness({ db: database(true), disk: disk(true), nodes }, [open])).status, status);
    });
});
