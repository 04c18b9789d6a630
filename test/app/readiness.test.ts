import assert from 'node:assert/strict';
import { readiness } from '../../src/app/web.ts';

type Given = Parameters<typeof readiness>;

const database = (works: boolean): Given[0] =>
  ({ prepared: { all: () => (works ? Promise.resolve([]) : Promise.reject(new Error('closed'))) } }) as never;
const disk = (room: boolean): Given[1] => ({ hasRoom: () => room });
const taken = { code: 'EADDRINUSE', since: 0, holder: null } as const;
const open: Given[2][number] = { name: 'submission', open: 587, fault: null };

describe('readiness', () => {
  for (const [what, works, room, mx, status] of [
    ['works', true, true, { open: 25, fault: null }, 'ok'],
    ['has not opened its ports yet', true, true, { open: null, fault: null }, 'starting'],
    ['finds a port taken', true, true, { open: null, fault: taken }, 'degraded'],
    ['has a full disk while it starts', true, false, { open: null, fault: null }, 'unavailable'],
    ['has no database', false, true, { open: 25, fault: null }, 'unavailable'],
  ] as const)
    it(`is ${status} where the server ${what}`, async () => {
      assert.equal((await readiness(database(works), disk(room), [{ name: 'mx', ...mx }, open])).status, status);
    });
});
