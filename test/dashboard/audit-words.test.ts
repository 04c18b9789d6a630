import assert from 'node:assert/strict';
import { objectLink, undoOf } from '../../src/dashboard/audit-words.ts';
import type { Scope } from '../../src/keys/scopes.ts';

type Entry = Parameters<typeof undoOf>[0];

const entry = (given: Partial<Entry>): Entry => ({
  id: 'aud_1',
  at: '2026-01-31T09:30:00.000Z',
  actor: 'member:ana@example.net',
  key_id: null,
  ip: null,
  method: 'PATCH',
  endpoint: '/v1/streams/{id}',
  path: '/v1/streams/str_1',
  status: 200,
  result: 'ok',
  error_code: null,
  error_field: null,
  request_id: 'req_1',
  ms: 1,
  idempotency_replayed: false,
  user_agent: null,
  operation: 'updateStream',
  object_type: 'stream',
  object_id: 'news',
  before: { paused: false },
  after: { paused: true },
  summary: 'changed the stream news',
  idempotency_key: null,
  ...given,
});
const having = (...scopes: Scope[]) => ({ isAdmin: false, may: (scope: Scope) => scopes.includes(scope) });

describe('dashboard/audit-words: undoOf', () => {
  it('resumes a stream that was paused, and pauses one that was resumed', () => {
    assert.deepEqual(undoOf(entry({}), having('stream'), new Set()), {
      label: 'Resume it',
      action: '/streams/str_1/resume',
      fields: {},
    });
    const resumed = entry({ before: { paused: true }, after: { paused: false } });
    assert.equal(undoOf(resumed, having('stream'), new Set())?.action, '/streams/str_1/pause');
  });

  it('releases a hold as long as it is in force', () => {
    const held = entry({ operation: 'queue.hold', after: { id: 'hld_1' } });
    const admin = { ...having(), isAdmin: true };
    assert.equal(undoOf(held, admin, new Set(['hld_1']))?.action, '/queue/release');
    assert.equal(undoOf(held, admin, new Set(['hld_2'])), null);
  });

  const none: Record<string, readonly [Entry, Parameters<typeof undoOf>[1]]> = {
    'for a member who may not change streams': [entry({}), having('stream:read')],
    'of another change of the stream': [entry({ before: { name: 'a' }, after: { name: 'b' } }), having('stream')],
    'of a change without a record': [entry({ before: null, after: null }), having('stream')],
    'of a refused change': [entry({ status: 403 }), having('stream')],
    'of a path that names no stream': [entry({ path: '/v1/streams/../keys' }), having('stream')],
    'of a suppression, for a member who may not add one': [
      entry({ operation: 'deleteSuppression', object_id: 'x@example.net' }),
      having('suppression:delete'),
    ],
    'of a new suppression, for a member who may not remove one': [
      entry({
        operation: 'createSuppression',
        object_id: 'x@example.net',
        after: { email: 'x@example.net', scope: 'account' },
      }),
      having('suppression'),
    ],
    'of a hold, for a member who is not an administrator': [
      entry({ operation: 'queue.hold', after: { id: 'hld_1' } }),
      having('stream'),
    ],
  };
  for (const [what, args] of Object.entries(none))
    it(`has no inverse ${what}`, () => {
      assert.equal(undoOf(...args, new Set(['hld_1'])), null);
    });

  it('has the inverse of a suppression for who may do it', () => {
    const of = (...scopes: string[]) => ({ before: { entries: scopes.map((scope) => ({ scope })) }, after: null });
    const email = { email: 'x@example.net' };
    const removed = { operation: 'deleteSuppression', object_id: 'x@example.net' };
    const undo = (...scopes: string[]) =>
      undoOf(entry({ ...removed, ...of(...scopes) }), having('suppression'), new Set());
    assert.equal(undo('account')?.action, '/suppressions');
    assert.deepEqual(undo('account')?.fields, email);
    assert.deepEqual(undo('stream:news')?.fields, { ...email, stream: 'news' });
    assert.equal(undo('account', 'stream:news'), null, 'one form makes one entry');
  });
});

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
