import assert from 'node:assert/strict';
import { auditRow, type ActWords, type AuditEntry } from '../../src/operations/audit-row.ts';

const words: ActWords = {
  says: 'changed the key {name}',
  type: 'key',
  keeps: ['name', 'scopes', 'note'],
};
const rowOf = (entry: Partial<AuditEntry>) =>
  auditRow({
    at: 0,
    accountId: 'acc_1',
    actor: 'operator',
    method: 'CLI',
    endpoint: '/v1/keys/{id}',
    operation: 'updateKey',
    requestId: 'req_1',
    status: 200,
    words,
    ...entry,
  });

describe('operations/audit-row', () => {
  it('keeps what changed of the declared members, and says it in a sentence', () => {
    const before = { object: 'key', id: 'key_1', name: 'shop', scopes: ['send'], key: 'ak_live_secret' };
    const row = rowOf({ deed: { object: 'key_1', before, after: { ...before, scopes: ['send', 'domain'] } } });
    assert.deepEqual(
      [row.object_type, row.object_id, row.before_json, row.after_json, row.summary, row.result],
      ['key', 'key_1', '{"scopes":["send"]}', '{"scopes":["send","domain"]}', 'changed the key shop', 'ok'],
    );
  });

  it('keeps the whole of what was made or removed, and never a member that is not declared', () => {
    const record = { object: 'key', id: 'key_1', name: 'shop', scopes: [], key: 'ak_live_secret' };
    const [made, gone] = [rowOf({ deed: { after: record } }), rowOf({ deed: { before: record } })];
    assert.deepEqual([made.before_json, made.after_json], [null, '{"name":"shop","scopes":[]}']);
    assert.deepEqual([gone.before_json, gone.after_json], ['{"name":"shop","scopes":[]}', null]);
    assert.doesNotMatch(JSON.stringify([made, gone]), /secret/);
  });

  it('says how a refused act ended, of what its path names', () => {
    const row = rowOf({ status: 404, code: 'not_found', deed: { object: 'key_x' } });
    assert.deepEqual([row.result, row.object_id], ['refused', 'key_x']);
    assert.equal(row.summary, 'changed the key key_x (refused: not_found)');
    assert.equal(rowOf({ status: 503 }).summary, 'changed the key … (failed)');
  });

  it('names the object by its name, not by the kind of its record, and a kind if it has no name', () => {
    const tried: ActWords = { says: 'tried the webhook endpoint {object}', type: 'webhook', named: 'webhook_id' };
    const sent: ActWords = { says: 'sent {object}', type: 'message' };
    const after = { object: 'webhook_delivery', id: 'whd_1', webhook_id: 'whk_1' };
    assert.equal(rowOf({ words: tried, deed: { after } }).summary, 'tried the webhook endpoint whk_1');
    assert.equal(rowOf({ words: sent, deed: { after: { object: 'message', id: 'msg_1' } } }).summary, 'sent msg_1');
    assert.equal(rowOf({ words: sent, status: 400 }).summary, 'sent a message (refused)');
  });

  it('does not put the name of the object in the place of what a refused act did not tell', () => {
    const moved: ActWords = { says: 'moved the message {object} to {send_at}', type: 'message' };
    const held: ActWords = { says: 'held the {scope} {target}', type: 'hold', named: 'target' };
    assert.deepEqual(
      [
        rowOf({ words: moved, status: 409, code: 'invalid_state', deed: { object: 'msg_1' } }).summary,
        rowOf({ words: held, status: 404, deed: { object: 'dest.test' } }).summary,
        rowOf({ words: held, status: 422, operation: 'queue.hold' }).summary,
      ],
      [
        'moved the message msg_1 to … (refused: invalid_state)',
        'held the … dest.test (refused)',
        'tried queue.hold (refused)',
      ],
    );
  });

  it('keeps at most 2 KB of a record, whole members only', () => {
    const row = rowOf({ deed: { after: { name: 'a', note: 'n'.repeat(5000), scopes: ['send'] } } });
    assert.equal(row.after_json, '{"name":"a","scopes":["send"]}');
  });

  it('does not name an object that must be forgotten, nor describe what only reads', () => {
    const person = { says: 'erased a person', type: 'recipient', named: null };
    assert.equal(rowOf({ words: person, deed: { object: 'ana@example.net' } }).object_id, null);
    const read = rowOf({ words: null, deed: { object: 'key_1' } });
    assert.deepEqual([read.object_type, read.object_id, read.summary], [null, null, null]);
  });
});
