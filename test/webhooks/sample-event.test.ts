import assert from 'node:assert/strict';
import { Event } from '../../src/api/records.ts';
import { allEventTypes, eventRecord } from '../../src/events/event.ts';
import { sampleEvent } from '../../src/webhooks/sample-event.ts';

describe('webhooks/sample-event', () => {
  for (const type of allEventTypes) {
    it(`${type} has every member of a real one, and says that it is a test`, () => {
      const record = eventRecord(sampleEvent(type, 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h', 0), { engagement: true });
      assert.deepEqual(Event.parse(record), record);
      const { data, test } = Event.parse(record);
      assert.equal(test, true);
      assert.ok(data[type] !== undefined);
    });
  }
});
