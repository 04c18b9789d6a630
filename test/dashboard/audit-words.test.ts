import assert from 'node:assert/strict';
import { objectLink } from '../../src/dashboard/audit-words.ts';

describe('dashboard/audit-words: objectLink', () => {
  const about = (object_type: string, object_id: string) => ({ object_type, object_id, status: 200 });
  const batch = 'bat_01hzy0000000000000000000aa';

  it('leads to the page of a lane, the messages of a bulk send, the team for a member', () => {
    assert.equal(objectLink(about('lane', 'google/203.0.113.7'), true), '/queue/lane?name=google%2F203.0.113.7');
    assert.equal(objectLink(about('batch', batch), false), `/messages?q=${batch}`);
    assert.equal(objectLink(about('member', 'bo@example.net'), true), '/team');
  });

  it('leads members who are not administrators to no page of the server', () => {
    assert.equal(objectLink(about('lane', 'google'), false), null);
    assert.equal(objectLink(about('member', 'bo@example.net'), false), null);
  });
});
