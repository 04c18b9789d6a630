import assert from 'node:assert/strict';
import { Event, sampleEvent } from '../../src/api/records.ts';
import { allEventTypes } from '../../src/events/event.ts';

describe('api/records', () => {
  for (const type of allEventTypes)
    it(`the sample of ${type} has every member of a real one`, () => {
      const sample = sampleEvent(type, { engagement: true });
      const { data, ...event } = Event.parse(sample);
      assert.deepEqual({ ...event, data }, sample);
      assert.ok(data[type] !== undefined);
    });

  it('the sample of an open shows nobody if the endpoint must not see people', () => {
    const { opened } = Event.parse(sampleEvent('opened', { engagement: false })).data;
    assert.deepEqual({ ...opened, ip: null, user_agent: null }, opened);
  });
});
