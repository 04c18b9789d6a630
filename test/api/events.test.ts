/** Pages of the event log that one account asks for leave the database to the others. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { createCursors } from '../../src/api/page.ts';
import { ListStreams } from '../../src/api/list-stream.ts';
import { eventRoute } from '../../src/api/events.ts';
import { EventTail } from '../../src/events/tail.ts';
import type { Caller } from '../../src/keys/caller.ts';
import { createNotifier } from '../../src/scheduling/notifier.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';
import { someCaller, startHarness } from './harness.ts';

describe('api/events', () => {
  for (const accept of ['application/json', 'application/x-ndjson'])
    it(`many pages of one account do not hold up that of another: ${accept}`, async () => {
      const { db, close } = await openTempDatabase();
      const callerOf = (accountId: string): Caller => ({ ...someCaller, accountId, scopes: ['event:read'] });
      const clock = new FakeClock();
      const h = await startHarness({
        routes: [
          eventRoute({
            db,
            clock,
            tail: new EventTail({ db, clock, log: { warn: () => undefined }, notifiers: { events: createNotifier() } }),
            cursors: createCursors(Buffer.alloc(32)),
            streams: new ListStreams(),
          }),
        ],
        callers: { one: callerOf('acc_one'), two: callerOf('acc_two') },
      });
      const done: string[] = [];
      const read = async (key: string): Promise<void> => {
        const headers = { authorization: `Bearer ${key}`, accept };
        const [response] = (await once(
          http.get({ port: h.port, host: '127.0.0.1', path: '/v1/events', headers, agent: false }),
          'response',
        )) as [http.IncomingMessage];
        await once(response.resume(), 'end');
        assert.equal(response.statusCode, 200);
        done.push(key);
      };
      await Promise.all([...Array.from({ length: 18 }, () => read('one')), read('two')]);
      assert.ok(done.indexOf('two') < 10, done.join());
      await h.stop();
      await close();
    });
});
